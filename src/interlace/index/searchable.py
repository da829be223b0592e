"""The searches that an index, a store and a snapshot of one have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.explaining import Explanation
from ..engine.filters import Allowed
from ..errors import InputError
from ..inputs.literals import Margin
from .evaluation import Evaluation, evaluate
from .matches import Matches, RangeMatches
from .searcher import Searcher


class Searchable(ABC):
    """Has a :attr:`searcher`, and the searches of users."""

    @property
    @abstractmethod
    def searcher(self) -> Searcher:
        """The current rows, ready to be searched; later writes do not change it."""

    def search(
        self,
        q: Any,
        k: int = 10,
        *,
        offset: int = 0,
        margin: Margin | None = None,
        threads: int | None = None,
        filter: Any = None,
        embedded: bool = False,
        rerank: int | None = None,
        recall: float | None = None,
    ) -> Matches:
        """Find the k nearest rows of each query; with ``offset``, the k that follow the first ``offset``.

        Queries are raw inputs if there is an embedding, vectors with ``embedded=True``. A single query, 1-D or in the
        shape of an input, gives 1-D results.

        ``margin`` is ``"exact"`` (the answer of the exhaustive scan of the codes), a target agreement with it
        (calibrated; falls back to exact where the calibration does not reach, see ``stats.fallback``), ``"paper"``, or
        ``inf`` (exhaustive). By default it is 0.999.

        ``filter`` is a boolean mask over rows in insertion order, an array of allowed ids, what :meth:`allow` made of
        either, or, for a store with columns, an expression such as ``"price < 10 and tag in ('a', 'b')"`` or a
        ``pyarrow.compute.Expression``. Filtered searches are exact where the margin is calibrated.

        Where originals are kept, the ``rerank`` best rows by code are compared with their originals, and the k nearest
        of those are returned with these distances. ``recall`` chooses ``rerank`` and ``margin`` from the calibration.
        Without any of the three a search is one with ``recall=0.95``, or the deepest one that was measured if the
        calibration does not support it (``stats.chosen``). With ``margin`` alone it returns the nearest rows by code.
        """
        return self.searcher.search(
            q,
            k,
            offset=offset,
            margin=margin,
            threads=threads,
            filter=filter,
            embedded=embedded,
            rerank=rerank,
            recall=recall,
        )

    def search_by_id(
        self,
        ids: Any,
        k: int = 10,
        *,
        exclude_self: bool = True,
        offset: int = 0,
        margin: Margin | None = None,
        threads: int | None = None,
        filter: Any = None,
        rerank: int | None = None,
        recall: float | None = None,
    ) -> Matches:
        """Find the k nearest rows of stored rows, by their originals, or by the vectors that their codes stand for.

        ``ids`` is one id or a list of them. A row is not its own neighbour unless ``exclude_self=False``; other rows
        with the same code are neighbours at distance 0 (of the metric). Where originals are kept and ``margin`` is not
        given alone, as for :meth:`search`, the queries are the originals of these rows.
        """
        return self.searcher.search_by_id(
            ids,
            k,
            exclude_self=exclude_self,
            offset=offset,
            margin=margin,
            threads=threads,
            filter=filter,
            rerank=rerank,
            recall=recall,
        )

    def range_search(
        self,
        q: Any,
        radius: Any,
        *,
        margin: Margin = "exact",
        threads: int | None = None,
        filter: Any = None,
        embedded: bool = False,
    ) -> RangeMatches:
        """Find all rows whose distance to each query is at most ``radius``, nearest first.

        The radius, one number or one for each query, is compared with ``distances`` as they are reported: squared
        distances for l2; 1 - cosine for cosine, so that ``radius=0.2`` asks for a similarity of at least 0.8; minus the
        inner product for ip, so that ``radius=-5`` asks for one of at least 5. The answer is that of the exhaustive
        scan whatever ``margin``, whose targets are calibrated for k hits and not for radii; ``inf`` runs that scan.
        ``filter`` and ``embedded`` as for :meth:`search`. The number of hits is limited only by memory: 12 bytes each.
        """
        return self.searcher.range_search(q, radius, margin=margin, threads=threads, filter=filter, embedded=embedded)

    def explain(
        self,
        q: Any,
        id: int | str,
        k: int = 10,
        *,
        margin: Margin | None = None,
        filter: Any = None,
        embedded: bool = False,
    ) -> Explanation:
        """Explain what ``search(q, k, margin=..., filter=...)`` did with one row, and at which step it was lost.

        It is about the search by codes: a row beyond k may still be found by a re-rank of as many rows as its ``rank``.
        Where a search without ``margin`` is re-ranked by originals, it is about the rows that these are compared with.
        ``q`` is a single query. The search runs again, and so does the exhaustive one, so this takes several times as
        long as a search.
        """
        return self.searcher.explain(q, id, k, margin=margin, filter=filter, embedded=embedded)

    def allow(self, filter: Any) -> Allowed:
        """Prepare a filter (as for :meth:`search`) for many calls: pass the result as ``filter``.

        Every call prepares its filter anyway, once for all of its queries, at a cost that falls with the number of
        allowed rows. For many calls of a few queries each, this does it once. The result is valid until rows are added
        or removed.
        """
        found = self.searcher.allowed(filter)
        if found is None:
            raise InputError("filter must be a boolean mask, ids or an expression, got None")
        return found

    def distance_error(self, q: Any, *, embedded: bool = False) -> float | NDArray[np.float64]:
        """Bound the rounding error of distances to these queries: no reported distance is off by more.

        One number for each query, or a single one for a single query. The exact distance is that to the vector which
        ``reconstruct`` gives for a row, so ``range_search(v, index.distance_error(v))`` with the reconstruction v of a
        row finds that row. The bound follows from the arithmetic (docs/searching.md) and is far larger than most
        errors. It takes a fraction of a second to compute, and with ``cross="byte"`` a pass over all codes: pass many
        queries at once.
        """
        return self.searcher.distance_error(q, embedded)

    def evaluate(
        self,
        queries: Any = None,
        k: int = 10,
        *,
        truth: Any = None,
        x: Any = None,
        margin: Margin | None = None,
        sample: int = 1000,
        threads: int | None = None,
        seed: int = 0,
        embedded: bool = False,
        rerank: int | None = None,
        recall: float | None = None,
    ) -> Evaluation:
        """Measure how good and how fast searches are: after ``index = Index.build(x)``, call ``index.evaluate(x=x)``.

        Recall needs the true neighbours. ``x`` are the rows as they were added, in that order, removed ones left out;
        the true neighbours are found among them by brute force (in blocks, so x may be larger than memory). ``truth``
        are the ids of the true neighbours [queries, at least k]. Without either, kept originals take the place of x;
        where none are kept, only agreement with the exhaustive scan of the codes is measured. Without ``queries``, rows
        of x are the queries (or the vectors that codes stand for), each one's own row left out. At most ``sample``
        queries are drawn, by ``seed``.

        ``margin``, ``rerank`` and ``recall`` as for :meth:`search`. The result tells apart what the codes lose
        (``code_recall``), what the margin loses (``agreement``), and the recall of the whole search (``recall``).

        With an embedding, x and queries are raw inputs (vectors with ``embedded=True``), true neighbours are those of
        their vectors, and speed is that of searching vectors.
        """
        return evaluate(
            self.searcher,
            queries,
            k,
            truth=truth,
            x=x,
            margin=margin,
            sample=sample,
            threads=threads,
            seed=seed,
            embedded=embedded,
            rerank=rerank,
            recall=recall,
        )
