"""Make the seeds of the fuzzer that are not golden files: stores, codebooks, a checkpoint.

    PYTHONPATH=tests:tests/store python tests/fuzz/fuzz_seeds.py

They are committed, and made again when the version of the format changes.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from store_helpers import filled, put, vectors

import interlace as il
from helpers import hand_made

SEEDS = Path(__file__).resolve().parent / "seeds"
#: With columns and originals of either kind, with codes alone, and without codebooks at first.
STORES: dict[str, dict[str, Any]] = {
    "store-int64": {"kind": "int64"},
    "store-string": {"kind": "string"},
    "rich-int64": {"kind": "int64", "rich": True},
    "rich-string": {"kind": "string", "rich": True, "originals": "int8"},
    "learning-int64": {"kind": "int64", "books": False},
    "learning-string": {"kind": "string", "books": False, "originals": "int8"},
}
#: Of those without codebooks at first, the ones that have learned some.
LEARNED = ("learning-string",)


def main() -> None:
    """All of them."""
    shutil.rmtree(SEEDS, ignore_errors=True)
    SEEDS.mkdir()
    for name, how in STORES.items():
        store, _ = filled(SEEDS / name, **how)
        if name in LEARNED:
            store.relearn(progress=False)
            put(store, "upsert", vectors(3), ["é5", "é6", "new"])
            store.remove(["é5"])
        store.close()
        (SEEDS / name / "LOCK").unlink()
    hand_made(cross=True).save(SEEDS / "codebooks.interlace")
    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    recipe = il.Recipe(epochs=1, warm_up=1)
    il.ICQ(n_books=2, n_words=4, dim=4, recipe=recipe, checkpoint=SEEDS / "checkpoint.ckpt").fit(x, np.arange(60) % 3)


if __name__ == "__main__":
    main()
