"""The paper's other way to optimise: embedding, codes, books and prior in turns, each with the others held fixed."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Turns(Protocol):
    """What the turns need of a trainer."""

    codes: NDArray[np.uint8] | None

    def code_rows(self) -> NDArray[np.uint8]:
        """Codes of all rows learned from."""

    def passage(
        self, phase: str, *, embedding: bool = True, books: bool = True, kept_codes: bool = False
    ) -> dict[str, float]:
        """One pass over the rows, in which only some parts move."""


def alternate(turns: Turns) -> dict[str, float]:
    """One round; means of the losses in its last pass.

    The embedding moves with codes and books held (L_P pulls at it too), then rows are coded anew by ICM, then the
    books move with embedding and codes held. Theta moves with the embedding, or by EM after the round.
    """
    turns.codes = turns.code_rows()
    turns.passage("learn", books=False, kept_codes=True)
    turns.codes = turns.code_rows()
    return turns.passage("learn", embedding=False, kept_codes=True)
