"""How much work learning does: rounds, rows and beams. learners follow these numbers, ``cost`` adds them up."""

from __future__ import annotations

from dataclasses import dataclass

#: Rounds of k-means for product books, which nothing refits; for the cells that give the axes of ``hybrid``; for each
#: turn of a learned rotation. One more pass assigns the rows.
PRODUCT_ROUNDS, CELL_ROUNDS, TURN_ROUNDS = 15, 8, 4
#: Turns of a learned rotation.
LEARNED_ROUNDS = 6
#: Rounds of refitting code the rows with a narrow beam first and with a wide one in the last rounds. Words that a
#: narrow beam finds are no worse (error .1436 for .1454 of SIFT), and it takes half of the time. Rounds with a narrow
#: beam end when the error falls by less than SETTLED.
NARROW_BEAM, WIDE_BEAM, SETTLED = 2, 8, 0.005
#: A round with a narrow beam takes half of the rows, others each time, but no fewer than this. Where these are not all
#: rows, the errors of two rounds cannot be compared, and no round is left out.
ROUND_ROWS = 24576
#: Passes over the codes for one refit: conjugate gradients, and the one that begins.
REFIT_PASSES = 8


@dataclass(frozen=True)
class Rounds:
    """Learning at one effort: rounds of the k-means that starts a book, the most refits, those with a wide beam."""

    start: int
    refits: int | None  # None: as many as ``iterations`` says
    wide: int
    auto: str  # what ``layout="auto"`` does: compare layouts, take the usual one, or hybrid


#: By effort. Fewer rounds of k-means, or fewer rows, end in worse books.
ROUNDS = {
    "fastest": Rounds(4, 2, 1, "hybrid"),
    "fast": Rounds(6, 3, 1, "usual"),
    "balanced": Rounds(10, None, 2, "compare"),
    "best": Rounds(12, None, 3, "compare"),
}

#: Bounds of the trial of ``layout="auto"``: rows to search, queries, refits.
TRIAL_ROWS, TRIAL_QUERIES, TRIAL_REFITS = 16384, 300, 3
#: Rows to learn from in a trial: at least, for each byte, at most. Many residual books need many rows: 16 of them,
#: learned from 12,288 rows of SIFT, were worse than hybrid ones; from 32,768 they are better, as from all rows.
LEAST_TRAIN, TRAIN_PER_BYTE, MOST_TRAIN = 12288, 2048, 32768
#: More bytes than this make residual books slow to code with: cross terms grow with the square of the books.
MOST_RESIDUAL_BYTES = 24
#: Rows to learn from, below which layouts are not compared: a search of so few rows is quick in any layout, and the
#: trial would take longer than learning.
COMPARE_FROM = 32768
#: Without a trial, residual books need at least this many rows and dimensions for each byte. From fewer rows they code
#: those rows well and others badly: recall@10 of hybrid against residual books for 8 bytes of SIFT, learned from 4,000
#: rows, is .656 : .739 on these and .569 : .518 on others; from 8,192 rows .608 : .670 and .571 : .562.
RESIDUAL_ROWS_PER_BYTE, RESIDUAL_DIMS_PER_BYTE = 1024, 2


def trial_train(n_bytes: int) -> int:
    """Rows that each layout is learned from for the trial, at most."""
    return min(max(LEAST_TRAIN, TRAIN_PER_BYTE * n_bytes), MOST_TRAIN)


def usual_layout(
    layouts: tuple[str, ...], n_bytes: int, dim: int, n_train: int, effort: str = "balanced"
) -> tuple[str, str]:
    """The one of ``layouts`` that is taken without a trial, and why."""
    usual = "hybrid" if "hybrid" in layouts else layouts[0]
    if len(layouts) == 1:
        return usual, "the only one that the other settings allow"
    if n_bytes < 3 or dim < 4:
        usual = usual if n_bytes > 1 and dim > 1 else "subspace"
        return usual, "so few bytes or dimensions leave no choice that matters"
    compared = ROUNDS[effort].auto == "compare"
    why = f"{n_train} rows are too few to compare layouts ({COMPARE_FROM})"
    why = why if compared else f"effort={effort!r} compares no layouts"
    enough = n_train >= RESIDUAL_ROWS_PER_BYTE * n_bytes and dim >= RESIDUAL_DIMS_PER_BYTE * n_bytes
    may = "residual" in layouts and n_bytes <= MOST_RESIDUAL_BYTES and ROUNDS[effort].auto != "hybrid"
    return ("residual", f"the most accurate one; {why}") if may and enough else (usual, f"the usual one; {why}")


def tried_layouts(layouts: tuple[str, ...], n_bytes: int, dim: int, n_train: int, effort: str) -> tuple[str, ...]:
    """Those of ``layouts`` that ``"auto"`` compares on the data; none where :func:`usual_layout` decides."""
    if len(layouts) == 1 or n_bytes < 3 or dim < 4 or n_train < COMPARE_FROM or ROUNDS[effort].auto != "compare":
        return ()
    return tuple(layout for layout in layouts if layout != "residual" or n_bytes <= MOST_RESIDUAL_BYTES)


def refit_rounds(effort: str, iterations: int) -> tuple[int, int]:
    """Refits with a narrow beam, at most, and with a wide one."""
    rounds = ROUNDS[effort]
    total = iterations if rounds.refits is None else min(iterations, rounds.refits)
    wide = min(rounds.wide, total)
    return total - wide, wide


def default_crude(n_books: int) -> int:
    """Crude books: three quarters, because a column of the scan is cheap and a survivor is not."""
    return min(9, max(1, 3 * n_books // 4))
