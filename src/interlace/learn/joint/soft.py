"""Soft codes: a weight for every word of a book, so that gradients reach all words and the rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .books import Books, narrow_dims
from .losses.rows import one_if_zero

#: Lower bound for the error of a book, as a share of its words' squares. With a word for each row the error is 0.
LEAST_ERROR = 1e-3


@dataclass(frozen=True)
class Soft:
    """Rows decoded from soft codes, and the weights of the words."""

    rows: Tensor  #: [batch, dim], the sum over books of their weighted words
    weights: Tensor  #: [n_books, batch, n_words], each row's sum to 1


def soften(z: Tensor, words: Tensor, support: Tensor, codes: Tensor, softness: float) -> Soft:
    """Weights of book k are softmax over its words w of -|r - w|^2 / (softness u).

    r is the residual of z without the words of the other books (by their hard codes) on the dimensions of book k; u is
    the mean of |r - w|^2 for the words of the hard codes, without gradient. In that unit ``softness`` is valid for any
    scale, number of words and number of books. Towards 0 the codes become hard. For product books r is z.

    z [batch, dim], words [n_books, n_words, dim] (zero off their support), support [n_books, dim] of 0 and 1, codes
    [batch, n_books].
    """
    of_rows = Books.of_rows(words, codes)
    all_missed = z - torch.stack(of_rows).sum(0)
    rows, weights = torch.zeros_like(z), []
    for book, own, part in zip(words, of_rows, support, strict=True):
        dims = narrow_dims(part)
        if dims is None:
            missed = all_missed * part
        else:
            book, own, missed = (rows_of.index_select(1, dims) for rows_of in (book, own, all_missed))
        with torch.no_grad():
            floor = LEAST_ERROR * own.square().sum(1).mean()
            unit = one_if_zero(softness * torch.maximum(missed.square().sum(1).mean(), floor))
        # Without |r|^2, which is the same for all words of a row.
        squares = book.square().sum(1) - 2.0 * (missed + own) @ book.T
        weights.append((-squares / unit).softmax(1))
        softly = weights[-1] @ book
        rows = rows + softly if dims is None else rows.index_add(1, dims, softly)
    return Soft(rows, torch.stack(weights))
