"""Rows that tell where they come from, and datasets of them, for tests of batches."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from torch.utils.data import Dataset  # noqa: E402


def rows(n=40, dim=3):
    """Row i holds i in its first column, so that a batch tells where its rows come from."""
    x = np.random.default_rng(0).normal(size=(n, dim)).astype(np.float32)
    x[:, 0] = np.arange(n)
    return x


def labels(n=40, classes=4):
    return np.arange(n) % classes


class Pairs(Dataset):
    """A dataset without a list of its labels; ``noise`` augments as torchvision does, by the global generator."""

    def __init__(self, x, y, noise=0.0):
        self.x, self.y, self.noise, self.taken = x, y, noise, 0

    def __len__(self):
        return len(self.x)

    def __getitem__(self, row):
        self.taken += 1
        x = torch.as_tensor(self.x[row])
        return x + self.noise * torch.randn(x.shape) if self.noise else x, self.y[row]


def check_batch(data, batch, x, y):
    """Rows, labels and inputs belong together."""
    inputs, numbers, places = batch
    assert (inputs.dtype, numbers.dtype, places.dtype) == (torch.float32, torch.int64, torch.int64)
    source = data.rows[places.numpy()]
    assert_array_equal(inputs.numpy(), np.asarray(x)[source].astype(np.float32))
    assert_array_equal(data.classes[numbers.numpy()], np.asarray(y)[source])
