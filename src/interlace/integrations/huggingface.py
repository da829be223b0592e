"""Columns of Hugging Face ``datasets`` as indexes, and folders in the manner of the hub, without network."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._version import __version__
from ..errors import DamagedFileError, InputError, NotAnIndexError
from ..estimators.baselines.registry import load as load_model
from ..estimators.models import Model
from ..index.index import Index
from ..inputs.arrays import describe
from ..inputs.literals import Metric, OriginalsKind

CONFIG, CARD = "config.json", "README.md"
#: Rows that are read at a time.
BLOCK_ROWS = 4096
#: Files of a folder by what they hold.
NAMES = {"index": "index.interlace", "model": "model.icq"}


def index_column(
    dataset: Any,
    column: str,
    *,
    ids: str | None = None,
    n_bytes: int | None = None,
    metric: Metric = "l2",
    originals: OriginalsKind | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Any = "auto",
) -> Index:
    """Build an index of a column of vectors of a ``datasets.Dataset``, which is read in blocks (through a
    temporary file).

    ``ids`` is the column of the ids; without it they are the row numbers. The other arguments are those of
    :meth:`interlace.Index.build`.
    """
    names = getattr(dataset, "column_names", None)
    if not isinstance(names, list):
        raise InputError(f"dataset must be a datasets.Dataset (one split), got {describe(dataset)}")
    for name in (column, *(() if ids is None else (ids,))):
        if name not in names:
            raise InputError(f"the dataset has no column {name!r}; it has {', '.join(names)}")
    return Index.build(
        _blocks(dataset, column),
        ids=None if ids is None else list(dataset[ids]),
        n_bytes=n_bytes,
        metric=metric,
        originals=originals,
        seed=seed,
        threads=threads,
        progress=progress,
    )


def _blocks(dataset: Any, name: str) -> Iterator[NDArray[Any]]:
    """The vectors of a column, some thousand rows at a time."""
    source = dataset.with_format("numpy", columns=[name])
    if not len(source):
        raise InputError("the dataset has no rows")
    first = np.asarray(source[0][name])
    if first.ndim != 1 or first.dtype.kind not in "fiu":
        raise InputError(f"column {name!r} must hold vectors, row 0 is {describe(first)}")
    for start in range(0, len(source), BLOCK_ROWS):
        rows = source[start : start + BLOCK_ROWS][name]
        for number, row in enumerate(rows):
            if len(row) != len(first):
                raise InputError(
                    f"column {name!r} has vectors of {len(first)} values, row {start + number} has {len(row)}"
                )
        yield np.stack([np.asarray(row) for row in rows])


def save_pretrained(what: Index | Model, folder: str | PathLike[str]) -> None:
    """Write an index or a fitted model to a folder: the file, ``config.json`` and a card (``README.md``)."""
    if not isinstance(what, Index | Model):
        raise InputError(f"save_pretrained takes an Index or a fitted model, got {describe(what)}")
    kind = "index" if isinstance(what, Index) else "model"
    card = str(what.report()) if isinstance(what, Index) else what.card()
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    what.save(place / NAMES[kind])
    config = {"library_name": "interlace", "kind": kind, "file": NAMES[kind], "version": __version__}
    head = "---\nlibrary_name: interlace\n---\n\n"
    (place / CARD).write_text(head + (f"# interlace index\n\n```\n{card}\n```\n" if kind == "index" else card))
    (place / CONFIG).write_text(json.dumps(config, indent=1) + "\n")  # last: without it there is nothing to load


def from_pretrained(folder: str | PathLike[str], embedding: Any = None) -> Index | Model:
    """Open what :func:`save_pretrained` wrote. ``folder`` is a local path: nothing is downloaded.

    ``embedding`` is the torch module of an index or model that has one, as for ``il.open``.
    """
    place = Path(folder)
    try:
        config = json.loads((place / CONFIG).read_text())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotAnIndexError(
            f"{os.fspath(folder)!r} has no {CONFIG}: it must be a local folder that save_pretrained wrote"
        ) from error
    except ValueError as error:
        raise DamagedFileError(f"{str(place / CONFIG)!r} is damaged: {error}") from error
    if not isinstance(config, dict) or config.get("library_name") != "interlace":
        raise NotAnIndexError(f"{os.fspath(folder)!r} is not a folder of interlace: library_name is another one")
    kind = config.get("kind")
    if kind not in NAMES or config.get("file") != NAMES[kind]:
        raise DamagedFileError(f"{str(place / CONFIG)!r} is damaged: kind is {kind!r}, file {config.get('file')!r}")
    path = place / NAMES[kind]
    if kind == "index":
        return Index.open(path, embedding)
    model: Model = load_model(path, embedding)
    return model
