"""One convolutional network for each set of images, trained once, and what its last layer is given.

Every method that is compared with a CNN learns its own last layer (a linear embedding) together with its books, on the
same features: methods differ in their codes alone, and a fit takes minutes where end to end it takes hours.
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

#: Of cross-entropy.
EPOCHS = {"lenet": 5, "alexnet": 8}
SEED = 0


def features(name: str, images: Problem, size: Size, folder: Path, threads: int | None = None) -> Problem:
    """``mnist-lenet``, ``cifar10-alexnet``: what images are before the last layer, from files if they are there."""
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
    """By cross-entropy, which is the loss of none of the methods; a killed run goes on from its checkpoint."""
    path, checkpoint = stem.with_suffix(".icq"), stem.with_suffix(".checkpoint")
    if path.exists():
        model = SQ.load(path)
    else:
        epochs = EPOCHS[kind] if size.network_epochs is None else size.network_epochs
        recipe = Recipe(name="network", warm_up=epochs, epochs=0)
        settings: dict[str, Any] = {"embedding": kind, "loss": "cross_entropy", "checkpoint": checkpoint}
        model = SQ("cq", n_books=2, recipe=recipe, seed=SEED, threads=threads, progress="auto", **settings)
        model.fit(images.x, images.labels)
        model.set_params(checkpoint=None, progress=False, threads=None).save(path)
        checkpoint.unlink(missing_ok=True)
    assert isinstance(model.embedding_, Network)
    return model.embedding_


def _without_last_layer(network: Network) -> Network:
    """Its last layer replaced by the identity: both have as many inputs as outputs."""
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
