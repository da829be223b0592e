"""One model for all shards: taken from what a user passes, or learned once from a bounded sample of the source."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codebooks
from ..codec.embedding import Embedding
from ..engine.exact import UNLEARNED
from ..errors import InputError, NotAnIndexError
from ..index.index import Index
from ..inputs.arrays import describe
from ..learn.fit import learn_codebooks
from ..learn.settings import Settings
from ..progress import Progress
from . import places
from .manifest import MODEL, fingerprint
from .sources import ShardSource

STATE, SAMPLE = "state.json", "sample.npy"


@dataclass(frozen=True, eq=False)
class SharedModel:
    """Codebooks, the embedding if there is one, and the rows of the source that they were learned from, ascending."""

    codebooks: Codebooks
    embedding: Embedding | None = None
    sample: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def fingerprint(self) -> str:
        """As in the manifest."""
        return fingerprint(self.codebooks, self.embedding)

    @property
    def input_dim(self) -> int:
        """Values of one row of the source."""
        return self.codebooks.dim if self.embedding is None else int(np.prod(self.embedding.input_shape))

    def save(self, path: str) -> None:
        """As an index file without rows, which workers open by its path."""
        with places.written(path) as local:
            Index(self.codebooks, self.embedding).save(local)


def open_model(path: str, cache: str | None, mark: str) -> SharedModel:
    """What :meth:`SharedModel.save` wrote."""
    index = Index.open(places.fetched(path, cache, mark))
    return SharedModel(index.codebooks, index.embedding)


def as_model(given: Any) -> SharedModel | Settings:
    """A model that is there already, or checked settings to learn one with."""
    if given is None or isinstance(given, dict):
        try:
            return Settings(**(given or {})).checked()
        except TypeError:
            known = {one.name for one in fields(Settings)}
            unknown = ", ".join(sorted(map(str, set(given or {}) - known)))
            raise InputError(f"unknown settings: {unknown}; known are {', '.join(sorted(known))}") from None
    if isinstance(given, Codebooks):
        return SharedModel(given)
    if isinstance(given, Index):
        return SharedModel(given.codebooks, given.embedding)
    if isinstance(given, str | PathLike):
        return _of_file(places.normal(given))
    found = getattr(given, "codebooks_", None)
    if isinstance(found, Codebooks):
        return SharedModel(found, getattr(given, "embedding_", None))
    if found is not None:
        raise InputError(f"shards have one set of codebooks, but {type(given).__name__} learns several")
    if hasattr(given, "fit"):
        raise InputError(
            f"the model must be fitted, but this {type(given).__name__} is not; or pass settings as a dict"
        )
    raise InputError(
        "model must be settings (a dict such as {'n_bytes': 8}), Codebooks, a fitted model, an Index, or the path of "
        f"a model, got {describe(given)}"
    )


def _of_file(path: str) -> SharedModel:
    from ..quantizers import load

    mark = hashlib.sha256(json.dumps(places.identity(path)).encode()).hexdigest()[:16]
    local = places.fetched(path, None, mark)
    try:
        return SharedModel(Codebooks.load(local))
    except NotAnIndexError:
        pass
    try:
        index = Index.open(local)
        return SharedModel(index.codebooks, index.embedding)
    except NotAnIndexError:
        found = as_model(load(local))
        assert isinstance(found, SharedModel)
        return found


def check_model(model: SharedModel, source: ShardSource) -> None:
    """Raise InputError if the rows of the source do not fit."""
    if model.codebooks.layout == UNLEARNED:
        raise InputError("these are the codebooks of a store that has not learned any yet")
    if model.input_dim != source.dim:
        raise InputError(f"the source has {source.dim} dimensions, the model has {model.input_dim}")


def learned(source: ShardSource, settings: Settings, progress: Progress) -> SharedModel:
    """The codebooks that ``Index.build`` learns from the same rows: by a sample of them, whatever their number."""
    found = learn_codebooks(source.sampled(), settings, progress)
    if found.interrupted:
        raise KeyboardInterrupt
    return SharedModel(found.codebooks, None, found.sample)


class ModelFile:
    """The model of a build in its folder, so that a build that goes on does not learn again."""

    def __init__(self, folder: str, work: str, key: str) -> None:
        self.path, self._work, self._key = places.join(folder, MODEL), work, key

    def read(self) -> SharedModel | None:
        """The model of the same build, if it has got so far."""
        try:
            state = json.loads(places.read_bytes(places.join(self._work, STATE)))
            if state.get("key") != self._key:
                return None
            sample = np.frombuffer(places.read_bytes(places.join(self._work, SAMPLE)), np.int64)
            model = replace(open_model(self.path, None, self._key[:16]), sample=sample)
        except (FileNotFoundError, ValueError):
            return None
        return model if model.fingerprint == state.get("model") else None

    def write(self, model: SharedModel) -> None:
        """The state comes last: without it the rest does not count."""
        model.save(self.path)
        places.write_bytes(places.join(self._work, SAMPLE), model.sample.astype(np.int64).tobytes())
        state = {"key": self._key, "model": model.fingerprint}
        places.write_bytes(places.join(self._work, STATE), json.dumps(state, sort_keys=True).encode())
