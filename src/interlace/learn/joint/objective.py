"""L_E by name: of the embedding alone before there are books, then of queries and codes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...errors import InputError
from ...inputs.arrays import FloatArray
from ..recipe import LOSSES, Recipe
from .losses.asymmetric_triplet import asymmetric_triplet, listed_triplet
from .losses.classification import CrossEntropy
from .losses.contrastive import pair_contrastive, supervised_contrastive
from .losses.pairwise import pairwise
from .losses.regression import ridge_regression
from .losses.soft_hard import gini, joint_central, soft_hard
from .losses.triplet import triplet
from .soft import Soft

#: Weight of the squared error of one-hot labels, whose gradients are smaller than those of the other losses.
REGRESSION_WEIGHT = 10.0
#: Share of the largest eigenvalue that directions keep on which the loss does not depend.
UNSEEN_SHARE = 1e-2
#: Losses with a linear classifier, and losses of soft codes.
HEADS, SOFT = ("cross_entropy", "soft_hard"), ("soft_hard", "soft_triplet")
#: Losses that may learn from a list of triplets.
TRIPLETS = ("asymmetric_triplet", "soft_triplet")


def split_queries(z: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and rows of a batch. With labels each row is both; with pairs (targets [queries, rows]) queries come
    first."""
    return (z, z) if targets.ndim == 1 else (z[: len(targets)], z[len(targets) :])


class EmbeddingLoss(nn.Module):
    """The part of the objective that uses labels."""

    def __init__(self, name: str, dim: int, n_classes: int, recipe: Recipe, generator: torch.Generator) -> None:
        super().__init__()
        if name not in LOSSES:
            raise InputError(f"loss must be one of {', '.join(LOSSES)}, got {name!r}")
        self.name, self.n_classes, self.recipe = name, n_classes, recipe
        self.head = CrossEntropy(dim, n_classes, generator=generator) if name in HEADS else None
        self.takes_soft = name in SOFT

    def of_embedding(self, queries: Tensor, z: Tensor, labels: Tensor, unit: float, *, listed: bool = False) -> Tensor:
        """The loss before there are books. ``unit`` divides squared distances; 1 lets the embedding find its scale.

        ``queries`` are z themselves, unless ``labels`` are those of pairs. ``listed``: z are the anchors, positives and
        negatives of a list of triplets.
        """
        if labels.ndim == 2:
            return pair_contrastive(queries, z, labels, 1.0 / unit)
        if self.head is not None:
            loss: Tensor = self.head(z, labels)
            return loss + self.recipe.central * joint_central(z, z, labels) if self.name == "soft_hard" else loss
        if self.name == "pairwise":
            return pairwise(z, labels)
        if self.name == "contrastive":
            return supervised_contrastive(z, z, labels, 1.0 / unit)
        if self.name == "regression":
            return REGRESSION_WEIGHT * ridge_regression(z, labels, self.n_classes, self.recipe.ridge)
        if self.name == "triplet":
            return triplet(z, labels, margin=self.recipe.triplet_margin)
        return listed_triplet(z, z) if listed else asymmetric_triplet(z, z, labels)

    def of_codes(
        self, z: Tensor, st: Tensor, labels: Tensor, soft: Soft | None = None, *, listed: bool = False
    ) -> Tensor:
        """The loss of asymmetric search: z are the queries, ``st`` quantized rows with straight-through gradients.

        ``labels`` are class numbers [n], or for pairs [queries, rows] (:func:`split_queries`).
        ``soft`` are the soft codes for a loss that ``takes_soft``. The pairs of DQN depend only on z; its books learn
        from the quantization error.
        """
        if labels.ndim == 2:
            return pair_contrastive(z, st, labels, self.recipe.scale)
        if self.takes_soft and soft is None:
            raise InputError(f"loss {self.name!r} needs soft codes")
        if self.head is not None and soft is not None:
            found = soft_hard(self.head, soft.rows, st, labels, central=self.recipe.central)
            return found + self.recipe.gini * gini(soft.weights)
        if self.head is not None:
            loss: Tensor = self.head(z, labels) + self.head(st, labels)
            return loss
        if self.name == "contrastive":
            return supervised_contrastive(z, st, labels, self.recipe.scale)
        if self.name == "regression":
            return REGRESSION_WEIGHT * ridge_regression(st, labels, self.n_classes, self.recipe.ridge)
        if self.name == "triplet":
            return triplet(st, labels, margin=self.recipe.triplet_margin)
        if self.name == "pairwise":
            return pairwise(z, labels)
        rows = st if soft is None else soft.rows
        return listed_triplet(z, rows) if listed else asymmetric_triplet(z, rows, labels)

    def shear(self, z: FloatArray, labels: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """A matrix [dim, dim] that makes distances of z those of the loss's predictions; None for losses of distances.

        Cross-entropy and regression depend on z only through a linear map A, so distances of z are arbitrary. After
        (A A^T)^(1/2) they are distances between predictions of A, plus a small share of all other directions. soft_hard
        needs none, because its central loss uses distances.
        """
        if self.head is not None and self.name != "soft_hard":
            seen = self.head.weight.detach().double().cpu().numpy().T
        elif self.name == "regression":
            centred = z.astype(np.float64) - z.mean(0, dtype=np.float64)
            gram = centred.T @ centred
            gram += self.recipe.ridge * np.trace(gram) / len(gram) * np.eye(len(gram))
            seen = np.linalg.solve(gram, centred.T @ np.eye(self.n_classes)[labels])
        else:
            return None
        values, axes = np.linalg.eigh(seen @ seen.T)
        values = np.maximum(values, 0.0) + UNSEEN_SHARE * max(float(values.max()), 1e-30)
        return np.asarray((axes * np.sqrt(values)) @ axes.T)

    def fold(self, matrix: Tensor, offset: Tensor) -> None:
        """Adapt the head to an embedding that became (z - offset) @ matrix, such that its predictions stay the same."""
        if self.head is None:
            return
        with torch.no_grad():
            head, weight = self.head, self.head.weight.double()
            head.bias.add_((weight @ offset.to(weight)).to(head.bias))
            head.weight.copy_(weight @ torch.linalg.inv(matrix.to(weight)).T)
