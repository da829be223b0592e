"""How much work learning does: rounds, rows and beams. ``books`` and ``layouts`` follow it, ``cost`` adds it up."""

from __future__ import annotations

from dataclasses import dataclass

#: Rounds of k-means: for product books, which are not refitted; for the cells that give ``hybrid`` its axes; for each
#: round of a learned rotation. One more pass assigns the rows.
PRODUCT_ROUNDS, CELL_ROUNDS, ROTATION_KMEANS_ROUNDS = 15, 8, 4
#: Rounds of a learned rotation.
ROTATION_ROUNDS = 6
#: Refits encode the rows with a narrow beam first and with a wide one in the last rounds. The words are as good (error
#: .1436 instead of .1454 on SIFT) in half of the time. Rounds with a narrow beam end when the error falls by less than
#: the share MIN_GAIN.
NARROW_BEAM, WIDE_BEAM, MIN_GAIN = 2, 8, 0.005
#: A round with a narrow beam uses a random half of the rows, but at least this many. If that is not all rows, errors of
#: two rounds cannot be compared, and no round is skipped.
ROUND_ROWS = 24576
#: Passes over the codes in one refit by conjugate gradients, the first one included.
REFIT_PASSES = 8
#: Refits for the same codes with a score-aware loss, each to other targets: one leaves (weight - 1) / (weight + 1) of
#: the distance to the best words.
PARALLEL_REFITS = 2


@dataclass(frozen=True)
class Rounds:
    """Rounds of learning at one effort."""

    start: int  #: k-means rounds that initialize an overlapping book
    refits: int | None  #: the most refits; None: ``iterations``
    wide: int  #: refits with a wide beam, at the end
    auto: str  #: what ``layout="auto"`` does: ``"compare"`` layouts, take the ``"usual"`` one, or ``"hybrid"``


#: By effort. Fewer rounds of k-means, or fewer rows, end in worse books.
ROUNDS = {
    "fastest": Rounds(4, 2, 1, "hybrid"),
    "fast": Rounds(6, 3, 1, "usual"),
    "balanced": Rounds(10, None, 2, "compare"),
    "best": Rounds(12, None, 3, "compare"),
}


def refit_rounds(effort: str, iterations: int) -> tuple[int, int]:
    """The most refits with a narrow beam, and the number of refits with a wide one."""
    rounds = ROUNDS[effort]
    total = iterations if rounds.refits is None else min(iterations, rounds.refits)
    wide = min(rounds.wide, total)
    return total - wide, wide


def rows_per_round(n: int) -> int:
    """Rows that a refit with a narrow beam uses, of n."""
    return max(n // 2, min(n, ROUND_ROWS))


def default_crude(n_books: int) -> int:
    """Number of crude books: three quarters, because a column of the scan is cheap and a survivor is not."""
    return min(9, max(1, 3 * n_books // 4))
