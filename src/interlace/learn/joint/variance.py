"""The variances of an embedding during training, estimated batch by batch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ...errors import InputError
from .losses.rows import as_rows


class OnlineVariance:
    """Running mean and population variance over the batches of an epoch, each weighted by its rows.

    With share = rows of the batch / rows so far, the batch included, and M the means

        variance += share (batch variance - variance) + share (1 - share) (M of the batch - M)^2
        M        += share (M of the batch - M)

    which is the paper's formula for equal batches (share = 1 / b), and the variance of all rows for any batches.

    The gradient of that value is scaled by share, so it vanishes late in an epoch. Therefore :meth:`update` returns
    this value with the gradient of the batch's own variance; ``paper=True`` returns the gradient as written.
    """

    def __init__(self, *, paper: bool = False) -> None:
        self.paper = paper
        self.reset()

    def reset(self) -> None:
        """Start again; called at the start of each epoch, because the embedding has changed."""
        self.count = 0
        self._mean, self._variance = torch.zeros(0), torch.zeros(0)

    @property
    def mean(self) -> Tensor:
        """[dim], of all rows so far; empty before the first."""
        return self._mean

    @property
    def variances(self) -> Tensor:
        """[dim], of all rows so far; empty before the first."""
        return self._variance

    def update(self, z: Tensor) -> Tensor:
        """Add rows [batch, dim]; returns the variances [dim] of all rows so far, with a gradient to z."""
        rows = as_rows(z)
        dtype = rows.dtype
        if rows.device.type != "mps":  # which has no float64
            rows = rows.double()
        mean = rows.mean(0)
        own = (rows - mean).square().mean(0)
        variance = own
        if self.count:
            if len(mean) != len(self._mean):
                raise InputError(f"z has {len(mean)} dimensions, the batches before had {len(self._mean)}")
            old_mean, old = self._mean.to(rows), self._variance.to(rows)
            share = len(rows) / (self.count + len(rows))
            step = mean - old_mean
            variance = old + share * (own - old) + share * (1 - share) * step.square()
            mean = old_mean + share * step
        self.count += len(rows)
        self._mean, self._variance = mean.detach(), variance.detach()
        return (variance if self.paper else variance.detach() + (own - own.detach())).to(dtype)

    def state_dict(self) -> dict[str, Tensor]:
        """Tensors, for a checkpoint."""
        return {"count": torch.tensor(self.count), "mean": self._mean.clone(), "variances": self._variance.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a :meth:`state_dict`."""
        if set(state) != {"count", "mean", "variances"} or state["mean"].shape != state["variances"].shape:
            raise InputError(f"the state of an online variance is count, mean and variances, got {sorted(state)}")
        self.count = int(state["count"])
        self._mean, self._variance = state["mean"].clone(), state["variances"].clone()
