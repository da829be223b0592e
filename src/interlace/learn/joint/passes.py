"""One pass over the rows: for each batch the losses, their gradients, and a step of the optimizer."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import InputError, warn_user
from ...inputs.arrays import FloatArray
from .augment import crops
from .batches import TrainingRows
from .losses.interleave import interleaving
from .losses.norm_byte import norm_byte_error, norm_byte_values
from .losses.quantization import cross_penalty, cross_terms, quantization_error
from .objective import TRIPLETS, split_queries
from .phases import Phases
from .soft import soften
from .state import BLOCK_ROWS, TrainingState
from .variance import OnlineVariance


class Passes:
    """Passes over the rows to learn from, one or two in each epoch."""

    def __init__(self, state: TrainingState, data: TrainingRows, phases: Phases) -> None:
        self.state, self.data, self.phases = state, data, phases
        self.online = OnlineVariance(paper=state.recipe.fading)
        self.codes: NDArray[np.uint8] | None = None  # kept between passes by the alternating optimizer
        self._norm_values: list[FloatArray] = []
        self._warned = False  # that some batches are skipped

    def code_rows(self) -> NDArray[np.uint8]:
        """Codes of all rows to learn from."""
        return self.state.code_rows(self.data)

    def run(
        self, phase: str, *, embedding: bool = True, books: bool = True, kept_codes: bool = False
    ) -> dict[str, float]:
        """One pass; returns the mean losses. ``embedding`` and ``books`` say which parameters may change."""
        state, recipe, settings = self.state, self.state.recipe, self.state.settings
        self.online.reset()
        # In the last phase the network runs in eval mode, because books are learned for the vectors that are encoded
        # later.
        state.network.train(embedding and phase != "learn")
        state.network.reseed(settings.seed * 1_000_003 + state.epoch)
        if phase == "learn" and settings.cross == "byte":
            self._refresh_norm_values()
        assert state.optimizer is not None
        sums: dict[str, float] = {}
        seen = skipped = 0  # rows; a DataLoader may skip or repeat some
        size = recipe.batch_rows(self.data.n_per_epoch)
        listed = self._listed(kept_codes)
        total = 3 * listed if listed else self.data.n_per_epoch
        batches = (
            self.data.triplets(listed, size, state.epoch, settings.seed)
            if listed
            else self.data.batches(size, state.epoch, settings.seed)
        )
        for number, (inputs, targets, rows) in enumerate(batches):
            self._set_rates(phase, min(1.0, seen / total), embedding, books)
            seen += len(rows)
            if recipe.augment == "crops" and inputs.ndim == 4:
                inputs = crops(inputs, settings.seed, state.epoch, number)
            inputs, targets = inputs.to(state.device), targets.to(state.device)
            with self._precision():
                z = state.network(inputs).float()
            parts = self._losses(phase, z, targets, rows.numpy() if kept_codes else None, listed=bool(listed))
            loss = sum(parts.values(), torch.zeros((), device=state.device))
            state.optimizer.zero_grad(set_to_none=True)
            if loss.requires_grad:  # not where the embedding has no parameters and there are no books yet
                loss.backward()  # type: ignore[no-untyped-call]
                if self._is_finite(loss, parts):
                    state.optimizer.step()
                else:
                    skipped += len(rows)
            for name, value in parts.items():
                sums[name] = sums.get(name, 0.0) + float(value.detach()) * len(rows)
        if not seen:
            raise InputError(f"the DataLoader returned no batch of the {len(self.data)} rows to learn from")
        if skipped == seen and phase == "warm-up":  # later there are results to keep
            raise InputError(
                f"no batch of epoch {state.epoch} had a finite loss, so the embedding cannot be learned; check whether "
                "the module returns NaN or inf in training mode or for some rows"
            )
        return {name: value / seen for name, value in sums.items()}

    def _listed(self, kept_codes: bool) -> int:
        """Triplets of this epoch: an equal share of those of the recipe; 0 if all rows of a batch are used."""
        recipe, settings = self.state.recipe, self.state.settings
        if not recipe.triplets or settings.loss not in TRIPLETS or kept_codes:
            return 0
        return max(1, recipe.triplets // max(1, self.phases.total))

    def _is_finite(self, loss: Tensor, parts: dict[str, Tensor]) -> bool:
        """Whether loss and gradients are finite. A raw prior may overflow, and a step would make all weights NaN."""
        assert self.state.optimizer is not None
        groups = self.state.optimizer.param_groups
        gradients = [p.grad for group in groups for p in group["params"] if p.grad is not None]
        # A sum is not finite if any of its terms is not.
        finite = bool(torch.stack([loss.detach(), *(g.sum() for g in gradients)]).sum().isfinite())
        if not finite and not self._warned:
            self._warned = True
            values = ", ".join(f"{name} {float(value.detach()):.3g}" for name, value in parts.items())
            warn_user(
                f"a loss or its gradient is not finite ({values}), first in epoch {self.state.epoch}: such batches are "
                "skipped",
                RuntimeWarning,
            )
        return finite

    def _losses(
        self, phase: str, z: Tensor, targets: Tensor, rows: NDArray[np.int64] | None, *, listed: bool = False
    ) -> dict[str, Tensor]:
        """The weighted losses by name: embedding, quantization, cross, prior, interleaving.

        A ``listed`` batch has anchors, positives and negatives of a list of triplets. The queries of pairs are never
        encoded: only the keys count for the losses of codes and variances.
        """
        state, recipe = self.state, self.state.recipe
        queries, z = split_queries(z, targets)
        variances = self.online.update(z)
        parts: dict[str, Tensor] = {}
        if phase != "learn":
            parts["embedding"] = state.objective.of_embedding(queries, z, targets, state.unit, listed=listed)
        else:
            books, plan = state.planned_books()
            if rows is None:
                codes = books.encode(z.detach(), recipe.sweeps)
            else:
                assert self.codes is not None
                codes = torch.from_numpy(self.codes[rows].astype(np.int64)).to(state.device)
            words = books.effective()
            of_rows = books.of_rows(words, codes)
            zq = torch.stack(of_rows).sum(0)
            takes_soft = state.objective.takes_soft
            soft = soften(z, words, books.support, codes, recipe.softness) if takes_soft else None
            error = recipe.soft_error if takes_soft and state.settings.kind == "pq" else recipe.error
            parts["embedding"] = state.objective.of_codes(queries, zq + z - z.detach(), targets, soft, listed=listed)
            parts["quantization"] = error * quantization_error(z, zq)
            parts["cross"] = recipe.cross * self._cross(of_rows)
            if plan.xi is not None:
                xi = torch.from_numpy(plan.xi).to(state.device)
                parts["interleaving"] = recipe.gamma2 * interleaving(words, xi, raw=recipe.raw_words)
        if phase != "warm-up" and state.has_split:
            parts["prior"] = recipe.gamma1 * state.prior(variances)
        return parts

    def _cross(self, of_rows: list[Tensor]) -> Tensor:
        _, plan = self.state.planned_books()
        cross = self.state.settings.cross
        groups = [group for group in plan.groups if len(group) > 1]
        if cross == "exact" or not groups:
            return of_rows[0].new_zeros(())
        if cross == "constant":
            return cross_penalty(of_rows, groups)
        terms = (cross_terms([of_rows[k] for k in group]) for group in groups)
        return sum(
            (norm_byte_error(term, values) for term, values in zip(terms, self._norm_values, strict=True)),
            of_rows[0].new_zeros(()),
        )

    @torch.no_grad()
    def _refresh_norm_values(self) -> None:
        books, plan = self.state.planned_books()
        z = torch.from_numpy(self.state.embed(self.data, BLOCK_ROWS)).to(self.state.device)
        of_rows = books.of_rows(books.effective(), books.encode(z, self.state.recipe.sweeps))
        self._norm_values = [
            norm_byte_values(cross_terms([of_rows[k] for k in group]).cpu().numpy())
            for group in plan.groups
            if len(group) > 1
        ]

    def _set_rates(self, phase: str, done: float, embedding: bool, books: bool) -> None:
        """Learning rates. In the last phase they fall linearly to 0; parameters that must not change get 0.

        Theta changes together with the embedding, whose variances it follows.
        """
        state = self.state
        assert state.optimizer is not None
        fall = 1.0
        if phase == "learn":
            gone = state.epoch - self.phases.first_with_books + done
            fall = max(1.0 - gone / max(1, self.phases.lengths[2]), 1e-3)
        of_books = {id(p) for p in (state.books.parameters() if state.books is not None else ())}
        for group in state.optimizer.param_groups:
            moves = books if id(group["params"][0]) in of_books else embedding
            group["lr"] = group["rate"] * fall if moves else 0.0

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        """bfloat16 for the network on a GPU; distances and variances stay in float32."""
        if self.state.device.type == "cuda":
            return torch.autocast("cuda", dtype=torch.bfloat16)
        return contextlib.nullcontext()
