"""Small things that many tests build: clustered vectors, codebooks made by hand, an index in milliseconds."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

import interlace as il

ID_KINDS = ("default", "int64", "string")
LAYOUTS = ("subspace", "residual", "hybrid")
METRICS = ("l2", "ip", "cosine")
UNICODE = ("", "a", "a\0", "é", "e\u0301", "日本", "🜁", " ", "-1", "\n")


def clustered(n: int, dim: int, *, seed: int = 0, clusters: int = 8) -> NDArray[np.float32]:
    """Rows [n, dim] round a few centres, on axes of falling spread, as embeddings are."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(clusters, dim))
    spread = 0.6 ** np.arange(dim)
    return ((centres[rng.integers(clusters, size=n)] + 0.4 * rng.normal(size=(n, dim))) * spread).astype(np.float32)


def ids_of(kind: str, n: int, *, first: int = 0) -> Any:
    """n ids of a kind, in no particular order; None for default ids."""
    numbers = [(i * 7919) % 1_000_003 - 500 for i in range(first, first + n)]
    strings = (
        [*UNICODE, *(f"row {v}" for v in numbers[len(UNICODE) :])] if first == 0 else [f"row {v}" for v in numbers]
    )
    return {"default": None, "int64": np.array(numbers, np.int64), "string": strings[:n]}[kind]


def build(n: int = 60, dim: int = 6, *, ids: str = "default", seed: int = 0, **settings: Any) -> il.Index:
    """A learned index of a few rows."""
    settings = {"n_bytes": 4, "threads": 1, **settings}
    return il.Index.build(clustered(n, dim, seed=seed), ids=ids_of(ids, n), seed=seed, **settings)


def hand_made(*, metric: str = "l2", n_words: int = 3, norms: bool = False, cross: bool = False) -> il.Codebooks:
    """Codebooks for 4 dimensions without learning: three books of a few words, the file of an index stays small.

    The last two overlap with ``norms``, which cover them, and with ``cross``, where search computes their terms.
    """
    rng = np.random.default_rng(1)
    supports = ([0, 1, 2, 3], [0, 1], [1, 2, 3] if norms or cross else [2, 3])
    books = [il.Book(rng.normal(size=(n_words, len(s))), s) for s in supports]
    return il.Codebooks(
        books,
        dim=4,
        n_crude=2,
        metric=metric,
        norms=[il.Norm([-0.5, 0.0, 0.5], (1, 2))] if norms else (),
        layout="custom",
    )


def small_index(*, ids: str = "default", n: int = 9, **settings: Any) -> il.Index:
    """An index of a few rows over :func:`hand_made` codebooks, not calibrated."""
    index = il.Index(hand_made(**settings))
    index.add(clustered(n, 4), ids_of(ids, n), threads=1)
    return index


def same_index(a: il.Index, b: il.Index) -> bool:
    """Same ids, same codes, same codebooks, same answers."""
    q = clustered(5, a.dim, seed=99)
    ours, theirs = (i.search(q, 7, margin="exact", threads=1, embedded=True) for i in (a, b))
    prints = [None if i.embedding is None else i.embedding.fingerprint for i in (a, b)]
    return (
        a.codebooks == b.codebooks
        and prints[0] == prints[1]
        and a.ids.dtype == b.ids.dtype
        and np.array_equal(a.ids, b.ids)
        and np.array_equal(a.reconstruct(a.ids), b.reconstruct(b.ids))
        and np.array_equal(ours.ids, theirs.ids)
        and np.array_equal(ours.distances, theirs.distances)
    )


#: Seconds after which a process hangs, however busy the machine.
HANGS = 900.0


def run_python(code: str, *arguments: str, timeout: float = HANGS) -> Any:
    """Run code in a fresh interpreter with warnings as errors; the JSON it prints last."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


class FakeTensor:
    """Stands in for torch.Tensor: found by its module's name, read by detach().cpu().numpy()."""

    def __repr__(self) -> str:
        """The same in every process: it names tests."""
        return f"FakeTensor({self.values!r})"

    def __init__(self, values: np.ndarray, dtype: str = "torch.float32", attached: bool = True) -> None:
        self.values, self.dtype, self.attached, self.shape = values, dtype, attached, values.shape

    def detach(self) -> FakeTensor:
        return FakeTensor(self.values, self.dtype, attached=False)

    def __getitem__(self, rows: Any) -> FakeTensor:
        return FakeTensor(self.values[rows], self.dtype, self.attached)

    def cpu(self) -> FakeTensor:
        return self

    def float(self) -> FakeTensor:
        return FakeTensor(self.values.astype(np.float32), "torch.float32", self.attached)

    def numpy(self) -> np.ndarray:
        if self.attached or self.dtype == "torch.bfloat16":
            raise RuntimeError("Can't call numpy() on this tensor")
        return self.values

    def __array__(self) -> np.ndarray:
        raise AssertionError("a tensor on a GPU cannot be read this way")


FakeTensor.__module__ = "torch"


class OnlyDLPack:
    """An array of some other library that speaks DLPack and nothing else."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **keywords: object) -> object:
        return self.values.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.values.__dlpack_device__()
