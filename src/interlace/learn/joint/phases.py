"""The phases warm-up, shape and learn: their lengths, and what happens when each one starts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import DegeneratePsiWarning, EmbeddingCollapsedWarning, PriorCollapsedWarning, warn_user
from ..axes import axes_of_covariance
from .axes import bimodal_axes
from .batches import TrainingRows
from .books import start_books
from .datasets import seeded
from .export import fold
from .plans import plan_for
from .state import SAMPLE_ROWS, TrainingState

#: A total variance below this share of the mean square is a rounding error.
ROUNDING = 1e-12
#: Random weights give every output a variance near 1. With 1,024 outputs, all rows are too far apart for a loss of
#: distances, and the first steps shrink them to one point. Therefore an output with a total variance above this,
#: measured on START_ROWS rows, is scaled to total variance 1.
MOST_VARIANCE, START_ROWS = 32.0, 1_000
#: Factor of the rates of warm-up and shape for networks other than linear and mlp: larger steps kill their relus.
NETWORK_SHARE = 0.2
#: Dimensions up to which books, and the embedding while its variances are shaped, learn at their full rate. The total
#: variance is about 1, so with more dimensions coordinates are smaller, but a step of Adam is not: with 1,024
#: dimensions three steps would cross a book. For an embedding of 512 dimensions the full rate spread the variance over
#: all of them, and L_P, whose unit is that of the largest variance, then left psi with two.
FULL_RATE_DIMS = 16
#: psi with less than this share of the variance is degenerate.
LEAST_SHARE = 0.5
#: Share of the axes that are levelled, at most, to learn from pairs.
PAIR_SHARE = 0.25
#: Factor of the rates of an embedding that starts on axes of the pairs: with the full rate it would leave them within a
#: few steps.
AXES_SHARE = 0.05


class Phases:
    """The phases of one run."""

    def __init__(self, state: TrainingState, data: TrainingRows) -> None:
        self.state, self.data = state, data
        recipe = state.recipe
        #: Epochs of the three phases.
        self.lengths = (recipe.warm_up, recipe.shape if state.has_split else 0, recipe.epochs)
        self._psi_warned = False

    @property
    def total(self) -> int:
        """Epochs of all phases."""
        return sum(self.lengths)

    @property
    def first_with_books(self) -> int:
        """The number of the first epoch of the last phase."""
        return self.lengths[0] + self.lengths[1]

    def phase_of(self, epoch: int) -> str:
        """The phase of an epoch."""
        return "warm-up" if epoch < self.lengths[0] else "shape" if epoch < self.first_with_books else "learn"

    def enter(self, phase: str) -> None:
        """Start a phase: change the state as it needs, and make a new optimizer."""
        state = self.state
        if phase == "warm-up" and starts_on_axes(state):
            self._start_on_axes()
        elif phase == "warm-up":
            self._bound_start()
        else:
            self._normalize(rotate=phase == "shape" or not state.has_split or state.recipe.shape == 0)
        if phase == "shape":
            state.prior.start(state.variances(self.data))
        if phase == "learn":
            self._start_books()
        state.optimizer = optimizer_for(phase, state)

    @torch.no_grad()
    def _start_on_axes(self) -> None:
        """Set the embedding to axes that the pairs give, scaled to the unit of the contrastive loss.

        Pairs say less than labels, and most of what they do not say is in the distances of the inputs: a random start
        would lose it.
        """
        network = self.state.network
        axes, variance, centre = self.data.start_axes(network.dim)
        axes = axes * math.sqrt(self.state.recipe.scale / max(variance, ROUNDING))
        mean, std = (v.double().cpu().numpy() for v in (network.standardize.mean, network.standardize.std))
        network.out.weight.copy_(
            torch.from_numpy(axes.T * np.where(np.isfinite(std), std, 0.0))
        )  # inf: always the same
        network.out.bias.copy_(torch.from_numpy((mean - centre) @ axes))

    @torch.no_grad()
    def _bound_start(self) -> None:
        """Scale an output of large variance; in training mode, because batch norm has no statistics yet."""
        state = self.state
        if not state.recipe.rotate or not any(p.requires_grad for p in state.network.parameters()):
            return
        state.network.train()
        inputs = next(self.data.evenly(START_ROWS).rows_in_order(START_ROWS))[0]
        with seeded(state.settings.seed, 0, device=state.device):  # for dropout in a user's module
            z = state.network(inputs.to(state.device)).double()
        total = float(z.var(0, correction=0).sum())
        if total > MOST_VARIANCE:
            fold(state.network, np.eye(z.shape[1]) / math.sqrt(total), z.mean(0).cpu())

    def _normalize(self, rotate: bool) -> None:
        """Centre, rotate to principal axes, scale to total variance 1. L_E does not change; weights need no tuning."""
        state, recipe = self.state, self.state.recipe
        if not recipe.rotate:
            return
        sample = self.data.evenly(SAMPLE_ROWS)
        z = state.embed(sample).astype(np.float64)
        mean = z.mean(0)
        dim = len(mean)
        covariance = np.cov((z - mean).T, bias=True).reshape(dim, dim)
        matrix = np.eye(dim)
        if rotate:
            # The identity is only scaled and rotated.
            fixed = state.network.name == "identity"
            shear = None if fixed else state.objective.shear(z.astype(np.float32), sample.labels)
            matrix = matrix if shear is None else shear
            turned = matrix.T @ covariance @ matrix
            bimodal = recipe.level and state.has_split
            axes = bimodal_axes(turned, self._most_leading, recipe) if bimodal else axes_of_covariance(turned)[1]
            matrix = matrix @ axes
        total = float(np.trace(matrix.T @ covariance @ matrix))
        if total <= ROUNDING * float(np.square(z @ matrix).sum(1).mean()):
            if rotate:  # once in a run
                self._warn_collapsed()
            total = 1.0
        matrix = matrix / math.sqrt(total)
        fold(state.network, matrix, mean)
        state.objective.fold(torch.from_numpy(matrix), torch.from_numpy(mean))
        state.unit = 1.0 / total * state.unit

    def _warn_collapsed(self) -> None:
        warn_user(
            "the embedding maps all rows to the same vector, so codes cannot distinguish them; if rows differ, try a "
            f"rate_warm_up below {self.state.recipe.rate_warm_up:g}, see docs/joint.md",
            EmbeddingCollapsedWarning,
        )

    @property
    def _most_leading(self) -> int:
        """The most axes that are levelled: linear maps separate classes in n_classes - 1 dimensions.

        Pairs have no classes: a share of all axes, as without a limit all would be levelled and none be left to split.
        """
        dim, n_classes = self.state.network.dim, self.data.n_classes
        cap = n_classes - 1 if n_classes else round(PAIR_SHARE * dim)
        return max(2, min(cap, dim - 1) if self.state.recipe.cap else dim - 1)

    def _start_books(self) -> None:
        state, recipe, settings = self.state, self.state.recipe, self.state.settings
        z = state.embed(self.data, SAMPLE_ROWS)
        variances = z.astype(np.float64).var(0)
        xi = None
        if state.has_split:
            if recipe.shape == 0 or recipe.theta == "em":
                state.prior.fit_em(variances)
            xi = self._psi(torch.from_numpy(variances))
        plan = plan_for(settings.kind, settings.n_books, variances, xi, recipe)
        words = start_books(z, plan.support, min(settings.n_words, len(z)), state.rng, settings.threads)
        state.set_books(plan, words)

    def _psi(self, variances: Tensor) -> NDArray[np.bool_]:
        state = self.state
        wrong = state.prior.collapsed(variances)
        if wrong is None and len(variances) == 1:
            wrong = "an embedding of one dimension has no second mode"
        if wrong is not None:
            warn_user(
                f"the prior collapsed ({wrong}); psi is made of the largest variances, see docs/joint.md",
                PriorCollapsedWarning,
            )
        if state.recipe.raw_variances and wrong is None:
            mask = np.asarray(state.prior.high_by_rule(variances).cpu().numpy())
        else:
            if state.prior_of(variances) is None:
                state.prior.fit_em(variances)
            mask = np.asarray(state.prior.high(variances).cpu().numpy())
            if self._share(variances, mask) < LEAST_SHARE:  # Theta may lag behind the variances: EM fits it to them
                state.prior.fit_em(variances)
                mask = np.asarray(state.prior.high(variances).cpu().numpy())
        self.check_psi(int(mask.sum()), len(mask), self._share(variances, mask))
        return mask

    def check_psi(self, n_psi: int, dim: int, share: float | None, when: str = "") -> None:
        """Warn, once in a run, if psi holds little of the variance: when it is chosen, or after learning."""
        if share is None or share >= LEAST_SHARE or self._psi_warned:
            return
        self._psi_warned = True
        warn_user(
            f"psi has {n_psi} of {dim} dimensions and {share:.0%} of the variance{when}, so the crude books tell few "
            "rows apart and searches read most codes whole; see docs/joint.md",
            DegeneratePsiWarning,
        )

    @staticmethod
    def _share(variances: Tensor, mask: NDArray[np.bool_]) -> float:
        """Share of the variance that is on psi."""
        values = variances.double().cpu().numpy()
        return float(values[mask].sum() / max(values.sum(), 1e-300))


def starts_on_axes(state: TrainingState) -> bool:
    """Whether the embedding starts on axes that the pairs give: linear ones that learn from pairs do."""
    return state.network.name == "linear" and not state.objective.n_classes


def optimizer_for(phase: str, state: TrainingState) -> torch.optim.Optimizer:
    """Adam with one group of parameters for each part of the state, each with its own ``rate``."""
    recipe = state.recipe
    share = 1.0 if state.network.name in ("identity", "linear", "mlp") else NETWORK_SHARE
    slow = AXES_SHARE if starts_on_axes(state) else 1.0
    narrow = min(1.0, math.sqrt(FULL_RATE_DIMS / state.network.dim))
    groups: list[dict[str, Any]] = [
        {"params": list(state.network.parameters()), "rate": recipe.rate_embedding},
        {"params": list(state.objective.parameters()), "rate": recipe.rate_head},
    ]
    if phase == "warm-up":
        groups[0] |= {"rate": share * recipe.rate_warm_up, "weight_decay": recipe.weight_decay}
        groups[1] |= {"rate": recipe.rate_warm_up, "weight_decay": recipe.weight_decay}
    elif phase == "shape":
        groups[0]["rate"], groups[1]["rate"] = share * narrow * recipe.rate_shape, recipe.rate_shape
    groups[0]["rate"] *= slow
    if phase != "warm-up" and recipe.theta == "gradient":
        groups.append({"params": list(state.prior.parameters()), "rate": recipe.rate_theta})
    if phase == "learn":
        books, _ = state.planned_books()
        groups.append({"params": list(books.parameters()), "rate": narrow * recipe.rate_books})
    groups = [group for group in groups if group["params"]]
    # Fused: one pass over the weights instead of ten, which would take longer than the gradients.
    return torch.optim.Adam(groups, lr=recipe.rate_embedding, fused=state.device.type in ("cpu", "cuda"))
