"""Books while they are learned: words as parameters, the group that each book belongs to, codes of a batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...inputs.arrays import FloatArray
from ..kmeans import kmeans, nearest


@dataclass(frozen=True)
class Plan:
    """Which dimensions each book gets, and which books belong together."""

    support: NDArray[np.bool_]  #: [n_books, dim]
    groups: tuple[tuple[int, ...], ...]  #: books that share dimensions; the first group is that of psi if there is one
    xi: NDArray[np.bool_] | None  #: psi as a mask [dim]; None where the books are not split


class Books(nn.Module):
    """``words`` [n_books, n_words, dim]; where a book's ``support`` is 0 its words count as 0."""

    words: nn.Parameter
    support: Tensor

    def __init__(self, words: Tensor, support: Tensor) -> None:
        super().__init__()
        self.words = nn.Parameter(words)
        self.register_buffer("support", support.to(words.dtype))

    def effective(self) -> Tensor:
        """The words on their supports."""
        return self.words * self.support[:, None, :]

    def project(self) -> None:
        """Make the words zero off their supports for good."""
        with torch.no_grad():
            self.words.mul_(self.support[:, None, :])

    @torch.no_grad()
    def encode(self, z: Tensor, sweeps: int, words: Tensor | None = None) -> Tensor:
        """Codes int64 [batch, n_books]: greedy, book after book, then sweeps of ICM over all books but the first.

        The same rule as that of the encoder of an index with beam 1, so words are learned for the rows that they get;
        there the first code is the cell, and stays. ``words`` stand in for the effective ones.
        """
        words = self.effective() if words is None else words
        squares = words.square().sum(2)
        rest = z.clone()
        codes = torch.zeros(len(z), len(words), dtype=torch.int64, device=z.device)
        few = [few_dims(part) for part in self.support]
        for sweep in range(1 + sweeps):
            for k, (book, square, dims) in enumerate(zip(words, squares, few, strict=True)):
                if sweep and k == 0:
                    continue
                if sweep:
                    rest += book[codes[:, k]]
                narrow = (rest, book) if dims is None else (rest[:, dims], book[:, dims])
                codes[:, k] = _least(torch.addmm(square, narrow[0], narrow[1].T, alpha=-2.0))
                rest -= book[codes[:, k]]
        return codes

    @staticmethod
    def of_rows(words: Tensor, codes: Tensor) -> list[Tensor]:
        """The word of each row, book by book: n_books times [batch, dim], with gradients to the words."""
        # Not by indexing: its gradient takes four times as long where dimensions are many.
        return [nn.functional.embedding(codes[:, k], book) for k, book in enumerate(words)]


def few_dims(support: Tensor) -> Tensor | None:
    """The dimensions of a book that has half of them at most, as product books have: products need no others."""
    dims = support.nonzero()[:, 0]
    return dims if 2 * len(dims) <= len(support) else None


def _least(values: Tensor) -> Tensor:
    """Of each row the place of its smallest value, the first of equal ones. NumPy's is ten times as quick on a CPU."""
    return torch.from_numpy(values.numpy().argmin(1)) if values.device.type == "cpu" else values.argmin(1)


def start_books(
    z: FloatArray, support: NDArray[np.bool_], n_words: int, rng: np.random.Generator, threads: int
) -> FloatArray:
    """Words [n_books, n_words, dim] by k-means, each book on what those before it left on its dimensions.

    Where rows have fewer distinct values words are repeated; the copies find rows of their own as learning moves them.
    """
    rest = np.array(z, np.float32)
    words = np.zeros((len(support), n_words, z.shape[1]), np.float32)
    for k, dims in enumerate(support):
        found = kmeans(np.ascontiguousarray(rest[:, dims]), n_words, rng=rng, threads=threads)
        labels, _ = nearest(rest[:, dims], found, threads)
        rest[:, dims] -= found[labels]
        words[k][:, dims] = found[np.arange(n_words) % len(found)]
    return words
