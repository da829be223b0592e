"""Codebooks as named arrays and a description: the sections of their files, and their pickles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .book import MAX_WORDS, Book, Norm, from_halves, integer_between, to_halves
from .metric import metric_in

if TYPE_CHECKING:
    from .codebooks import Codebooks


def to_arrays(codebooks: Codebooks) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Named arrays and a JSON-able description; :func:`arguments_in` reads them."""
    arrays: dict[str, NDArray[Any]] = {
        "mean": codebooks.mean,
        "crude_dims": codebooks.crude_dims,
        "variances": codebooks.variances,
    }
    if codebooks.rotation is not None:
        arrays["rotation"] = codebooks.rotation
    for i, book in enumerate(codebooks.books):
        arrays[f"words.{i}"], arrays[f"support.{i}"] = book.words, book.support
    for i, norm in enumerate(codebooks.norms):
        arrays[f"norm.{i}"] = norm.values
    description = {
        "dim": codebooks.dim,
        **codebooks.metric_type.described(),
        "layout": codebooks.layout,
        "n_books": len(codebooks.books),
        "n_crude": codebooks.n_crude,
        "beam": codebooks.beam,
        "sweeps": codebooks.sweeps,
        "residual_variance": codebooks.residual_variance,
        "norms": [{"covers": list(norm.covers), "crude": norm.crude} for norm in codebooks.norms],
    }
    if codebooks.parallel_weight != 1:
        description["parallel_weight"] = codebooks.parallel_weight
    if codebooks.folded:
        description["folded"] = True
    if codebooks.error_rows:
        description |= {"error": codebooks.error, "error_rows": codebooks.error_rows}
    if codebooks.n_cells > MAX_WORDS:  # thousands of words: half the bytes, where nothing is lost
        halves, exponent = to_halves(codebooks.books[0].words)
        if np.array_equal(from_halves(halves, exponent), codebooks.books[0].words):
            arrays["words.0"], description["cells_exponent"] = halves, exponent
    return arrays, description


def arguments_in(arrays: dict[str, NDArray[Any]], description: dict[str, Any]) -> dict[str, Any]:
    """The arguments of :class:`Codebooks` in what :func:`to_arrays` returned. The constructor checks them."""
    words = [arrays[f"words.{i}"] for i in range(int(description["n_books"]))]
    if "cells_exponent" in description:
        words[:1] = [from_halves(words[0], integer_between(description["cells_exponent"], "cells_exponent", -200, 200))]
    return dict(
        books=[Book(of_book, arrays[f"support.{i}"]) for i, of_book in enumerate(words)],
        dim=description["dim"],
        n_crude=description["n_crude"],
        metric=metric_in(description),
        mean=arrays["mean"],
        rotation=arrays.get("rotation"),
        norms=[
            Norm(arrays[f"norm.{i}"], tuple(d["covers"]), bool(d["crude"])) for i, d in enumerate(description["norms"])
        ],
        error=description.get("error", math.nan),
        error_rows=description.get("error_rows", 0),
        beam=description["beam"],
        sweeps=description.get("sweeps", 0),  # absent in files of version 1
        parallel_weight=description.get("parallel_weight", 1.0),
        layout=description["layout"],
        folded=description.get("folded", False),
        crude_dims=arrays["crude_dims"],
        variances=arrays["variances"],
        residual_variance=description["residual_variance"],
    )
