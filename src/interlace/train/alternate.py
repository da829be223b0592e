"""The paper's other way to optimise: embedding, codes, books and prior in turns, each with the others held fixed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from .trainer import Trainer


def alternate(trainer: Trainer) -> dict[str, float]:
    """One round; means of the losses in its last pass.

    The embedding moves with codes and books held (L_P pulls at it too), then rows are coded anew by ICM, then the
    books move with embedding and codes held. Theta moves with the embedding, or by EM after the round.
    """
    trainer.codes = code_rows(trainer)
    trainer.passage("learn", books=False, kept_codes=True)
    trainer.codes = code_rows(trainer)
    return trainer.passage("learn", embedding=False, kept_codes=True)


@torch.no_grad()
def code_rows(trainer: Trainer) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Codes of all rows learned from: n_books bytes each, all that the turns keep of the data."""
    from .networks import evaluating

    assert trainer.books is not None
    codes = np.empty((len(trainer.data), len(trainer.books.words)), np.uint8)
    with evaluating(trainer.network):
        for inputs, _, rows in trainer.data.rows_in_order(2_000):
            z = trainer.network(inputs.to(trainer.device)).float()
            codes[rows.numpy()] = trainer.books.encode(z, trainer.recipe.sweeps).cpu().numpy()
    return codes
