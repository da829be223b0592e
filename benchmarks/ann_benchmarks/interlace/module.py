"""interlace for ann-benchmarks: copy this folder to ``ann_benchmarks/algorithms/interlace``.

``tests/test_ann_benchmarks.py`` calls it as the runner of ann-benchmarks does, in the same order. The runner itself has
not run it yet: it starts a container for each algorithm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import interlace as il

from ..base.module import BaseANN

METRICS = {"euclidean": "l2", "angular": "cosine"}


class Interlace(BaseANN):
    """Codes of ``n_bytes`` bytes, re-ranked by kept originals; queries have one argument, the re-rank depth."""

    def __init__(self, metric: str, options: dict[str, Any]) -> None:
        if metric not in METRICS:
            raise NotImplementedError(f"interlace compares by {', '.join(METRICS)}, got {metric}")
        self._metric, self._options = METRICS[metric], options
        self._rerank, self._index, self._found = 0, None, None

    def fit(self, X: np.ndarray) -> None:  # noqa: N803 - the name in ann-benchmarks
        """Build the index, with one thread, as queries run."""
        self._index = il.Index.build(
            X,
            n_bytes=int(self._options["n_bytes"]),
            metric=self._metric,
            originals=self._options.get("originals", "float16"),
            threads=1,
            progress=False,
        )

    def set_query_arguments(self, rerank: int) -> None:
        """Candidates that are compared with their originals; 0: the codes decide."""
        self._rerank = int(rerank)

    def _depth(self, n: int) -> int | None:
        return max(n, self._rerank) if self._rerank else None

    def query(self, v: np.ndarray, n: int) -> np.ndarray:
        """The n nearest rows of one query."""
        return self._index.search(v, n, rerank=self._depth(n), threads=1).ids

    def batch_query(self, X: np.ndarray, n: int) -> None:  # noqa: N803
        """The n nearest rows of many queries."""
        self._found = self._index.search(X, n, rerank=self._depth(n)).ids

    def get_batch_results(self) -> np.ndarray:
        """The answers of the last batch."""
        return self._found

    def get_memory_usage(self) -> float:
        """Kilobytes of the index; the runner also asks before there is one, and subtracts."""
        return 0.0 if self._index is None else len(self._index.to_bytes()) / 1024

    def __str__(self) -> str:
        return f"Interlace(n_bytes={self._options['n_bytes']}, rerank={self._rerank})"
