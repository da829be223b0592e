"""The state of training: embedding, books, prior, optimizer; and the vectors and codes that it gives to rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import InputError
from ...inputs.arrays import FloatArray
from ..prior import Prior
from ..recipe import Joint
from .architectures import EmbeddingNetwork
from .batches import TrainingRows
from .books import Books
from .checkpoint import Arrays, load_module, module_arrays
from .losses.prior import PriorLoss
from .modules import evaluating
from .objective import EmbeddingLoss
from .plans import BookPlan

BLOCK_ROWS = 2_000
#: Rows that are used for statistics of the embedding and to start the books, at most.
SAMPLE_ROWS = 20_000


class TrainingState:
    """The state between two epochs. Books and their plan are None before the last phase."""

    def __init__(self, network: EmbeddingNetwork, n_classes: int, settings: Joint) -> None:
        self.settings, self.recipe = settings, settings.recipe
        self.device = torch.device(settings.device)
        self.rng = np.random.default_rng(settings.seed)
        generator = torch.Generator().manual_seed(settings.seed)
        self.objective = EmbeddingLoss(settings.loss, network.dim, n_classes, self.recipe, generator).to(self.device)
        self.prior = PriorLoss(
            pi2=self.recipe.pi2,
            alpha2=self.recipe.alpha2,
            robustness=self.recipe.robustness,
            raw=self.recipe.raw_variances,
        ).to(self.device)
        self.network = network.to(self.device)
        self.books: Books | None = None
        self.plan: BookPlan | None = None
        self.optimizer: torch.optim.Optimizer | None = None
        self.unit = 1.0  # divides squared distances in L_E before there are books
        self.epoch = 0  # the next one

    @property
    def has_split(self) -> bool:
        """Whether books are split into psi and its complement; one or two books, and those of SQ, are not."""
        return self.settings.kind == "icq" and self.settings.n_books > 2

    # --- books

    def set_books(self, plan: BookPlan, words: FloatArray) -> None:
        """Start the last phase. Words of soft groups may be nonzero off their supports; hard groups are cut now."""
        soft = self.recipe.groups == "soft" and self.settings.kind == "icq"
        support = np.ones_like(plan.support) if soft else plan.support
        self.plan = plan
        self.books = Books(torch.from_numpy(words), torch.from_numpy(support)).to(self.device)

    def planned_books(self) -> tuple[Books, BookPlan]:
        """Books and their plan; only in the last phase."""
        assert self.books is not None
        assert self.plan is not None
        return self.books, self.plan

    def harden(self) -> None:
        """Set words to zero off their group from now on; the remaining epochs compensate for the loss."""
        books, plan = self.planned_books()
        if self.recipe.hard_end:
            books.support.copy_(torch.from_numpy(plan.support).to(books.support))
            books.project()

    def final_words(self) -> Tensor:
        """Words as :mod:`interlace.learn.joint.finish` will store them, for the validation score."""
        books, plan = self.planned_books()
        if not self.recipe.hard_end:
            return books.effective()
        support = torch.from_numpy(plan.support).to(books.words)
        return books.words * support[:, None, :]

    # --- rows

    @torch.no_grad()
    def embed(self, data: TrainingRows, most: int | None = None) -> FloatArray:
        """z of all rows, or of ``most`` evenly spaced rows, in eval mode."""
        with evaluating(self.network):
            blocks = [
                self.network(inputs.to(self.device)).float().cpu().numpy()
                for inputs, _, _ in data.evenly(len(data) if most is None else most).rows_in_order(BLOCK_ROWS)
            ]
        z = np.concatenate(blocks)
        if not np.isfinite(z).all():
            raise InputError(f"the embedding of row {int(np.argmin(np.isfinite(z).all(1)))} is not finite")
        return z

    @torch.no_grad()
    def code_rows(self, data: TrainingRows) -> NDArray[np.uint8]:
        """Codes uint8 [n, n_books] of all rows."""
        books, _ = self.planned_books()
        codes = np.empty((len(data), len(books.words)), np.uint8)
        with evaluating(self.network):
            for inputs, _, rows in data.rows_in_order(BLOCK_ROWS):
                z = self.network(inputs.to(self.device)).float()
                codes[rows.numpy()] = books.encode(z, self.recipe.sweeps).cpu().numpy()
        return codes

    # --- the prior

    def variances(self, data: TrainingRows) -> NDArray[np.float64]:
        """Variances of the embedding, from a sample of the rows."""
        return np.asarray(self.embed(data, SAMPLE_ROWS).astype(np.float64).var(0))

    def prior_of(self, variances: Any) -> Prior | None:
        """Theta as a prior of these variances; None if the raw prior has invalid parameters."""
        try:
            return self.prior.to_prior(self.prior.scale(variances))
        except InputError:
            return None

    def psi(self, variances: Tensor) -> list[int]:
        """Dimensions of psi: those of the plan or, before there is one, by the prior of these variances.

        Empty if the prior has collapsed.
        """
        if self.plan is not None:
            mask = self.plan.xi
        elif self.prior.collapsed(variances) is not None:
            mask = None
        else:
            rule = self.prior.high_by_rule if self.recipe.raw_variances else self.prior.high
            mask = rule(variances).cpu().numpy()
        return [] if mask is None else [int(i) for i in np.flatnonzero(mask)]

    # --- arrays

    def _modules(self) -> dict[str, torch.nn.Module]:
        found: dict[str, Any] = {
            "network": self.network,
            "objective": self.objective,
            "prior": self.prior,
            "books": self.books,
        }
        return {name: module for name, module in found.items() if module is not None}

    def arrays(self) -> Arrays:
        """A copy of all weights."""
        arrays: Arrays = {}
        for name, module in self._modules().items():
            arrays |= module_arrays(name, module)
        return arrays

    def load(self, arrays: Arrays) -> None:
        """Inverse of :meth:`arrays`, for the current modules."""
        for name, module in self._modules().items():
            load_module(name, module, arrays)
