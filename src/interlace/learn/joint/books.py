"""Books during training: words as parameters, k-means to start them, codes of a batch."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...inputs.arrays import FloatArray
from ..kmeans import kmeans, nearest


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
        """Set the words to zero off their supports."""
        with torch.no_grad():
            self.words.mul_(self.support[:, None, :])

    @torch.no_grad()
    def encode(self, z: Tensor, sweeps: int, words: Tensor | None = None) -> Tensor:
        """Codes int64 [batch, n_books]: greedy, book after book, then sweeps of ICM over all books but the first.

        This is what the encoder of an index does with beam 1; there the first code is the cell, which does not change.
        ``words`` replace the effective ones.
        """
        words = self.effective() if words is None else words
        squares = words.square().sum(2)
        rest = z.clone()
        codes = torch.zeros(len(z), len(words), dtype=torch.int64, device=z.device)
        few = [narrow_dims(part) for part in self.support]
        for sweep in range(1 + sweeps):
            for k, (book, square, dims) in enumerate(zip(words, squares, few, strict=True)):
                if sweep and k == 0:
                    continue
                if sweep:
                    rest += book[codes[:, k]]
                narrow = (rest, book) if dims is None else (rest[:, dims], book[:, dims])
                codes[:, k] = _argmin(torch.addmm(square, narrow[0], narrow[1].T, alpha=-2.0))
                rest -= book[codes[:, k]]
        return codes

    @staticmethod
    def of_rows(words: Tensor, codes: Tensor) -> list[Tensor]:
        """The word of each row, book by book: n_books times [batch, dim], with gradients to the words."""
        # Not by indexing, whose gradient takes four times as long in many dimensions.
        return [nn.functional.embedding(codes[:, k], book) for k, book in enumerate(words)]


def narrow_dims(support: Tensor) -> Tensor | None:
    """The dimensions of a book that has at most half of them, as product books have; None for other books."""
    dims = support.nonzero()[:, 0]
    return dims if 2 * len(dims) <= len(support) else None


def _argmin(values: Tensor) -> Tensor:
    """argmin of each row, the first of equal values. NumPy is ten times as fast as torch on a CPU."""
    return torch.from_numpy(values.numpy().argmin(1)) if values.device.type == "cpu" else values.argmin(1)


def start_books(
    z: FloatArray, support: NDArray[np.bool_], n_words: int, rng: np.random.Generator, threads: int
) -> FloatArray:
    """Words [n_books, n_words, dim] by k-means, each book on the residuals of the previous books on its dimensions.

    If rows have fewer distinct values than there are words, words are repeated; training moves the copies apart.
    """
    rest = np.array(z, np.float32)
    words = np.zeros((len(support), n_words, z.shape[1]), np.float32)
    for k, dims in enumerate(support):
        found = kmeans(np.ascontiguousarray(rest[:, dims]), n_words, rng=rng, threads=threads)
        labels, _ = nearest(rest[:, dims], found, threads)
        rest[:, dims] -= found[labels]
        words[k][:, dims] = found[np.arange(n_words) % len(found)]
    return words
