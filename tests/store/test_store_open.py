"""Opening a store is quick: it reads what it must, and imports nothing that it can do without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from store_helpers import filled

from helpers import run_python
from interlace.engine.tombstones import Tombstones

OPEN = """
import json, sys
import interlace as il
before = set(sys.modules)
store = il.open(sys.argv[1])
found = len(store), int(store.ids[0]) in store, store.search([[0] * store.dim], 1, margin="exact").ids.shape
print(json.dumps([sorted(name for name in set(sys.modules) - before if not name.startswith("interlace.")), found]))
"""
#: What the first of these calls for, or what takes milliseconds: ``np.unique`` imports numpy.ma.
HEAVY = {"pyarrow", "numpy.ma", "decimal", "logging", "importlib.util", "ast"}


@pytest.mark.parametrize("rich", [False, True])
def test_opening_and_searching_import_nothing_heavy(tmp_path: Path, rich: bool) -> None:
    """With rows and removed rows in the log, and with columns, which nobody asks for."""
    store, model = filled(tmp_path / "s", rich=rich)
    store.close()
    imported, found = run_python(OPEN, str(tmp_path / "s"))
    assert found == [len(model.rows), True, [1, 1]]
    assert not HEAVY & set(imported)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 1000])
def test_tombstones_are_counted(n: int) -> None:
    mask = np.random.default_rng(n).random(n) < 0.3
    bits = np.packbits(mask, bitorder="little")
    assert Tombstones.stored(n, bits, int(mask.sum())).count == mask.sum()
    with pytest.raises(ValueError, match=f"{mask.sum()} tombstones, {mask.sum() + 1} expected"):
        Tombstones.stored(n, bits, int(mask.sum()) + 1)
