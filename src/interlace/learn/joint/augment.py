"""Random changes of images that leave their class as it is."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

#: Pixels by which images are shifted, at most; zeros come in at the border.
SHIFT = 4


def crops(images: Tensor, *seed: int) -> Tensor:
    """Images [n, channels, height, width], each shifted and with probability 1/2 mirrored; the seed decides how."""
    rng = np.random.default_rng(seed)
    n, channels, height, width = images.shape
    down, right = (torch.from_numpy(rng.integers(0, 2 * SHIFT + 1, n)) for _ in range(2))
    mirrored = torch.from_numpy(rng.random(n) < 0.5)
    padded = torch.nn.functional.pad(images, (SHIFT,) * 4)
    rows = down[:, None] + torch.arange(height)
    across = torch.arange(width)
    columns = right[:, None] + torch.where(mirrored[:, None], across.flip(0), across)
    numbers, planes = torch.arange(n)[:, None, None, None], torch.arange(channels)[None, :, None, None]
    return padded[numbers, planes, rows[:, None, :, None], columns[:, None, None, :]]
