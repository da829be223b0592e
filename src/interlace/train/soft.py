"""Soft codes: every word of a book with a weight, so that gradients reach all of them and the rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

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
    own = torch.stack([book[codes[:, k]] for k, book in enumerate(words)])
    missed = (z - own.sum(0)) * support[:, None, :]
    rest = missed + own
    with torch.no_grad():
        floor = LEAST_ERROR * own.square().sum(2).mean(1)
        unit = or_one(softness * torch.maximum(missed.square().sum(2).mean(1), floor))
    # |r|^2 is the same for all words of a row and falls out.
    squares = words.square().sum(2)[:, None, :] - 2.0 * rest @ words.transpose(1, 2)
    weights = (-squares / unit[:, None, None]).softmax(2)
    return Soft((weights @ words).sum(0), weights)
