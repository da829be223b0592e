"""Argument types and options shared by the commands; a wrong value is wrong usage (exit code 2)."""

from __future__ import annotations

import argparse
import math
from typing import Any, get_args

from ..inputs.literals import Effort, Layout, Margin, Metric, Rotation


def positive(text: str) -> int:
    """A positive integer."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return value


def natural(text: str) -> int:
    """Zero or a positive integer."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected an integer of at least 0, got {text!r}")
    return int(text)


def number(text: str) -> float:
    """A number; nan for any other text."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def share(text: str) -> float:
    """A number above 0 and at most 1."""
    value = number(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0 and at most 1, got {text!r}")
    return value


def margin(text: str) -> Margin:
    """``exact``, ``paper``, ``inf`` or a target agreement between 0 and 1."""
    words: dict[str, Margin] = {"exact": "exact", "paper": "paper"}
    if text in words:
        return words[text]
    value = number(text)
    if value == math.inf or 0 < value < 1:
        return value
    raise argparse.ArgumentTypeError(f"expected 'exact', 'paper', 'inf' or a number between 0 and 1, got {text!r}")


def add_margin(parser: argparse.ArgumentParser) -> None:
    """``--margin``, for commands whose help does not list the margins."""
    default = "0.999, or as with --recall 0.95 where originals are kept and --rerank is not given"
    parser.add_argument(
        "--margin", type=margin, help=f"as in `interlace search`: 0.999, exact, paper, inf (default: {default})"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_row_ids(parser: argparse.ArgumentParser, default: str) -> None:
    """``--ids``."""
    text = "ids of the rows: a 1-D .npy, text with one id per line, or a column of a .parquet DATA"
    parser.add_argument("--ids", metavar="FILE|COLUMN", help=f"{text} (default: its column id, or else {default})")


def add_embedded(parser: argparse.ArgumentParser) -> None:
    """``--embedded``."""
    parser.add_argument(
        "--embedded",
        action="store_true",
        help="the files hold embedded vectors instead of raw inputs (for an index with an embedding)",
    )


def add_threads(parser: argparse.ArgumentParser) -> None:
    """``--threads``."""
    parser.add_argument("--threads", type=positive, metavar="N", help="threads to use (default: all cores)")


def memory(text: str) -> int | str:
    """Bytes, or a number with a unit, which the library parses."""
    return int(text) if text.isascii() and text.isdigit() else text


#: Learning settings. An option that is not given is not in the namespace, so the default of the library applies.
LEARNING = (
    *("n_bytes", "n_books", "n_words", "layout", "metric", "n_crude", "rotation", "cross", "effort"),
    *("parallel_weight", "cells", "iterations", "max_train_rows", "max_memory", "seed"),
)


def add_learning(parser: argparse.ArgumentParser, *, metric: bool = True) -> None:
    """Learning options of `build`, `fit` and `plan`; without ``metric`` for `relearn`, which keeps its metric."""
    group = parser.add_argument_group("learning")

    def add(to: Any, *names: str, **settings: Any) -> None:
        to.add_argument(*names, default=argparse.SUPPRESS, **settings)

    size = group.add_mutually_exclusive_group()
    add(
        size,
        "--n-bytes",
        "--bytes",
        type=positive,
        metavar="N",
        help="bytes per vector; more bytes are more accurate (8)",
    )
    add(
        size,
        "--n-books",
        "--books",
        type=positive,
        metavar="N",
        help="number of codebooks instead of bytes; a norm column is not counted",
    )
    add(
        group,
        "--layout",
        choices=get_args(Layout),
        help="how codebooks divide the dimensions; auto tries all on a sample (auto)",
    )
    if metric:
        add(group, "--metric", choices=get_args(Metric), help="how distances are computed (l2)")
    add(group, "--n-words", type=positive, metavar="N", help="words per codebook, 2 to 256 (256)")
    add(
        group,
        "--n-crude",
        type=positive,
        metavar="N",
        help="codebooks read in the first (crude) step (depends on the layout)",
    )
    add(
        group,
        "--rotation",
        choices=get_args(Rotation),
        help="rotation of the vectors before encoding; learned only with subspace (auto)",
    )
    cross = ("auto", "none", "exact", "byte", "constant")
    what = (
        "cross terms of codebooks that share dimensions: computed, stored in a byte, or, with labels, constant (auto)"
    )
    add(group, "--cross", choices=cross, help=what)
    add(group, "--effort", choices=get_args(Effort), help="learning and encoding time against accuracy (balanced)")
    add(
        group,
        "--parallel-weight",
        type=float,
        metavar="W",
        help="with --metric ip, weight of errors along the vector itself, such as 1.5 (1: the squared error)",
    )
    add(
        group,
        "--cells",
        type=positive,
        metavar="N",
        help="groups that rows are sorted into, at most 65536 (default: one for 250 rows or more)",
    )
    add(
        group,
        "--iterations",
        type=natural,
        metavar="N",
        help="most rounds of learning for codebooks that share dimensions (10)",
    )
    add(group, "--max-train-rows", type=positive, metavar="N", help="learn from at most N rows (65536)")
    add(
        group,
        "--max-memory",
        type=memory,
        metavar="SIZE",
        help="upper bound of memory, such as 2GB; learns from fewer rows if necessary",
    )
    add(
        group,
        "--seed",
        type=natural,
        metavar="N",
        help="seed of random numbers; the same seed gives the same codebooks (0)",
    )


def learning(args: argparse.Namespace) -> dict[str, Any]:
    """The learning settings that were given."""
    return {name: vars(args)[name] for name in LEARNING if name in args}
