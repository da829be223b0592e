"""Soft codes: every word of a book with a weight, so that gradients reach all of them and the rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .books import Books, few_dims
from .losses.rows import or_one

#: The error of a book counts as this share of its words' squares at least: with a word for each row it is 0.
LEAST_ERROR = 1e-3


@dataclass(frozen=True)
class Soft:
    """What soft codes stand for, and the weights behind."""

    rows: Tensor  #: [batch, dim], the sum over books of their weighted words
    weights: Tensor  #: [n_books, batch, n_words], each row's sum to 1


def soften(z: Tensor, words: Tensor, support: Tensor, codes: Tensor, softness: float) -> Soft:
    """Weights of book k are softmax over its words w of -|r - w|^2 / (softness u).

    r is what the other books' words, by their hard codes, leave of z on the dimensions of book k, u the mean of
    |r - w|^2 by the words that the codes name, without gradient. In that unit ``softness`` holds for any scale, number
    of words and number of books; towards 0 the codes become hard. Product books share no dimension: there r is z.

    z [batch, dim], words [n_books, n_words, dim] (zero off their support), support [n_books, dim] of 0 and 1, codes
    [batch, n_books].
    """
    of_rows = Books.of_rows(words, codes)
    all_missed = z - torch.stack(of_rows).sum(0)
    rows, weights = torch.zeros_like(z), []
    for book, own, part in zip(words, of_rows, support, strict=True):
        dims = few_dims(part)
        if dims is None:
            missed = all_missed * part
        else:
            book, own, missed = (rows_of.index_select(1, dims) for rows_of in (book, own, all_missed))
        with torch.no_grad():
            floor = LEAST_ERROR * own.square().sum(1).mean()
            unit = or_one(softness * torch.maximum(missed.square().sum(1).mean(), floor))
        # |r|^2 is the same for all words of a row and falls out.
        squares = book.square().sum(1) - 2.0 * (missed + own) @ book.T
        weights.append((-squares / unit).softmax(1))
        softly = weights[-1] @ book
        rows = rows + softly if dims is None else rows.index_add(1, dims, softly)
    return Soft(rows, torch.stack(weights))
