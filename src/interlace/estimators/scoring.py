"""Mean average precision of queries that are ranked by the exhaustive scan of codes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codebooks
from ..errors import InputError, warn_user
from ..evaluate.ranking import average_precision, scores_of_ranking, some_labels
from ..evaluate.squares import row_squares
from ..index.index import Index
from ..inputs.arrays import Rows, positive
from ..inputs.labels import as_labels

Labels = NDArray[Any]

#: For lists longer than this, sorting all rows is faster than a top-k search.
LONG_LIST = 4096
#: Ranked rows held at a time; with ids, distances and labels about 100 MB.
RANKED_ROWS = 1 << 22


def read_labels(labels: Any, n: int, name: str, rows: str) -> Labels:
    """Labels as ``fit`` accepts them; bools become integers."""
    array = as_labels(labels, n, name=name, rows=rows)
    return array.astype(np.int64) if array.dtype.kind == "b" else array


def mean_average_precisions(
    index: Index,
    codebooks: Codebooks,
    codes: NDArray[np.uint8],
    labels: Labels,
    queries: Rows,
    wanted: Labels,
    *,
    at: Sequence[int | None],
    threads: int | None,
) -> list[float]:
    """MAP@k for every k in ``at`` (None: the whole ranking). ``index`` holds ``codes``, whose rows have ``labels``."""
    if (labels.dtype.kind in "iu") != (wanted.dtype.kind in "iu"):
        raise InputError(f"y has dtype {wanted.dtype}, the labels of the database {labels.dtype}: they never equal")
    if not len(queries) or not len(codes):
        raise InputError(f"score needs queries and a database, got {len(queries)} and {len(codes)} rows")
    _check_known(wanted, labels)
    cuts = [min(len(codes), len(codes) if k is None else positive(k, "at")) for k in at]
    if max(cuts) > LONG_LIST and codebooks.metric_type.is_squared:
        return _by_sorting(index, codebooks, codes, labels, queries, wanted, cuts)
    totals, start = np.zeros(len(cuts)), 0
    for block in queries.blocks(max(1, RANKED_ROWS // max(cuts))):
        found = index.search(block, max(cuts), margin=math.inf, threads=threads).ids
        hits = labels[found] == wanted[start : start + len(block), None]
        totals += [average_precision(hits[:, :k]).sum() for k in cuts]
        start += len(block)
    return [float(total / len(queries)) for total in totals]


def _by_sorting(
    index: Index,
    codebooks: Codebooks,
    codes: NDArray[np.uint8],
    labels: Labels,
    queries: Rows,
    wanted: Labels,
    cuts: list[int],
) -> list[float]:
    """The same measure by sorting the distances to all rows."""
    squares = row_squares(index.engine)
    decoded, totals, start = codebooks.decode(codes), np.zeros(len(cuts)), 0
    for block in queries.blocks():
        mine = wanted[start : start + len(block)]
        found = scores_of_ranking(block, decoded, mine, labels, at=cuts, squares=squares)
        totals += [found[f"map@{k}"] * len(block) for k in cuts]
        start += len(block)
    return [float(total / len(queries)) for total in totals]


def _check_known(wanted: Labels, labels: Labels) -> None:
    """Warns about query labels that the database does not have; raises InputError if it has none of them."""
    known = np.isin(wanted, labels)
    if known.all():
        return
    missing = some_labels(wanted[~known])
    if not known.any():
        raise InputError(
            "no row of the database has the label of a query: the labels in y are "
            f"{missing}, those of the database {some_labels(labels)}"
        )
    warn_user(
        f"{int((~known).sum())} of {len(wanted)} queries have a label that no row of the database has ({missing}): "
        "their average precision is 0"
    )
