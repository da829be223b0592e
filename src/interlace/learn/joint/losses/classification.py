"""L_E as classification: the cross-entropy of a linear classifier on the embedding."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from ....inputs.arrays import positive
from .rows import as_rows, check_labels


class CrossEntropy(nn.Module):
    """mean over rows of -log softmax(A z + b)[label]; A [n_classes, dim] and b are learned with the embedding.

    z may be the float embedding or its straight-through quantization, with which the books learn to separate classes.
    The loss depends on the scale of z; z has total variance 1 while books are learned.
    """

    def __init__(self, dim: int, n_classes: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.n_classes = positive(n_classes, "n_classes")
        # Not nn.Linear, which would use the global generator.
        self.weight = nn.Parameter(torch.empty(self.n_classes, positive(dim, "dim")))
        self.bias = nn.Parameter(torch.zeros(self.n_classes))
        with torch.no_grad():
            self.weight.normal_(std=dim**-0.5, generator=generator)

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """z [batch, dim], labels [batch] from 0 to n_classes - 1."""
        z = as_rows(z)
        return F.cross_entropy(
            F.linear(z, self.weight, self.bias), check_labels(labels, len(z), n_classes=self.n_classes)
        )
