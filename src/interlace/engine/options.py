"""What a search is asked for, validated once."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._threads import thread_count
from ..errors import InputError
from ..inputs.arrays import positive
from ..inputs.literals import Margin
from .filters import Allowed
from .margins import DEFAULT, check_margin

MAX_ANSWERS = 2**31


@dataclass(frozen=True, eq=False)
class SearchOptions:
    """Options of one search. :meth:`checked` makes them of what a user passes; engines trust them."""

    k: int = 10
    offset: int = 0
    margin: Margin = DEFAULT
    threads: int = 1
    filter: Allowed | None = None
    rerank: int | None = None  #: hits to compare with kept originals
    chosen: str | None = None  #: how margin and rerank were chosen, where the call left them open

    @classmethod
    def checked(
        cls,
        k: Any = 10,
        offset: Any = 0,
        margin: Any = DEFAULT,
        threads: Any = None,
        filter: Allowed | None = None,
        rerank: Any = None,
        chosen: str | None = None,
    ) -> SearchOptions:
        """Raise InputError for anything that is not what it should be."""
        k, offset = positive(k, "k"), positive(offset, "offset", least=0)
        check_margin(margin)
        if rerank is not None:
            rerank = check_depth(rerank, k + offset)
        return cls(k, offset, margin, thread_count(threads), filter, rerank, chosen)

    @classmethod
    def cached(
        cls, k: Any, offset: Any, margin: Any, threads: Any, rerank: Any, chosen: str | None = None
    ) -> SearchOptions:
        """As :meth:`checked` without a filter: single queries pass the same options again and again."""
        try:
            return _cached(k, offset, margin, threads, rerank, chosen)
        except TypeError:  # arguments that cannot be hashed
            return cls.checked(k, offset, margin, threads, rerank=rerank, chosen=chosen)

    @property
    def depth(self) -> int:
        """Hits that the engine must find for each query."""
        return self.k + self.offset if self.rerank is None else self.rerank

    def too_many_answers(self, n_queries: int) -> InputError:
        """The error where the result would be larger than any array should be."""
        what = f"k={self.k}" if not self.offset else f"(k={self.k} + offset={self.offset})"
        what = what if self.rerank is None else f"rerank={self.rerank}"
        return InputError(f"{n_queries} queries x {what} make more than {MAX_ANSWERS} answers; ask for fewer at once")


@functools.lru_cache(maxsize=256, typed=True)  # typed: True is no k, although it equals 1
def _cached(k: Any, offset: Any, margin: Any, threads: Any, rerank: Any, chosen: str | None) -> SearchOptions:
    return SearchOptions.checked(k, offset, margin, threads, rerank=rerank, chosen=chosen)


def check_depth(rerank: Any, k: int) -> int:
    """A re-rank depth of at least k."""
    depth = positive(rerank, "rerank")
    if depth < k:
        raise InputError(f"rerank is how many rows are compared with their originals: at least k={k}, got {depth}")
    return depth


def check_recall(recall: Any, rerank: Any, margin: Any) -> float:
    """A target recall, which stands for margin and rerank."""
    if rerank is not None:
        raise InputError("recall chooses the depth of the re-rank: pass recall or rerank, not both")
    if margin is not None:
        raise InputError(f"recall chooses the margin: pass recall or margin, not both (margin was {margin!r})")
    if isinstance(recall, bool) or not isinstance(recall, int | float | np.floating) or not 0 < recall < 1:
        raise InputError(f"recall must lie between 0 and 1, got {recall!r}")
    return float(recall)
