"""What ``layout="auto"`` does before it looks at the data: which layouts it compares, or which one it takes.

``auto`` does the comparison; ``cost`` predicts it.
"""

from __future__ import annotations

from ..codec.book import is_long
from ..codec.metric import METRICS
from .schedule import ROUNDS
from .settings import Settings

#: A trial searches this many rows with this many queries, in codebooks of this many refits, at most.
TRIAL_ROWS, TRIAL_QUERIES, TRIAL_REFITS = 16384, 300, 3
#: Rows that a trial learns from: at least, for each byte, at most. Many residual books need many rows: 16 of them,
#: learned from 12,288 rows of SIFT, were worse than hybrid ones; from 32,768 they are better, as from all rows.
MIN_TRIAL_TRAIN, TRIAL_TRAIN_PER_BYTE, MAX_TRIAL_TRAIN = 12288, 2048, 32768
#: Layouts are compared if there are at least this many rows to learn from. Fewer are searched quickly in any layout,
#: and the trial would take longer than learning.
COMPARE_FROM = 32768
#: Without a trial, residual books need at least this many rows, and dimensions for each byte. From fewer rows they code
#: those rows well and others badly: recall@10 of hybrid against residual books for 8 bytes of SIFT, learned from 4,000
#: rows, is .656 : .739 on these and .569 : .518 on others; from 8,192 rows .608 : .670 and .571 : .562. For 16 bytes of
#: text vectors from 9,000 rows it is .579 : .653 and .521 : .516.
RESIDUAL_ROWS, RESIDUAL_DIMS_PER_BYTE = 8192, 2
#: Without a trial, long codes of more dimensions are not residual: the tables of a query would take longer than its
#: rows (benchmarks/LIMITS.md).
LONG_RESIDUAL_DIMS = 512


def scans_all(settings: Settings, n_books: int) -> bool:
    """Whether the crude step of ``hybrid`` books reads all of them, because codes are long.

    The smallest entries of the tables that a short crude step does not read bound a distance too loosely: in a
    one-off run, 40,000 text vectors of 64 bytes had 37,000 survivors of nine crude books, and 50 of all.
    """
    return is_long(n_books, settings.cross == "byte")


def folds(settings: Settings, n_books: int) -> bool:
    """Whether books fold cells that share dimensions with them, whatever the number of cells.

    Tables for each visited cell cost more than the rows of the cell if codes are long.
    """
    return METRICS[settings.metric].is_squared and scans_all(settings, n_books)


def trial_train_rows(n_bytes: int) -> int:
    """Rows that a trial learns from, at most."""
    return min(max(MIN_TRIAL_TRAIN, TRIAL_TRAIN_PER_BYTE * n_bytes), MAX_TRIAL_TRAIN)


def compared_layouts(settings: Settings, dim: int, n_train: int) -> tuple[str, ...]:
    """Layouts that ``"auto"`` compares on the data, the slowest to learn last; none if :func:`usual_layout` decides."""
    layouts = settings.layouts()
    if settings.layout != "auto" or len(layouts) == 1 or _too_small(settings, dim):
        return ()
    if n_train < COMPARE_FROM or ROUNDS[settings.effort].auto != "compare":
        return ()
    return layouts


def usual_layout(settings: Settings, dim: int, n_train: int) -> tuple[str, str]:
    """The layout that is taken without a trial, and why."""
    if settings.layout != "auto":
        return settings.layout, "asked for"
    layouts, n_bytes, rule = settings.layouts(), settings.code_bytes, ROUNDS[settings.effort].auto
    usual = "hybrid" if "hybrid" in layouts else layouts[0]
    if len(layouts) == 1:
        return usual, "the only one that the other settings allow"
    if _too_small(settings, dim):
        usual = usual if n_bytes > 1 and dim > 1 else "subspace"
        return usual, f"with {n_bytes} bytes and {dim} dimensions all layouts are nearly the same"
    if rule == "compare":
        why = f"{n_train} rows are too few to compare layouts ({COMPARE_FROM})"
    else:
        why = f"effort={settings.effort!r} compares no layouts"
    enough = n_train >= RESIDUAL_ROWS and dim >= RESIDUAL_DIMS_PER_BYTE * n_bytes
    if scans_all(settings, settings.max_books) and dim > LONG_RESIDUAL_DIMS:
        enough = False
    if "residual" in layouts and rule != "hybrid" and enough:
        return "residual", f"the most accurate one; {why}"
    return usual, f"the usual one; {why}"


def _too_small(settings: Settings, dim: int) -> bool:
    """Whether there are so few bytes or dimensions that layouts hardly differ."""
    return settings.code_bytes < 3 or dim < 4
