"""Types of arguments, shared by the commands; a wrong value is wrong usage (exit code 2)."""

from __future__ import annotations

import argparse
import math


def positive(text: str) -> int:
    """A positive integer."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"a positive integer is needed, got {text!r}")
    return value


def natural(text: str) -> int:
    """Zero or a positive integer."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"an integer of at least 0 is needed, got {text!r}")
    return int(text)


def margin(text: str) -> float | str:
    """``exact``, ``paper``, ``inf`` or a target agreement between 0 and 1."""
    if text in ("exact", "paper"):
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if value == math.inf or 0 < value < 1:
        return value
    raise argparse.ArgumentTypeError(f"'exact', 'paper', 'inf' or a number between 0 and 1 is needed, got {text!r}")


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON for programs instead of text for people")


def add_threads(parser: argparse.ArgumentParser) -> None:
    """``--threads``."""
    parser.add_argument("--threads", type=positive, metavar="N", help="threads to use (default: all cores)")
