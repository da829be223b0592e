"""Make the seeds of the fuzzer that are not golden files: stores, codebooks, a checkpoint.

    PYTHONPATH=tests:tests/store python tests/fuzz/fuzz_seeds.py

They are committed. Stores of an older format should stay beside new ones: they must still open.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from store_helpers import filled

import interlace as il
from helpers import hand_made

SEEDS = Path(__file__).resolve().parent / "seeds"


def main() -> None:
    """All of them, anew."""
    SEEDS.mkdir(exist_ok=True)
    for kind in ("int64", "string"):
        folder = SEEDS / f"store-{kind}"
        if folder.exists():
            shutil.rmtree(folder)
        store, _ = filled(folder, kind=kind)
        store.close()
        (folder / "LOCK").unlink()
    hand_made(cross=True).save(SEEDS / "codebooks.interlace")
    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    recipe = il.Recipe(epochs=1, warm_up=1)
    il.ICQ(n_books=2, n_words=4, dim=4, recipe=recipe, checkpoint=SEEDS / "checkpoint.ckpt").fit(x, np.arange(60) % 3)


if __name__ == "__main__":
    main()
