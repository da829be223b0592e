"""The model card: a Markdown description that is stored in the model file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .._version import __version__
from ..codec.codebooks import Codebooks
from ..codec.embedding import Embedding


def card(
    title: str,
    codebooks: Codebooks,
    embedding: Embedding | None,
    *,
    n_rows: int,
    info: Mapping[str, Any],
    history: list[dict[str, Any]] | None,
) -> str:
    """Tables of the data, the model and its size, then of ``info`` and the last entry of ``history``."""
    shape = (codebooks.dim,) if embedding is None else embedding.input_shape
    arrays = codebooks.to_arrays()[0].values()
    words = sorted({len(book.words) for book in codebooks.books})
    weight = getattr(codebooks, "parallel_weight", 1.0)  # codebooks in parts have none
    facts = {
        "data": f"{n_rows:,} rows of shape {' x '.join(map(str, shape))}",
        "embedding": "none: vectors are encoded directly",
        "dimensions": f"{codebooks.dim}, compared by {codebooks.metric}",
        "books": f"{codebooks.n_books} of {'-'.join(str(n) for n in dict.fromkeys((words[0], words[-1])))} words, "
        f"{codebooks.n_crude} crude; layout {codebooks.layout}",
        "loss": "squared error" + (f", {weight:g} times along the vector" if weight > 1 else ""),
        "code": f"{codebooks.n_bytes} bytes ({8 * codebooks.n_bytes} bits) per vector",
        "learned arrays": f"{sum(array.nbytes for array in arrays):,} bytes",
        "made by": f"interlace {__version__}",
    }
    if embedding is not None:
        facts["embedding"] = f"{embedding.label}, {embedding.n_bytes:,} bytes, fingerprint {embedding.fingerprint[:12]}"
    if info.get("validation_map") is not None:
        facts["MAP"] = f"{info['validation_map']:.4f} on held-out rows, best of {info['epochs']} epochs"
    if "ops" in info:
        facts["operations"] = (
            f"{info['ops']:.2f} of {codebooks.n_books} table additions per vector, in an exact search with "
            f"k = {info['list']}; {info['ops_in_cells']:.2f} in order of the cells"
        )
    parts = [f"# {title}", _table(facts)]
    if info:
        parts.append("## Fit\n\n" + _table(dict(_flat(info))))
    if history:
        parts.append("## Last entry of the history\n\n" + _table(dict(_flat(history[-1]))))
    return "\n\n".join(parts) + "\n"


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", f"{value:.4g}" if isinstance(value, float) else str(value)


def _table(rows: Mapping[str, str]) -> str:
    """A Markdown table; bars inside values are escaped."""
    cells = ((name, " ".join(text.split()).replace("|", "\\|")) for name, text in rows.items())
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in cells)])
