"""Embedding, books and prior learned together: warm-up, shaping of the variances, then all four losses.

    L = L_E + error |z - zq|^2 + cross Var(cross terms) + gamma1 L_P + gamma2 L_ICQ

One epoch at a time; between epochs everything can be written down and taken up again.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..arrays import FloatArray
from ..errors import InputError, PriorCollapsedWarning, warn_user
from ..evaluate import map_of_ranking
from ..learners.prior import Prior
from ..progress import Progress
from ..recipe import Joint
from .alternate import alternate
from .axes import bimodal_axes, principal_axes
from .batches import Data
from .books import Books, Plan, start_books
from .datasets import seeded
from .layers import statistics_of
from .losses.interleave import interleaving
from .losses.prior import PriorLoss
from .losses.quantization import cross_penalty, cross_terms, norm_byte_error, norm_byte_values, quantization_error
from .networks import Network, evaluating, fold
from .objective import EmbeddingLoss
from .plans import plan_for
from .soft import soften
from .state import (
    Arrays,
    check_path,
    load_module,
    load_optimizer,
    module_arrays,
    optimizer_arrays,
    read_checkpoint,
    write_checkpoint,
)
from .variance import OnlineVariance

#: The score after each epoch; more would cost as much as the epoch itself on small data.
VALIDATION_QUERIES, VALIDATION_ROWS = 1_000, 5_000
#: Rows that statistics of the embedding and the start of the books look at, at most.
SAMPLE_ROWS = 20_000
BLOCK_ROWS = 2_000
#: A total variance below this share of the mean square is what rounding leaves of none.
ROUNDING = 1e-12


class Trainer:
    """One run. :meth:`run` goes through the epochs that are left; :meth:`best` puts the best one back."""

    def __init__(
        self, network: Network, data: Data, validation: Data | None, settings: Joint, progress: Progress
    ) -> None:
        self.network, self.data, self.validation = network, data, validation
        self.settings, self.recipe, self.progress = settings, settings.recipe, progress
        self.device = torch.device(settings.device)
        self.rng = np.random.default_rng(settings.seed)
        generator = torch.Generator().manual_seed(settings.seed)
        dim = network.dim
        self.objective = EmbeddingLoss(settings.loss, dim, data.n_classes, self.recipe, generator).to(self.device)
        self.prior = PriorLoss(
            pi2=self.recipe.pi2,
            alpha2=self.recipe.alpha2,
            robustness=self.recipe.robustness,
            raw=self.recipe.raw_variances,
        ).to(self.device)
        self.online = OnlineVariance(paper=self.recipe.fading)
        self.network.to(self.device)
        self.books: Books | None = None
        self.plan: Plan | None = None
        self.unit = 1.0  # of squared distances in L_E before there are books
        self.norm_values: list[FloatArray] = []
        self.codes: NDArray[np.uint8] | None = None  # kept from pass to pass by the alternating optimisation
        self.epoch, self.best_score, self.waited = 0, -math.inf, 0
        self.history: list[dict[str, Any]] = []
        self.optimizer: torch.optim.Optimizer | None = None
        self._best: Arrays | None = None
        self._left_out = False  # whether it was told that batches were
        check_path(settings.checkpoint)

    # --- the run

    @property
    def lengths(self) -> tuple[int, int, int]:
        """Epochs of the three phases."""
        shape = self.recipe.shape if self._has_split else 0
        return self.recipe.warm_up, shape, self.recipe.epochs

    @property
    def _has_split(self) -> bool:
        return self.settings.kind == "icq" and self.settings.n_books > 2

    def _phase(self, epoch: int) -> str:
        warm_up, shape, _ = self.lengths
        return "warm-up" if epoch < warm_up else "shape" if epoch < warm_up + shape else "learn"

    def run(self) -> bool:
        """Whether it came to its end; False after Ctrl-C with something usable, which is kept."""
        total = sum(self.lengths)
        if not self._resume():
            self._look()
        try:
            while self.epoch < total and self.waited < self.recipe.patience:
                phase = self._phase(self.epoch)
                if self.epoch == 0 or phase != self._phase(self.epoch - 1):
                    self._enter(phase)
                self._one_epoch(phase)
                self.epoch += 1
                self._save()
            if self.books is None:  # a recipe without epochs of the last phase
                self._enter("learn")
        except KeyboardInterrupt:
            if self.books is None or self.plan is None:
                raise
            return False
        return True

    def best(self) -> None:
        """Back to the epoch with the best validation score."""
        if self._best is not None:
            self._load_modules(self._best)

    def _look(self) -> None:
        """Statistics of the inputs. Rows held out are read too: a bad one is told now, not when learning is done.

        So is an embedding that starts with NaN.
        """
        if self.recipe.standardize and self.network.standardizes:
            rows = (inputs for inputs, _, _ in self.data.rows_in_order(BLOCK_ROWS))
            self.network.set_statistics(*statistics_of(rows, self.network.standardize.shape))
        if self.validation is not None:
            for _ in self.validation.rows_in_order(BLOCK_ROWS):
                pass
        self.embed(self.data, BLOCK_ROWS)

    def _enter(self, phase: str) -> None:
        """What happens between two phases; the optimiser starts anew."""
        recipe = self.recipe
        if phase != "warm-up":
            self._normalize(rotate=phase == "shape" or not self._has_split or recipe.shape == 0)
        if phase == "shape":
            self.prior.start(self._variances())
        if phase == "learn":
            self._start_books()
        self.optimizer = self._new_optimizer(phase)

    def _normalize(self, rotate: bool) -> None:
        """Centre, rotate to principal axes, scale to total variance 1: free for L_E, and weights hold at any scale."""
        if not self.recipe.rotate:
            return
        sample = self.data.evenly(SAMPLE_ROWS)
        z = self.embed(sample).astype(np.float64)
        mean = z.mean(0)
        dim = len(mean)
        covariance = np.cov((z - mean).T, bias=True).reshape(dim, dim)
        matrix = np.eye(dim)
        if rotate:
            # The identity is to stay one, up to its unit and axes.
            fixed = self.network.name == "identity"
            shear = None if fixed else self.objective.shear(z.astype(np.float32), sample.labels)
            matrix = matrix if shear is None else shear
            turned = matrix.T @ covariance @ matrix
            bimodal = self.recipe.level and self._has_split
            axes = bimodal_axes(turned, self._most_leading, self.recipe) if bimodal else principal_axes(turned)[1]
            matrix = matrix @ axes
        total = float(np.trace(matrix.T @ covariance @ matrix))
        if total <= ROUNDING * float(np.square(z @ matrix).sum(1).mean()):  # all rows are one
            total = 1.0
        matrix = matrix / math.sqrt(total)
        fold(self.network, matrix, mean)
        self.objective.fold(torch.from_numpy(matrix), torch.from_numpy(mean))
        self.unit = 1.0 / total * self.unit

    @property
    def _most_leading(self) -> int:
        """Linear maps tell classes apart in one dimension less than there are classes; psi is to be a small part."""
        return max(2, min(self.data.n_classes - 1, self.network.dim - 1))

    def _start_books(self) -> None:
        z = self.embed(self.data, SAMPLE_ROWS)
        variances = z.astype(np.float64).var(0)
        xi = None
        if self._has_split:
            if self.recipe.shape == 0 or self.recipe.theta == "em":
                self.prior.fit_em(variances)
            xi = self._psi(torch.from_numpy(variances))
        settings = self.settings
        plan = plan_for(settings.kind, settings.n_books, variances, xi, self.recipe)
        words = start_books(z, plan.support, min(settings.n_words, len(z)), self.rng, settings.threads)
        self._use(plan, words)

    def _use(self, plan: Plan, words: FloatArray) -> None:
        """Soft groups may leave their supports while learning; only hard ones are cut at once."""
        soft = self.recipe.groups == "soft" and self.settings.kind == "icq"
        support = np.ones_like(plan.support) if soft else plan.support
        self.plan = plan
        self.books = Books(torch.from_numpy(words), torch.from_numpy(support)).to(self.device)

    def _psi(self, variances: Tensor) -> NDArray[np.bool_]:
        wrong = self.prior.collapsed(variances)
        if wrong is None and len(variances) == 1:
            wrong = "an embedding of one dimension has no second mode"
        if wrong is not None:
            warn_user(
                f"the prior collapsed ({wrong}); psi is made of the largest variances, see docs/joint.md",
                PriorCollapsedWarning,
            )
        if self.recipe.raw_variances and wrong is None:
            return np.asarray(self.prior.high_by_rule(variances).cpu().numpy())
        if self.final_prior(float(variances.mean())) is None:
            self.prior.fit_em(variances)
        return np.asarray(self.prior.high(variances).cpu().numpy())

    def final_prior(self, scale: float) -> Prior | None:
        """Theta as a prior of variances whose mean is ``scale``; as written it may run out of what a prior is."""
        try:
            return self.prior.to_prior(scale if scale > 0 else 1.0)
        except InputError:
            return None

    def _new_optimizer(self, phase: str) -> torch.optim.Optimizer:
        recipe = self.recipe
        groups: list[dict[str, Any]] = [
            {"params": list(self.network.parameters()), "rate": recipe.rate_embedding},
            {"params": list(self.objective.parameters()), "rate": recipe.rate_head},
        ]
        if phase == "warm-up":
            groups[0] |= {"rate": recipe.rate_warm_up, "weight_decay": recipe.weight_decay}
            groups[1] |= {"rate": recipe.rate_warm_up, "weight_decay": recipe.weight_decay}
        elif phase == "shape":
            groups[0]["rate"] = groups[1]["rate"] = recipe.rate_shape
        if phase != "warm-up" and recipe.theta == "gradient":
            groups.append({"params": list(self.prior.parameters()), "rate": recipe.rate_theta})
        if phase == "learn":
            assert self.books is not None
            groups.append({"params": list(self.books.parameters()), "rate": recipe.rate_books})
        groups = [group for group in groups if group["params"]]
        return torch.optim.Adam(groups, lr=recipe.rate_embedding)

    # --- one epoch

    def _one_epoch(self, phase: str) -> None:
        started = time.perf_counter()
        if phase == "learn" and self.epoch >= sum(self.lengths[:2]) + self.recipe.hard_after:
            self.harden()
        turns = phase == "learn" and self.settings.optimize == "alternate"
        # A user's module may draw from the global generator, by nn.Dropout for one.
        with seeded(self.settings.seed, self.epoch, device=self.device):
            sums = alternate(self) if turns else self.passage(phase)
        if self.recipe.theta == "em" and phase != "warm-up" and self._has_split:
            self.prior.fit_em(self.online.variances)
        row: dict[str, Any] = {"epoch": self.epoch, "phase": phase, **sums}
        if phase == "learn":
            row["map"] = self.validate()
            if row["map"] is None or row["map"] > self.best_score:
                self.best_score, self.waited = row["map"] or -math.inf, 0
                self._best = self._module_arrays()
            else:
                self.waited += 1
        row["seconds"] = time.perf_counter() - started
        self.history.append(row)
        self._say(row)

    def passage(
        self, phase: str, *, embedding: bool = True, books: bool = True, kept_codes: bool = False
    ) -> dict[str, float]:
        """One pass over the rows; means of the losses. ``embedding`` and ``books`` say what may move."""
        recipe, settings = self.recipe, self.settings
        self.online.reset()
        # Books are learned for the vectors that will be coded: dropout and batch statistics end with the first phases.
        self.network.train(embedding and phase != "learn")
        self.network.reseed(settings.seed * 1_000_003 + self.epoch)
        if phase == "learn" and settings.cross == "byte":
            self._refresh_norm_values()
        assert self.optimizer is not None
        sums: dict[str, float] = {}
        seen, batch_rows = 0, recipe.batch_rows(len(self.data))  # a DataLoader may leave rows out, or repeat them
        for inputs, labels, rows in self.data.batches(batch_rows, self.epoch, settings.seed):
            self._set_rates(phase, min(1.0, seen / len(self.data)), embedding, books)
            seen += len(labels)
            inputs, labels = inputs.to(self.device), labels.to(self.device)
            with self._precision():
                z = self.network(inputs).float()
            parts = self._losses(phase, z, labels, rows.numpy() if kept_codes else None)
            loss = sum(parts.values(), torch.zeros((), device=self.device))
            self.optimizer.zero_grad(set_to_none=True)
            if loss.requires_grad:  # not where the embedding has no parameters and there are no books yet
                loss.backward()  # type: ignore[no-untyped-call]
                if self._is_finite(loss, parts):
                    self.optimizer.step()
            for name, value in parts.items():
                sums[name] = sums.get(name, 0.0) + float(value.detach()) * len(labels)
        return {name: value / seen for name, value in sums.items()}

    def _is_finite(self, loss: Tensor, parts: dict[str, Tensor]) -> bool:
        """Whether to take the step: the prior as written overflows at some scales, and would leave nothing but NaN."""
        assert self.optimizer is not None
        gradients = [p.grad for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        # Whatever is not finite shows in the sum.
        finite = bool(torch.stack([loss.detach(), *(g.sum() for g in gradients)]).sum().isfinite())
        if not finite and not self._left_out:
            self._left_out = True
            values = ", ".join(f"{name} {float(value.detach()):.3g}" for name, value in parts.items())
            warn_user(
                f"a loss or its gradient is not finite ({values}), first in epoch {self.epoch}: such batches are left "
                "out",
                RuntimeWarning,
            )
        return finite

    def _losses(self, phase: str, z: Tensor, labels: Tensor, rows: NDArray[np.int64] | None) -> dict[str, Tensor]:
        """The weighted parts by name: embedding, quantization, cross, prior, interleaving."""
        recipe = self.recipe
        variances = self.online.update(z)
        parts: dict[str, Tensor] = {}
        if phase != "learn":
            parts["embedding"] = self.objective.of_embedding(z, labels, self.unit)
        else:
            assert self.books is not None
            assert self.plan is not None
            if rows is None:
                codes = self.books.encode(z.detach(), recipe.sweeps)
            else:
                assert self.codes is not None
                codes = torch.from_numpy(self.codes[rows].astype(np.int64)).to(self.device)
            words = self.books.effective()
            of_rows = self.books.of_rows(words, codes)
            zq = torch.stack(of_rows).sum(0)
            soft = None
            if self.objective.takes_soft:
                soft = soften(z, words, self.books.support, codes, recipe.softness)
            parts["embedding"] = self.objective.of_codes(z, zq + z - z.detach(), labels, soft)
            parts["quantization"] = recipe.error * quantization_error(z, zq)
            parts["cross"] = recipe.cross * self._cross(of_rows)
            if self.plan.xi is not None:
                xi = torch.from_numpy(self.plan.xi).to(self.device)
                parts["interleaving"] = recipe.gamma2 * interleaving(words, xi)
        if phase != "warm-up" and self._has_split:
            parts["prior"] = recipe.gamma1 * self.prior(variances)
        return parts

    def _cross(self, of_rows: list[Tensor]) -> Tensor:
        assert self.plan is not None
        groups = [group for group in self.plan.groups if len(group) > 1]
        if self.settings.cross == "exact" or not groups:
            return of_rows[0].new_zeros(())
        if self.settings.cross == "constant":
            return cross_penalty(of_rows, groups)
        terms = (cross_terms([of_rows[k] for k in group]) for group in groups)
        return sum(
            (norm_byte_error(term, values) for term, values in zip(terms, self.norm_values, strict=True)),
            of_rows[0].new_zeros(()),
        )

    @torch.no_grad()
    def _refresh_norm_values(self) -> None:
        assert self.books is not None
        assert self.plan is not None
        z = torch.from_numpy(self.embed(self.data, BLOCK_ROWS)).to(self.device)
        of_rows = self.books.of_rows(self.books.effective(), self.books.encode(z, self.recipe.sweeps))
        self.norm_values = [
            norm_byte_values(cross_terms([of_rows[k] for k in group]).cpu().numpy())
            for group in self.plan.groups
            if len(group) > 1
        ]

    def _set_rates(self, phase: str, done: float, embedding: bool, books: bool) -> None:
        """In the last phase rates fall linearly to nothing; what must not move gets none."""
        assert self.optimizer is not None
        fall = 1.0
        if phase == "learn":
            before = self.lengths[0] + self.lengths[1]
            fall = max(1.0 - (self.epoch - before + done) / max(1, self.lengths[2]), 1e-3)
        movable = {id(p): books for p in (self.books.parameters() if self.books is not None else ())}
        movable |= {id(p): embedding for m in (self.network, self.objective) for p in m.parameters()}
        for group in self.optimizer.param_groups:
            group["lr"] = group["rate"] * fall if movable.get(id(group["params"][0]), True) else 0.0

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        """bfloat16 where it pays: the network, on a GPU. Distances and variances stay in float32."""
        if self.device.type == "cuda":
            return torch.autocast("cuda", dtype=torch.bfloat16)
        return contextlib.nullcontext()

    # --- looking at it

    def _some(self, data: Data, most: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Blocks of at most ``most`` rows, spread over all of them."""
        yield from data.evenly(most).rows_in_order(BLOCK_ROWS)

    @torch.no_grad()
    def embed(self, data: Data, most: int | None = None) -> FloatArray:
        """z of (at most so many) rows, in evaluation mode."""
        with evaluating(self.network):
            blocks = [
                self.network(inputs.to(self.device)).float().cpu().numpy()
                for inputs, _, _ in self._some(data, len(data) if most is None else most)
            ]
        z = np.concatenate(blocks)
        if not np.isfinite(z).all():
            raise InputError(f"the embedding of row {int(np.argmin(np.isfinite(z).all(1)))} is not finite")
        return z

    @torch.no_grad()
    def code_rows(self) -> NDArray[np.uint8]:
        """Codes of all rows learned from: n_books bytes each, all that the turns keep of the data."""
        assert self.books is not None
        codes = np.empty((len(self.data), len(self.books.words)), np.uint8)
        with evaluating(self.network):
            for inputs, _, rows in self.data.rows_in_order(BLOCK_ROWS):
                z = self.network(inputs.to(self.device)).float()
                codes[rows.numpy()] = self.books.encode(z, self.recipe.sweeps).cpu().numpy()
        return codes

    def _variances(self) -> NDArray[np.float64]:
        return np.asarray(self.embed(self.data, SAMPLE_ROWS).astype(np.float64).var(0))

    @torch.no_grad()
    def validate(self) -> float | None:
        """MAP of held-out rows against the codes of (a sample of) the rows learned from; None without held-out rows."""
        if self.validation is None or self.books is None:
            return None
        queries, database = self.validation.evenly(VALIDATION_QUERIES), self.data.evenly(VALIDATION_ROWS)
        z = torch.from_numpy(self.embed(database)).to(self.device)
        words = self._final_words()
        decoded = torch.stack(self.books.of_rows(words, self.books.encode(z, self.recipe.sweeps, words))).sum(0)
        result = map_of_ranking(self.embed(queries), decoded.cpu().numpy(), queries.labels, database.labels)
        return float(result["map"])

    def harden(self) -> None:
        """Words become zero off their group for good; what is left of learning makes up for what that cut off."""
        assert self.books is not None
        assert self.plan is not None
        if self.recipe.hard_end:
            self.books.support.copy_(torch.from_numpy(self.plan.support).to(self.books.support))
            self.books.project()

    def _final_words(self) -> Tensor:
        """As :mod:`interlace.train.finish` will leave them: the score must not count what hard groups cut off."""
        assert self.books is not None
        assert self.plan is not None
        if not self.recipe.hard_end:
            return self.books.effective()
        support = torch.from_numpy(self.plan.support).to(self.books.words)
        return self.books.words * support[:, None, :]

    def _say(self, row: dict[str, Any]) -> None:
        short = {"embedding": "L_E", "quantization": "L_C", "prior": "L_P", "interleaving": "L_ICQ"}
        parts = row | {"quantization": row.get("quantization", 0.0) + row.get("cross", 0.0)}
        text = " ".join(f"{name} {parts[key]:.3g}" for key, name in short.items() if key in row)
        if row.get("map") is not None:
            text += f" MAP {row['map']:.3f}"
        total = sum(self.lengths)
        self.progress(f"{row['phase']} {self.epoch + 1}/{total}: {text}", (self.epoch + 1) / total)

    # --- state

    def _modules(self) -> dict[str, torch.nn.Module]:
        found: dict[str, Any] = {
            "network": self.network,
            "objective": self.objective,
            "prior": self.prior,
            "books": self.books,
        }
        return {name: module for name, module in found.items() if module is not None}

    def _module_arrays(self) -> Arrays:
        arrays: Arrays = {}
        for name, module in self._modules().items():
            arrays |= module_arrays(name, module)
        return arrays

    def _load_modules(self, arrays: Arrays) -> None:
        for name, module in self._modules().items():
            load_module(name, module, arrays)

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """What a checkpoint must agree with."""
        settings = {name: getattr(self.settings, name) for name in ("kind", "n_books", "n_words", "loss", "optimize")}
        return settings | {
            "cross": self.settings.cross,
            "seed": self.settings.seed,
            "recipe": self.recipe.to_dict(),
            "embedding": self.network.name,
            "input_shape": list(self.network.input_shape),
            "dim": self.network.dim,
            "weights": {name: list(value.shape) for name, value in self.network.state_dict().items()},
            "rows": len(self.data),
            "classes": self.data.n_classes,
            "data": self.data.digest(),
        }

    def _save(self) -> None:
        path = self.settings.checkpoint
        if path is None:
            return
        assert self.optimizer is not None
        arrays = self._module_arrays() | optimizer_arrays(self.optimizer)
        if self._best is not None:
            arrays |= {f"best.{name}": array for name, array in self._best.items()}
        if self.plan is not None:
            arrays["plan.support"] = self.plan.support.astype(np.uint8)
            if self.plan.xi is not None:
                arrays["plan.xi"] = self.plan.xi.astype(np.uint8)
        meta = {
            "epoch": self.epoch,
            "best_score": None if math.isinf(self.best_score) else self.best_score,
            "waited": self.waited,
            "unit": self.unit,
            "history": self.history,
            "groups": None if self.plan is None else [list(group) for group in self.plan.groups],
            "rng": self.rng.bit_generator.state,
        }
        write_checkpoint(path, arrays, meta, self.configuration)

    def _resume(self) -> bool:
        """Take up the checkpoint, if there is one."""
        if self.settings.checkpoint is None:
            return False
        found = read_checkpoint(self.settings.checkpoint, self.configuration)
        if found is None:
            return False
        arrays, meta = found
        self.epoch, self.waited, self.unit = int(meta["epoch"]), int(meta["waited"]), float(meta["unit"])
        self.best_score = -math.inf if meta["best_score"] is None else float(meta["best_score"])
        self.history = list(meta["history"])
        self.rng.bit_generator.state = meta["rng"]
        if meta["groups"] is not None:
            xi = arrays.get("plan.xi")
            groups = tuple(tuple(group) for group in meta["groups"])
            plan = Plan(arrays["plan.support"].astype(bool), groups, None if xi is None else xi.astype(bool))
            self._use(plan, arrays["books.words"])
        self._load_modules(arrays)
        self.optimizer = self._new_optimizer(self._phase(self.epoch - 1))
        load_optimizer(self.optimizer, arrays)
        best = {name[5:]: array for name, array in arrays.items() if name.startswith("best.")}
        self._best = best or None
        return True
