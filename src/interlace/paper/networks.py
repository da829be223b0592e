"""One convolutional network per set of images, trained once, and the inputs of its last layer as features.

Every method that is compared with a CNN learns its own last layer (a linear embedding) together with its books on the
same features. Methods then differ only in their codes, and a fit takes minutes instead of the hours of end-to-end
training.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.embedding import Network
from ..estimators.baselines.sq import SQ
from ..learn.recipe import Recipe
from .problem import Problem
from .sizes import Size

#: Epochs of training with cross-entropy.
EPOCHS = {"lenet": 5, "alexnet": 8, "cnn3": 30}
#: Networks that learn from shifted and mirrored images.
AUGMENTED = ("cnn3",)
SEED = 0


def features(name: str, images: Problem, size: Size, folder: Path, threads: int | None = None) -> Problem:
    """Features of ``mnist-lenet`` or ``cifar10-alexnet``: the inputs of the last layer, cached in ``folder``."""
    kind = name.partition("-")[2]
    folder.mkdir(parents=True, exist_ok=True)
    network = _trained(kind, images, size, folder / f"{name}-{images.description['sha256'][:12]}", threads)
    without = _without_last_layer(network)
    arrays = {
        part: _cached(folder / f"{name}-{without.fingerprint[:12]}-{len(rows)}-{part}.npy", without, rows)
        for part, rows in (("x", images.x), ("queries", images.queries))
    }
    return Problem(name, arrays["x"], arrays["queries"], images.labels, images.query_labels)


def _trained(kind: str, images: Problem, size: Size, stem: Path, threads: int | None) -> Network:
    """Trained with cross-entropy, which no compared method uses; resumes from a checkpoint."""
    path, checkpoint = stem.with_suffix(".icq"), stem.with_suffix(".checkpoint")
    if path.exists():
        model = SQ.load(path)
    else:
        epochs = EPOCHS[kind] if size.network_epochs is None else size.network_epochs
        augment = "crops" if kind in AUGMENTED else "none"
        recipe = Recipe(name="network", warm_up=epochs, epochs=0, augment=augment)
        settings: dict[str, Any] = {"embedding": kind, "loss": "cross_entropy", "checkpoint": checkpoint}
        model = SQ("cq", n_books=2, recipe=recipe, seed=SEED, threads=threads, progress="auto", **settings)
        model.fit(images.x, images.labels)
        model.set_params(checkpoint=None, progress=False, threads=None).save(path)
        checkpoint.unlink(missing_ok=True)
    assert isinstance(model.embedding_, Network)
    return model.embedding_


def _without_last_layer(network: Network) -> Network:
    """The network with the identity as last layer, which has as many inputs as outputs by default."""
    dim = network.dim
    last = {"out.weight": np.eye(dim, dtype=np.float32), "out.bias": np.zeros(dim, np.float32)}
    return Network(network.name, network.input_shape, dim, {**network.weights, **last})


def _cached(path: Path, network: Network, rows: NDArray[Any]) -> NDArray[np.float32]:
    if not path.exists():
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            with open(temporary, "wb") as file:
                np.save(file, network(rows))
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    found: NDArray[np.float32] = np.load(path, allow_pickle=False)
    return found
