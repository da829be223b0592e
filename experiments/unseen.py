"""Why is ICQ not ahead of SQ+CQ on unseen classes? One JSON per method.

    python experiments/unseen.py [--threads N]

MNIST, linear embedding, K = 8, seed 0, the split of the figure `unseen`. For rows of
seen and unseen classes, measures the share of the variance in psi, and the share of it that codes lose on psi and off
it. archive/NOTES.md discusses the results. Methods that have a JSON file are skipped.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import interlace as il

RESULTS = Path(__file__).resolve().parent / "results" / "unseen-codes"
N_BOOKS, CLASSES, SEED = 8, 3, 0


def measured(method: str, threads: int) -> dict[str, Any]:
    """Shares of variance and of error; SQ+CQ has no psi."""
    seen, unseen = il.data.unseen_classes(il.data.mnist(), CLASSES, SEED)
    model = il.quantizers.method(method).make(n_books=N_BOOKS, seed=SEED, threads=threads).fit(seen.x, seen.labels)
    psi = np.asarray(model.codebooks_.crude_dims, int)
    found: dict[str, Any] = {"method": method, "n_books": N_BOOKS, "seed": SEED, "psi": len(psi)}
    for name, rows in (("seen", seen.x), ("unseen", unseen.x)):
        z = model.embed(rows).astype(np.float64)
        lost = z - model.transform(rows)
        found[name] = {"rows": len(rows), "error": _share(lost, z, slice(None))}
        if len(psi):
            rest = np.setdiff1d(np.arange(z.shape[1]), psi)
            found[name] |= {
                "variance_in_psi": round(float(z[:, psi].var(0).sum() / z.var(0).sum()), 4),
                "error_in_psi": _share(lost, z, psi),
                "error_off_psi": _share(lost, z, rest),
            }
    return found


def _share(lost: NDArray[np.float64], z: NDArray[np.float64], dims: Any) -> float:
    """Share of the variance on some dimensions that codes lose."""
    return round(float((lost[:, dims] ** 2).sum(1).mean() / z[:, dims].var(0).sum()), 4)


def main(argv: list[str] | None = None) -> int:
    """Execute the methods that have no result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="threads of each fit (1)")
    options = parser.parse_args(argv)
    RESULTS.mkdir(parents=True, exist_ok=True)
    for method in ("ICQ", "SQ+CQ"):
        path = RESULTS / f"{method.lower().replace('+', '-')}.json"
        if not path.exists():
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps(measured(method, options.threads), indent=1) + "\n")
            temporary.replace(path)
        print(path.read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
