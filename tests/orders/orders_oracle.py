"""What an index or a store should hold and answer: plain arrays, brute force in float64."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import interlace as il
from interlace.codec.encode import encode
from interlace.codec.originals import centre_of
from interlace.index.matches import Matches, RangeMatches

FloatArray = NDArray[np.float32]
DoubleArray = NDArray[np.float64]
Mask = NDArray[np.bool_]
Payload = dict[str, Any]

#: Largest difference between a reported distance and that to the decoded vector, as a share of :meth:`Rows.scale`.
#: l2 with overlapping books rounds cell terms and words to int16 (ARCHITECTURE.md); everything else is float32.
ROUNDING = {"int16": 5e-5, "float32": 5e-6}


def decoded(books: il.Codebooks, codes: NDArray[np.uint8]) -> DoubleArray:
    """Vectors that codes [n, n_bytes] stand for, in float64."""
    total = np.zeros((len(codes), books.dim))
    for position, column in enumerate((0, *books.columns)):
        if column >= 0:
            book = books.books[column]
            total[:, book.support] += book.words[codes[:, position]].astype(np.float64)
    if books.rotation is not None:
        total = total @ books.rotation.T.astype(np.float64)
    return total + books.mean.astype(np.float64)


def unit(x: FloatArray) -> FloatArray:
    """Rows of length 1, as the cosine metric compares them."""
    lengths = np.sqrt((x.astype(np.float64) ** 2).sum(1))
    return np.asarray(x / lengths[:, None], np.float32)


def as_kept(x: FloatArray, originals: str | None, centre: FloatArray) -> FloatArray | None:
    """Vectors as a store with these originals, around this centre, gives them back."""
    if originals is None:
        return None
    x = x - centre
    if originals == "float16":
        return x.astype(np.float16).astype(np.float32) + centre
    low = x.min(1, keepdims=True) if len(x) else x[:, :1]
    high = x.max(1, keepdims=True) if len(x) else x[:, :1]
    step = ((high.astype(np.float64) - low) / 255).astype(np.float32)
    steps = np.clip(np.rint((x.astype(np.float64) - low) / np.where(step > 0, step, 1)), 0, 255)
    return np.asarray(steps.astype(np.float32) * step + low + centre, np.float32)


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Rows in the order of insertion; every change gives another object."""

    books: il.Codebooks
    originals: str | None
    ids: tuple[Any, ...]
    codes: NDArray[np.uint8]
    given: FloatArray  #: vectors [n, dim] as they were coded: embedded, of length 1 for cosine
    kept: FloatArray | None  #: the same as the store keeps them
    payload: tuple[Payload, ...]
    next_id: int  #: what a store gives to the next row that comes without an id
    calibrated: bool = False  #: whether ``calibrate`` has measured recalls in a store with originals
    exact: bool = False  #: a store without codebooks: rows are the vectors themselves
    centre: Any = None  #: of the originals: that of the books with which rows were first converted
    vectors: DoubleArray = dataclasses.field(init=False)  #: [n, dim] what the codes stand for
    row_of: dict[Any, int] = dataclasses.field(init=False)

    @classmethod
    def none(cls, books: il.Codebooks, originals: str | None = None, exact: bool = False) -> Rows:
        """No rows at all."""
        given = np.zeros((0, books.dim), np.float32)
        codes = np.zeros((0, 1 + len(books.columns)), np.uint8)
        kept = None if originals is None else given
        return cls(books, originals, (), codes, given, kept, (), 0, exact, exact, centre=centre_of(books))

    def __post_init__(self) -> None:
        vectors = self.given.astype(np.float64) if self.exact else decoded(self.books, self.codes)
        object.__setattr__(self, "vectors", vectors)
        object.__setattr__(self, "row_of", {value: row for row, value in enumerate(self.ids)})
        assert len(self.row_of) == len(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    # --- writes

    def put(
        self, x: FloatArray, ids: Sequence[Any], payload: Sequence[Payload] | None = None, effort: str | None = None
    ) -> Rows:
        """Vectors, not raw inputs, added or replaced; a row that replaces another comes last."""
        x = np.ascontiguousarray(unit(x) if self.books.metric == "cosine" and len(x) else x, np.float32)
        payload = [{}] * len(ids) if payload is None else payload
        before = self.without(ids)
        new, kept = encode(self.books, x, 1, effort), as_kept(x, self.originals, self.centre)
        if self.exact and kept is not None:  # until there are codes
            kept = x
        numbers = [value + 1 for value in ids if not isinstance(value, str)]
        return dataclasses.replace(
            before,
            ids=(*before.ids, *ids),
            codes=np.concatenate([before.codes, new]),
            given=np.concatenate([before.given, x]),
            kept=None if kept is None or before.kept is None else np.concatenate([before.kept, kept]),
            payload=(*before.payload, *payload),
            next_id=max([self.next_id, *numbers]),
        )

    def without(self, ids: Sequence[Any]) -> Rows:
        """Some rows removed, those that are here."""
        gone = {self.row_of[value] for value in ids if value in self.row_of}
        if not gone:
            return self
        left = [row for row in range(len(self)) if row not in gone]
        return dataclasses.replace(
            self,
            ids=tuple(self.ids[row] for row in left),
            codes=self.codes[left],
            given=self.given[left],
            kept=None if self.kept is None else self.kept[left],
            payload=tuple(self.payload[row] for row in left),
        )

    def recoded(self, books: il.Codebooks) -> Rows:
        """By other books, from what is kept of the vectors."""
        if self.exact:
            centre = centre_of(books)
            kept, codes = as_kept(self.given, self.originals, centre), encode(books, self.given, 1)
            return dataclasses.replace(
                self, books=books, codes=codes, kept=kept, exact=False, calibrated=True, centre=centre
            )
        assert self.kept is not None
        return dataclasses.replace(self, books=books, codes=encode(books, self.kept, 1), calibrated=True)

    def plain(self) -> Rows:
        """As an index has them: ids and codes."""
        return dataclasses.replace(
            self, originals=None, kept=None, payload=({},) * len(self), next_id=0, calibrated=False
        )

    # --- answers

    def away(self, queries: FloatArray, vectors: NDArray[Any], originals: bool = False) -> DoubleArray:
        """Distances [queries, rows] in the sense of ``Matches``; originals have length 1 for cosine, up to rounding."""
        q, v = queries.astype(np.float64), vectors.astype(np.float64)
        if self.books.metric == "ip":
            return np.asarray(-(q @ v.T))
        if self.books.metric == "l2":
            return np.asarray(((q[:, None] - v[None]) ** 2).sum(2))
        if originals or self.exact:
            return np.asarray(((q[:, None] - v[None]) ** 2).sum(2) / 2)
        s = self.books.metric_type.query_length
        return np.asarray(1 - q @ v.T + ((v**2).sum(1) - 1) / (2 * s))

    def tolerance(self, queries: FloatArray) -> DoubleArray:
        """Largest rounding error of a distance, for each query [queries, 1].

        It grows with the largest words of the books, whether or not a row has them: they set the steps of int16.
        """
        metric, n = self.books.metric, len(self)
        kind = "int16" if metric != "ip" and self.books.layout != "subspace" else "float32"
        words = sum(float((book.words.astype(np.float64) ** 2).sum(1).max()) for book in self.books.books)
        longest = float((self.vectors**2).sum(1).max()) if n else 0.0
        squares = (queries.astype(np.float64) ** 2).sum(1)[:, None]
        return np.asarray(ROUNDING[kind] * (squares + max(words, longest)))

    def check_hits(
        self,
        found: Matches,
        queries: FloatArray,
        k: int,
        *,
        offset: int = 0,
        allowed: Mask | None = None,
        own: Sequence[int] | None = None,
    ) -> None:
        """Hits of queries [n, dim] by code; ``own``: a row for each query that may not be among them.

        Each distance is that to the decoded vector, hits are sorted, and ties are in the order of insertion. Where the
        margin was exact, they are those of brute force: rounding moves the j-th smallest distance by as much as the
        distances themselves at most.
        """
        exact = found.stats.is_exact
        distances, slack = self.away(queries, self.vectors), self.tolerance(queries)
        for i, (ids, reported, count) in enumerate(listed(found)):
            may = np.ones(len(self), np.bool_) if allowed is None else allowed.copy()
            if own is not None:
                may[own[i]] = False
            best = np.sort(distances[i][may])[offset : offset + k]
            rows = self._rows_of(ids, reported, count, k, may, len(best))
            assert (np.abs(distances[i][rows] - reported[:count]) <= slack[i]).all(), (i, ids, reported)
            if self.books.metric == "l2":
                assert (reported[:count] >= 0).all(), (ids, reported)
            assert (reported[:count] >= best - slack[i]).all(), (i, reported, best)
            if exact:
                assert (reported[:count] <= best + slack[i]).all(), (i, reported, best)
            equal = reported[1:count] == reported[: count - 1] if count else np.zeros(0, np.bool_)
            assert (np.diff(rows)[equal] > 0).all(), (i, ids, reported)

    def check_reranked(
        self,
        found: Matches,
        queries: FloatArray,
        k: int,
        *,
        depth: int | None,
        offset: int = 0,
        allowed: Mask | None = None,
        own: Sequence[int] | None = None,
    ) -> None:
        """Hits by the originals of the best ``depth`` rows by code (None: of a number that is not known here).

        A search by id asks for one row more, which is the row itself if its code is among the nearest.
        """
        assert self.kept is not None
        exact = found.stats.is_exact
        by_code, slack = self.away(queries, self.vectors), self.tolerance(queries)
        distances = self.away(queries, self.kept, originals=True)
        for i, (ids, reported, count) in enumerate(listed(found)):
            may = np.ones(len(self), np.bool_) if allowed is None else allowed.copy()
            if own is not None:
                may[own[i]] = False
            rows = self._rows_of(ids, reported, count, k, may, max(0, min(k, int(may.sum()) - offset)))
            near = 1e-5 * (1e-3 + float((queries[i].astype(np.float64) ** 2).sum()) + np.abs(distances[i][rows]))
            assert (np.abs(distances[i][rows] - reported[:count]) <= near).all(), (i, ids, reported)
            if not exact or depth is None or not count:
                continue
            best = np.sort(by_code[i][may])
            last, farthest = (best[min(d, len(best)) - 1] for d in (depth, depth + (own is not None)))
            assert (by_code[i][rows] <= farthest + 2 * slack[i]).all(), (i, ids)
            if not offset:  # a row that was surely looked at is among the hits, or not nearer than the last of them
                sure = may & (by_code[i] < last - 2 * slack[i])
                sure[rows] = False
                assert (distances[i][sure] >= reported[count - 1] - near.max()).all(), (i, ids)

    def _rows_of(
        self, ids: list[Any], reported: FloatArray, count: int, k: int, may: Mask, expected: int
    ) -> NDArray[np.int64]:
        """Rows of the hits of one query, after what holds for every list of hits."""
        assert len(ids) == len(reported) == k
        assert count == expected, (count, expected, ids)
        assert all(value == -1 or value is None for value in ids[count:])
        assert np.isposinf(reported[count:]).all()
        assert len(set(ids[:count])) == count, ids
        rows = np.array([self.row_of[value] for value in ids[:count]], np.int64)
        assert may[rows].all(), ids
        assert (np.diff(reported[:count]) >= 0).all(), reported
        return rows

    def check_range(self, found: RangeMatches, queries: FloatArray, radii: DoubleArray, allowed: Mask | None) -> None:
        """All rows within the radius of each query, and no others, as far as rounding tells."""
        distances, slack = self.away(queries, self.vectors), self.tolerance(queries)
        may = np.ones(len(self), np.bool_) if allowed is None else allowed
        assert len(found) == len(queries)
        for i in range(len(queries)):
            ids, reported = found[i]
            count = len(ids)
            rows = self._rows_of(ids.tolist(), reported, count, count, may, count)
            assert (reported <= radii[i]).all()
            assert (np.abs(distances[i][rows] - reported) <= slack[i]).all()
            missing = may & (distances[i] <= radii[i] - slack[i])
            missing[rows] = False
            assert not missing.any(), np.flatnonzero(missing)

    def ranks(self, query: FloatArray, row: int, allowed: Mask | None) -> tuple[int, int]:
        """The smallest and the largest rank that a row may have among the allowed ones, given rounding."""
        distances, slack = self.away(query[None], self.vectors)[0], float(self.tolerance(query[None])[0, 0])
        may = np.ones(len(self), np.bool_) if allowed is None else allowed.copy()
        may[row] = False
        others = distances[may]
        return (
            1 + int((others < distances[row] - 2 * slack).sum()),
            1 + int((others <= distances[row] + 2 * slack).sum()),
        )


def listed(found: Matches) -> list[tuple[list[Any], FloatArray, int]]:
    """Ids, distances and count of each query; of a single one too."""
    if found.ids.ndim == 1:
        return [(found.ids.tolist(), found.distances, found.counts)]
    return list(zip(found.ids.tolist(), found.distances, found.counts.tolist(), strict=True))


def same_hits(a: Matches, b: Matches) -> bool:
    """Equal to the last bit, whatever the shape."""
    return [(ids, d.tolist(), n) for ids, d, n in listed(a)] == [(ids, d.tolist(), n) for ids, d, n in listed(b)]
