"""Model files: parameters, codebooks, embedding and card of a fitted quantizer in one checksummed file."""

from __future__ import annotations

import json
from dataclasses import asdict
from os import PathLike
from typing import Any

import numpy as np

from ..codec.embedding import embedding_in
from ..errors import NotAnIndexError
from ..files import storage
from ..index.parts import books_in
from ..learn.auto import Choice
from ..learn.prior import Prior
from ..learn.recipe import Recipe
from .fitted import Fitted


def write_model(path: str | PathLike[str], name: str, parameters: dict[str, Any], fitted: Fitted, card: str) -> None:
    """Writes a model file atomically. ``name`` identifies the class; parameters that JSON cannot hold are left out."""
    arrays, description = fitted.codebooks.to_arrays()
    sections = {f"codebooks.{part}": array for part, array in arrays.items()}
    embedding, classes = None, None
    if fitted.embedding is not None:
        arrays, embedding = fitted.embedding.to_arrays()
        sections |= {f"embedding.{part}": array for part, array in arrays.items()}
    sections["sample"] = fitted.sample
    if fitted.codes is not None and fitted.labels is not None:
        unique, numbers = np.unique(fitted.labels, return_inverse=True)
        sections |= {"codes": fitted.codes, "labels": numbers.reshape(-1).astype(np.int64)}
        classes = unique.tolist()
    storable = {key: to_json_types(value) for key, value in parameters.items()}
    storage.write(
        path,
        sections,
        {
            "kind": "model",
            "estimator": name,
            "codebooks": description,
            "embedding": embedding,
            "params": {key: value for key, value in storable.items() if _is_json(value)},
            "choice": None if fitted.choice is None else asdict(fitted.choice),
            "prior": None if fitted.prior is None else fitted.prior.to_dict(),
            "n_rows": fitted.n_rows,
            "feature_names": None if fitted.names is None else [*fitted.names],
            "classes": classes,
            "history": to_json_types(fitted.history),
            "fit_info": to_json_types(fitted.info),
            "card": card,
        },
    )


def open_model(path: str | PathLike[str]) -> tuple[storage.File, str]:
    """The file and the name of the class that wrote it; raises NotAnIndexError if it is not a model file."""
    file = storage.read(path)
    if file.meta.get("kind") != "model":
        raise NotAnIndexError(f"{file.path!r} holds {file.meta.get('kind')!r}, not a model")
    return file, str(file.meta.get("estimator"))


def read_parameters(file: storage.File) -> dict[str, Any]:
    """Parameters as they were passed to the class: JSON turned tuples into lists and a recipe into a dict."""
    params: dict[str, Any] = dict(file.meta["params"])
    for name, value in params.items():
        if isinstance(value, list):
            params[name] = tuple(value)
        elif name == "recipe" and isinstance(value, dict):
            params[name] = Recipe(**value)
    return params


def read_fitted(file: storage.File, module: Any = None) -> Fitted:
    """The fitted model in a file, with all checksums verified."""
    # Parts provide all attributes of Codebooks that a model uses; see baselines/parted.py.
    codebooks: Any = books_in(file)
    embedding, meta = embedding_in(file, module), file.meta
    with file.parsing("model"):
        dtypes = {"sample": np.int64} | ({} if meta.get("classes") is None else {"codes": np.uint8, "labels": np.int64})
        arrays: dict[str, Any] = {}
        for name, dtype in dtypes.items():
            file.check(name)
            arrays[name] = np.array(file.array(name), dtype)  # copied: a model can outlive its file
        sample, n_rows, choice = arrays["sample"], int(meta["n_rows"]), meta["choice"]
        if sample.ndim != 1 or (len(sample) and not 0 <= sample[0] <= sample[-1] < n_rows):
            raise ValueError(f"a sample of shape {sample.shape} out of {n_rows} rows")
        if embedding is not None and embedding.dim != codebooks.dim:
            raise ValueError(f"an embedding of {embedding.dim} dimensions, books of {codebooks.dim}")
        labels = None if "labels" not in arrays else np.array(meta["classes"])[arrays["labels"]]
        if labels is not None and arrays["codes"].shape != (len(labels), codebooks.code_width):
            raise ValueError(f"codes of shape {arrays['codes'].shape} for {len(labels)} labels")
        return Fitted(
            codebooks,
            sample,
            n_rows,
            embedding,
            None if meta["prior"] is None else Prior.from_dict(meta["prior"]),
            None if choice is None else Choice(**choice | {"table": tuple(choice["table"])}),
            None if meta["feature_names"] is None else np.array(meta["feature_names"], dtype=object),
            meta.get("history"),
            arrays.get("codes"),
            labels,
            meta.get("fit_info", {}),
        )


def to_json_types(value: Any) -> Any:
    """Converts NumPy numbers to Python numbers, tuples to lists and recipes to dicts."""
    if isinstance(value, dict):
        return {str(key): to_json_types(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_types(inner) for inner in value]
    if isinstance(value, Recipe):
        return value.to_dict()
    return value.item() if isinstance(value, np.generic) else value


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
