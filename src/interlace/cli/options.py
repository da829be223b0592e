"""Types of arguments, shared by the commands; a wrong value is wrong usage (exit code 2)."""

from __future__ import annotations

import argparse
import math
from typing import Any

from ..inputs.literals import Margin


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


def share(text: str) -> float:
    """A number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"a number above 0 and at most 1 is needed, got {text!r}")
    return value


def margin(text: str) -> Margin:
    """``exact``, ``paper``, ``inf`` or a target agreement between 0 and 1."""
    words: dict[str, Margin] = {"exact": "exact", "paper": "paper"}
    if text in words:
        return words[text]
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


def add_embedded(parser: argparse.ArgumentParser) -> None:
    """``--embedded``."""
    parser.add_argument(
        "--embedded",
        action="store_true",
        help="the files hold vectors, not the raw inputs that an index with an embedding takes",
    )


def add_threads(parser: argparse.ArgumentParser) -> None:
    """``--threads``."""
    parser.add_argument("--threads", type=positive, metavar="N", help="threads to use (default: all cores)")


def memory(text: str) -> int | str:
    """Bytes, or a number with a unit, which the library reads."""
    return int(text) if text.isascii() and text.isdigit() else text


#: Settings that learning takes; an option that was not given is not in the namespace, and the default is the library's.
LEARNING = (
    *("n_bytes", "n_books", "n_words", "layout", "metric", "n_crude", "rotation", "cross", "effort", "iterations"),
    *("max_train_rows", "max_memory", "seed"),
)


def add_learning(parser: argparse.ArgumentParser, *, metric: bool = True) -> None:
    """How books are learned: the options of `build` and `fit`, and of `plan`; `relearn` has a metric already."""
    group = parser.add_argument_group("learning")

    def add(to: Any, *names: str, **settings: Any) -> None:
        to.add_argument(*names, default=argparse.SUPPRESS, **settings)

    size = group.add_mutually_exclusive_group()
    add(size, "--n-bytes", "--bytes", type=positive, metavar="N", help="bytes per vector: more is more accurate (8)")
    add(size, "--n-books", "--books", type=positive, metavar="N", help="the same in books, a norm column not counted")
    layouts = ("auto", "hybrid", "subspace", "residual")
    add(group, "--layout", choices=layouts, help="how books share the dimensions; auto tries them on a sample (auto)")
    metrics = ("l2", "ip", "cosine")
    if metric:
        add(group, "--metric", choices=metrics, help="l2 (Euclidean), ip (inner product) or cosine (l2)")
    add(group, "--n-words", type=positive, metavar="N", help="words of a book, 2 to 256 (256)")
    add(group, "--n-crude", type=positive, metavar="N", help="books read in the first, crude step (by layout)")
    rotations = ("auto", "principal", "learned", "none")
    add(group, "--rotation", choices=rotations, help="axes that books stand on; learned is for subspace (auto)")
    cross = ("auto", "none", "exact", "byte", "constant")
    what = "terms between books that share dimensions: computed, a byte, with labels also a constant (auto)"
    add(group, "--cross", choices=cross, help=what)
    efforts = ("fastest", "fast", "balanced", "best")
    add(group, "--effort", choices=efforts, help="time of learning and coding against accuracy (balanced)")
    add(
        group,
        "--iterations",
        type=natural,
        metavar="N",
        help="at most this many rounds of learning where books overlap (10)",
    )
    add(group, "--max-train-rows", type=positive, metavar="N", help="at most so many rows are learned from (65536)")
    add(
        group,
        "--max-memory",
        type=memory,
        metavar="SIZE",
        help="upper bound, such as 2GB: learns from fewer rows if need be",
    )
    add(group, "--seed", type=natural, metavar="N", help="same seed, same books (0)")


def learning(args: argparse.Namespace) -> dict[str, Any]:
    """Settings of learning that were given."""
    return {name: vars(args)[name] for name in LEARNING if name in args}
