"""Embedding, books and prior learned together: warm-up, shaping of the variances, then all four losses.

    L = L_E + error |z - zq|^2 + cross Var(cross terms) + gamma1 L_P + gamma2 L_ICQ

Between epochs the state can be saved and resumed. ``state`` has the parameters, ``phases`` the start of each phase,
``passes`` the losses of a batch.
"""

from __future__ import annotations

import math
import time
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from ...errors import DamagedFileError
from ...progress import Progress
from ..recipe import Joint
from .alternate import alternate
from .architectures import EmbeddingNetwork
from .batches import TrainingRows
from .checkpoint import (
    Arrays,
    check_path,
    file_for,
    load_optimizer,
    optimizer_arrays,
    plan_arrays,
    plan_in,
    read_checkpoint,
    write_checkpoint,
)
from .datasets import seeded
from .finish import draft
from .layers import statistics_of
from .passes import Passes
from .phases import Phases, optimizer_for
from .state import BLOCK_ROWS, TrainingState

#: For the score after each epoch, at most; more would take as long as the epoch itself on small data.
VALIDATION_QUERIES, VALIDATION_ROWS = 1_000, 5_000


class Trainer:
    """One run. :meth:`run` does the remaining epochs; :meth:`restore_best` returns to the best one."""

    def __init__(
        self,
        network: EmbeddingNetwork,
        data: TrainingRows,
        validation: TrainingRows | None,
        settings: Joint,
        progress: Progress,
    ) -> None:
        self.data, self.validation = data, validation
        self.settings, self.recipe, self.progress = settings, settings.recipe, progress
        self.state = TrainingState(network, data.n_classes, settings)
        self.phases = Phases(self.state, data)
        self.passes = Passes(self.state, data, self.phases)
        self.best_score, self.waited = -math.inf, 0
        self.history: list[dict[str, Any]] = []
        self._best: Arrays | None = None
        check_path(settings.checkpoint)

    # --- the run

    def run(self) -> bool:
        """Do the remaining epochs. False if Ctrl-C ended them early in the last phase; then the result is usable."""
        state, phases = self.state, self.phases
        if not self._resume():
            self._check_inputs()
        try:
            while state.epoch < phases.total and self.waited < self.recipe.patience:
                phase = phases.phase_of(state.epoch)
                if state.epoch == 0 or phase != phases.phase_of(state.epoch - 1):
                    phases.enter(phase)
                self._one_epoch(phase)
                state.epoch += 1
                self._save()
            if state.books is None:  # a recipe without epochs of the last phase
                phases.enter("learn")
        except KeyboardInterrupt:
            if state.books is None or state.plan is None:
                raise
            return False
        return True

    def restore_best(self) -> None:
        """Return to the epoch with the best validation score."""
        if self._best is not None:
            self.state.load(self._best)

    def _check_inputs(self) -> None:
        """Set the statistics of the inputs. Read held-out rows and embed some rows, so that errors come early."""
        network = self.state.network
        if self.recipe.standardize and network.standardizes:
            rows = (inputs for inputs, _, _ in self.data.rows_in_order(BLOCK_ROWS))
            network.set_statistics(*statistics_of(rows, network.standardize.shape))
        if self.validation is not None:
            for _ in self.validation.rows_in_order(BLOCK_ROWS):
                pass
        self.state.embed(self.data, BLOCK_ROWS)

    # --- one epoch

    def _one_epoch(self, phase: str) -> None:
        started = time.perf_counter()
        state, settings = self.state, self.settings
        if phase == "learn" and state.epoch >= self.phases.first_with_books + self.recipe.hard_after:
            state.harden()
        turns = phase == "learn" and settings.optimize == "alternate"
        # A user's module may use the global generator, for example in nn.Dropout.
        with seeded(settings.seed, state.epoch, device=state.device):
            sums = alternate(self.passes) if turns else self.passes.run(phase)
        if self.recipe.theta == "em" and phase != "warm-up" and state.has_split:
            state.prior.fit_em(self.passes.online.variances)
        row: dict[str, Any] = {"epoch": state.epoch, "phase": phase, **sums}
        if phase != "warm-up" and state.has_split:
            row["psi"] = state.psi(self.passes.online.variances)
        if phase == "learn":
            row["map"] = self.validate()
            if row["map"] is None or row["map"] > self.best_score:
                self.best_score, self.waited = row["map"] or -math.inf, 0
                self._best = state.arrays()
            else:
                self.waited += 1
        row["seconds"] = time.perf_counter() - started
        self.history.append(row)
        self._report(row)

    @torch.no_grad()
    def validate(self) -> float | None:
        """MAP of held-out rows as queries among rows learned from (a sample); None without held-out rows.

        Rows are ranked as a search of the final index ranks them: by its codebooks, codes, and constants of the cross
        terms, not by decoded vectors.
        """
        if self.validation is None or self.state.books is None:
            return None
        trial = self.data.trial(self.validation, VALIDATION_QUERIES, VALIDATION_ROWS)
        z = self.state.embed(trial.database)
        codebooks = draft(self.state, z).codebooks(1)
        return trial.score(codebooks, z, self.state.embed(trial.queries), self.settings.threads)

    def _report(self, row: dict[str, Any]) -> None:
        short = {"embedding": "L_E", "quantization": "L_C", "prior": "L_P", "interleaving": "L_ICQ"}
        parts = row | {"quantization": row.get("quantization", 0.0) + row.get("cross", 0.0)}
        text = " ".join(f"{name} {parts[key]:.3g}" for key, name in short.items() if key in row)
        if row.get("map") is not None:
            text += f" MAP {row['map']:.3f}"
        done, total = self.state.epoch + 1, self.phases.total
        self.progress(f"{row['phase']} {done}/{total}: {text}", done / total)

    # --- checkpoints

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """Everything that must be equal to resume from a checkpoint."""
        settings, network = self.settings, self.state.network
        names = ("kind", "n_books", "n_words", "loss", "optimize", "cross", "seed")
        return {name: getattr(settings, name) for name in names} | {
            "recipe": self.recipe.to_dict(),
            "embedding": network.name,
            "input_shape": list(network.input_shape),
            "dim": network.dim,
            "weights": {name: list(value.shape) for name, value in network.state_dict().items()},
            "rows": len(self.data),
            "classes": self.data.n_classes,
            "data": self.data.digest(),
        }

    @cached_property
    def _file(self) -> Path:
        return file_for(self.settings.checkpoint, self.configuration)

    def _save(self) -> None:
        if self.settings.checkpoint is None:
            return
        state = self.state
        assert state.optimizer is not None
        plan, groups = plan_arrays(state.plan)
        arrays = state.arrays() | optimizer_arrays(state.optimizer) | plan
        if self._best is not None:
            arrays |= {f"best.{name}": array for name, array in self._best.items()}
        meta = {
            "epoch": state.epoch,
            "best_score": None if math.isinf(self.best_score) else self.best_score,
            "waited": self.waited,
            "unit": state.unit,
            "history": self.history,
            "groups": groups,
            "rng": state.rng.bit_generator.state,
        }
        write_checkpoint(self._file, arrays, meta, self.configuration)

    def _resume(self) -> bool:
        """Load the checkpoint, if there is one."""
        if self.settings.checkpoint is None:
            return False
        found = read_checkpoint(self._file, self.configuration)
        if found is None:
            return False
        try:
            self._restore(*found)
        except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RuntimeError) as error:
            raise DamagedFileError(f"checkpoint {str(self._file)!r} is damaged: {error}") from error
        return True

    def _restore(self, arrays: Arrays, meta: dict[str, Any]) -> None:
        state = self.state
        state.epoch, self.waited, state.unit = int(meta["epoch"]), int(meta["waited"]), float(meta["unit"])
        self.best_score = -math.inf if meta["best_score"] is None else float(meta["best_score"])
        self.history = list(meta["history"])
        state.rng.bit_generator.state = meta["rng"]
        if (plan := plan_in(arrays, meta["groups"])) is not None:
            state.set_books(plan, arrays["books.words"])
        state.load(arrays)
        state.optimizer = optimizer_for(self.phases.phase_of(state.epoch - 1), state)
        load_optimizer(state.optimizer, arrays)
        best = {name[5:]: array for name, array in arrays.items() if name.startswith("best.")}
        self._best = best or None
