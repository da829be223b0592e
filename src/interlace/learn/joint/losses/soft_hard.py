"""L_E of deep product quantization (DPQ): soft and hard codes through one classifier, and one centre for each class."""

from __future__ import annotations

import torch
from torch import Tensor

from ....errors import InputError
from ....inputs.arrays import describe
from .classification import CrossEntropy
from .rows import as_rows, check_labels, total_variance


def soft_hard(head: CrossEntropy, soft: Tensor, hard: Tensor, labels: Tensor, *, central: float) -> Tensor:
    """Cross-entropy of the soft rows, plus that of the hard ones, plus ``central`` times :func:`joint_central`.

    One head for both: soft rows have good gradients, hard rows are those that an index stores.
    """
    of_soft: Tensor = head(soft, labels)
    of_hard: Tensor = head(hard, labels)
    return of_soft + of_hard + central * joint_central(soft, hard, labels)


def joint_central(soft: Tensor, hard: Tensor, labels: Tensor) -> Tensor:
    """mean over soft and hard rows x of |x - o|^2 / u; o is the mean of all of them that have x's label.

    u is their total variance, so the loss does not depend on the scale: it is 0 if each class is one point, and 1 if
    all classes have the same centre. The paper learns the centres by gradient; these are the optimal ones.
    """
    soft = as_rows(soft, "soft")
    hard, labels = as_rows(hard, "hard", soft), check_labels(labels, len(soft))
    rows, (_, number) = torch.cat([soft, hard]), torch.unique(labels, return_inverse=True)
    number = torch.cat([number, number])
    counts = torch.bincount(number)
    centres = rows.new_zeros(len(counts), rows.shape[1]).index_add(0, number, rows) / counts[:, None]
    return (rows - centres[number]).square().sum(1).mean() / total_variance(rows)


def gini(weights: Tensor) -> Tensor:
    """mean over books of sum over words of (mean weight)^2, minus the mean of the sum of weight^2: 0 to -1.

    weights [n_books, batch, n_words] are soft assignments. The first part is small if all words of a book are used, the
    second is large if each row has one word of large weight: the paper's GiniBatch and GiniSample.
    """
    if not isinstance(weights, Tensor) or weights.ndim != 3 or 0 in weights.shape or not weights.is_floating_point():
        raise InputError(f"weights must be a floating tensor [n_books, batch, n_words], got {describe(weights)}")
    return weights.mean(1).square().sum(1).mean() - weights.square().sum(2).mean()
