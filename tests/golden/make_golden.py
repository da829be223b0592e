"""Make the golden files: one tiny index per layout and kind of ids, with its answers in JSON beside it.

    python tests/golden/make_golden.py

Files of a released format version are never made again: they are there to prove that they still open. Run this only for
a new version, under a new prefix.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from helpers import ID_KINDS, LAYOUTS, build, clustered, ids_of, il  # noqa: E402

VERSION = 1


def shown(distances: np.ndarray) -> list[list[float | str]]:
    """JSON has no infinity."""
    return [["inf" if np.isinf(d) else float(d) for d in row] for row in distances]


def tiny(ids: str = "default", **settings: str) -> il.Index:
    """Every 32nd word of learned books, so that cells hold several rows and the file stays small."""
    arrays, description = build(2000, 5, **settings).codebooks.to_arrays()
    few = {name: array[::32] if name.startswith(("words.", "norm.")) else array for name, array in arrays.items()}
    index = il.Index(il.Codebooks.from_arrays(few, description | {"beam": min(8, description["beam"])}))
    index.add(clustered(70, 5, seed=7), ids_of(ids, 70), threads=1)
    index.calibrate(clustered(300, 5, seed=8), threads=1)
    return index


def write(name: str, index: il.Index) -> None:
    """The file, and what it answers today."""
    index.save(HERE / f"{name}.interlace")
    queries = clustered(3, index.dim, seed=1000)
    searches = []
    for k in (1, 5, len(index) + 1):
        found = index.search(queries, k, margin="exact", threads=1)
        searches.append({"k": k, "ids": found.ids.tolist(), "distances": shown(found.distances)})
    books = index.codebooks
    answers = {
        "codebooks": {key: getattr(books, key) for key in ("dim", "metric", "layout", "n_books", "n_crude", "n_bytes")},
        "shares": [[None if np.isnan(share) else float(share) for share in row] for row in index._calibration.shares],
        "ids": index.ids.tolist(),
        "reconstructed": index.reconstruct(index.ids).tolist(),
        "queries": queries.tolist(),
        "searches": searches,
    }
    (HERE / f"{name}.json").write_text(json.dumps(answers, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    for layout in LAYOUTS:
        for ids in ID_KINDS:
            write(f"v{VERSION}-{layout}-{ids}", tiny(layout=layout, ids=ids))
    write(f"v{VERSION}-ip", tiny(metric="ip"))
    write(f"v{VERSION}-cosine", tiny(metric="cosine"))
