"""Learning with labels in one call: data and settings -> embedding and codebooks."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...codec.codebooks import Codebooks
from ...codec.embedding import Embedding
from ...errors import InputError
from ...progress import Progress
from ..prior import Prior
from ..recipe import Joint
from ..sample import warn_if_few_rows
from .architectures import EmbeddingNetwork
from .batches import TrainingRows
from .export import describe, to_embedding
from .finish import finish
from .networks import build, wrap
from .trainer import Trainer

#: Dimensions of linear and mlp embeddings, unless there are more classes than that; and those for pairs.
DIM, PAIR_DIM = 16, 64
#: Multiply-adds of a row from which several threads of torch are faster than one. Below, threads mostly wait for each
#: other.
MIN_THREADED_WORK = 1_000_000


@dataclass(frozen=True)
class JointlyLearned:
    """The result of learning with labels."""

    codebooks: Codebooks
    embedding: Embedding
    sample: NDArray[np.int64]  #: rows that were learned from, ascending; the others are for validation
    prior: Prior | None
    history: list[dict[str, Any]]
    score: float | None  #: validation MAP of the best epoch, which is kept
    interrupted: bool
    info: dict[str, Any]  #: for the model card


def default_dim(embedding: str, raw: int, n_classes: int) -> int | None:
    """16, or enough for the classes, or 64 without classes; ``linear`` has at most that of the input.

    None for CNNs, which have their own.
    """
    if embedding in ("linear", "mlp"):
        wanted = max(DIM, 8 * math.ceil(n_classes / 8)) if n_classes else PAIR_DIM
        return min(wanted, raw) if embedding == "linear" else wanted
    return None


def learn_jointly(data: TrainingRows, settings: Joint, progress: Progress) -> JointlyLearned:
    """Learn embedding, books and prior, for checked settings. The user's module is copied, not changed."""
    network = _network(data, settings)
    if settings.kind == "pq" and settings.n_books > network.dim:
        raise InputError(
            f"{settings.n_books} product books need at least {settings.n_books} dimensions, the embedding has "
            f"dim={network.dim}"
        )
    learn, held_out = data.split(settings.validation, settings.seed) if settings.validation > 0 else (data, None)
    warn_if_few_rows(len(learn), settings.n_words)
    trainer = Trainer(network, learn, held_out, settings, progress)
    with _threads(settings.threads if describe(network)["multiply_adds"] >= MIN_THREADED_WORK else 1):
        complete = trainer.run()
        codebooks, stopped = _finished(trainer, settings.n_crude)
    state = trainer.state
    split = state.plan is not None and state.plan.xi is not None
    prior = state.prior_of(codebooks.variances) if split else None
    score = None if math.isinf(trainer.best_score) else trainer.best_score
    share = _share(codebooks)
    trainer.phases.check_psi(len(codebooks.crude_dims), codebooks.dim, share, " after learning")
    info = {
        "kind": settings.kind,
        "loss": settings.loss,
        "optimize": settings.optimize,
        "cross": settings.cross,
        "recipe": settings.recipe.to_dict(),
        "rows": len(data),
        **data.describe_task(),
        "epochs": len(trainer.history),
        "validation_map": score,
        "network": describe(network),
        "psi": len(codebooks.crude_dims),
        "psi_share": share,
    }
    return JointlyLearned(
        codebooks, to_embedding(network), learn.rows, prior, trainer.history, score, stopped or not complete, info
    )


def _share(codebooks: Codebooks) -> float | None:
    """Share of the variance of the embedding that is on psi; None without psi."""
    if not len(codebooks.crude_dims):
        return None
    total = float(codebooks.variances.sum(dtype=np.float64))
    return float(codebooks.variances[codebooks.crude_dims].sum(dtype=np.float64)) / total if total > 0 else None


def _finished(trainer: Trainer, n_crude: int | None) -> tuple[Codebooks, bool]:
    """Codebooks of the best epoch, and whether Ctrl-C was pressed meanwhile.

    After the first Ctrl-C the step is repeated, which is fast compared with training, so that the result is not lost. A
    second Ctrl-C raises KeyboardInterrupt.
    """
    try:
        trainer.restore_best()
        return finish(trainer.state, trainer.data, n_crude), False
    except KeyboardInterrupt:
        trainer.restore_best()
        return finish(trainer.state, trainer.data, n_crude), True


def _network(data: TrainingRows, settings: Joint) -> EmbeddingNetwork:
    embedding, dim = settings.embedding, settings.dim
    if isinstance(embedding, nn.Module):
        try:
            own = copy.deepcopy(embedding)  # training starts from the user's weights and does not change them
        except Exception as error:  # whatever a user's class raises
            raise InputError(f"{type(embedding).__name__} cannot be copied by copy.deepcopy: {error}") from error
        if not all(p.is_leaf for p in own.parameters()):  # a copy made by torch.jit
            raise InputError(f"{type(embedding).__name__} cannot be trained: its copy has no parameters of its own")
        return wrap(own, data.input_shape, dim)
    if dim is None:
        dim = default_dim(embedding, math.prod(data.input_shape), data.n_classes)
    generator = torch.Generator().manual_seed(settings.seed)
    return build(embedding, input_shape=data.input_shape, dim=dim, hidden=settings.hidden, generator=generator)


@contextmanager
def _threads(wanted: int) -> Iterator[None]:
    """Run torch with this many threads, then restore the previous number."""
    before = torch.get_num_threads()
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)
