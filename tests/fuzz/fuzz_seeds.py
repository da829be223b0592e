"""Make the seeds of the fuzzer that are not golden files: stores, codebooks, a checkpoint.

    PYTHONPATH=tests:tests/store python tests/fuzz/fuzz_seeds.py

They are committed, and what is there stays as it is: stores of an older version must still open. To make one anew,
remove it; a new format gets a new name in ``STORES``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from store_helpers import filled, put, vectors

import interlace as il
from helpers import hand_made

SEEDS = Path(__file__).resolve().parent / "seeds"
#: Of version 1, then of version 2: with columns and originals of either kind; one with ids in blocks; and of version 3:
#: without codebooks at first.
STORES: dict[str, dict[str, Any]] = {
    "store-int64": {"kind": "int64"},
    "store-string": {"kind": "string"},
    "store-2-int64": {"kind": "int64", "rich": True},
    "store-2-string": {"kind": "string", "rich": True, "originals": "int8"},
    "store-3-int64": {"kind": "int64"},
    "store-4-int64": {"kind": "int64", "books": False},
    "store-4-string": {"kind": "string", "books": False, "originals": "int8"},
}
#: Of those without codebooks at first, the ones that have learned some.
LEARNED = ("store-4-string",)


def main() -> None:
    """Those that are missing."""
    SEEDS.mkdir(exist_ok=True)
    for name, how in STORES.items():
        if not (SEEDS / name).exists():
            store, _ = filled(SEEDS / name, **how)
            if name in LEARNED:
                store.relearn(progress=False)
                put(store, "upsert", vectors(3), ["é5", "é6", "new"])
                store.remove(["é5"])
            store.close()
            (SEEDS / name / "LOCK").unlink()
    if not (SEEDS / "codebooks.interlace").exists():
        hand_made(cross=True).save(SEEDS / "codebooks.interlace")
    if not (checkpoint := SEEDS / "checkpoint.ckpt").exists():
        x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
        recipe = il.Recipe(epochs=1, warm_up=1)
        il.ICQ(n_books=2, n_words=4, dim=4, recipe=recipe, checkpoint=checkpoint).fit(x, np.arange(60) % 3)


if __name__ == "__main__":
    main()
