"""The paper's other optimizer: embedding, codes, books and prior in turns, each with the others held fixed."""

from __future__ import annotations

from .passes import Passes


def alternate(passes: Passes) -> dict[str, float]:
    """One round; returns the mean losses of its last pass.

    First the embedding moves with codes and books fixed (L_P moves it too), then rows are encoded again by ICM, then
    the books move with embedding and codes fixed. Theta moves with the embedding, or by EM after the round.
    """
    passes.codes = passes.code_rows()
    passes.run("learn", books=False, kept_codes=True)
    passes.codes = passes.code_rows()
    return passes.run("learn", embedding=False, kept_codes=True)
