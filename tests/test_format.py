"""The file format: docs/format.md against what is written, and golden files of every version."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from helpers import ID_KINDS, LAYOUTS, build, clustered, hand_made, ids_of, same_index, small_index
from interlace import storage

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden"


# --- docs/format.md ---------------------------------------------------------------------------------------------------

DOC = (ROOT / "docs" / "format.md").read_text()


def table(first_column: str) -> list[list[str]]:
    """Rows of the documentation's table whose first heading is this, without backticks."""
    lines = DOC.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first_column} |")) + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split(" | ")])
    return rows


def documented_files() -> dict[str, il.Index]:
    empty = il.Index(hand_made())
    calibrated = small_index(ids="int64")
    calibrated.calibrate(clustered(9, 4))
    return {
        **{f"{layout} {ids}": build(400, layout=layout, ids=ids) for layout in LAYOUTS for ids in ID_KINDS},
        "norm that is not crude": small_index(norms=True, n=700),
        "without calibration": small_index(ids="string"),
        "calibrated by hand": calibrated,
        "empty": empty,
        "ip": build(metric="ip"),
        "cosine": build(metric="cosine"),
    }


def documented_sections(index: il.Index, kind: str = "index") -> dict[str, tuple[str, tuple[int, ...]]]:
    """What the documentation's table says a file of this index holds."""
    books, n = index.codebooks, len(index)
    codes = index._segments[0].unpack() if n else np.empty((0, 1), np.uint8)
    sizes = np.bincount(codes[:, 0], minlength=books.n_cells).tolist()
    spare = [(m, (n // m).bit_length() - 1) for m in sizes if m]
    names: dict[str, Any] = {
        "dim": books.dim,
        "n": n,
        "n_cells": books.n_cells,
        "n_crude_dims": len(books.crude_dims),
        "n_variances": len(books.variances),
        "n_crude_columns": books.n_crude - 1 + sum(norm.crude for norm in books.norms),
        "n_rest_columns": len(books.books) - books.n_crude + sum(not norm.crude for norm in books.norms),
        "low_bits": sum(m * low for m, low in spare),
        "high_bits": sum(m + (n >> low) + 1 for m, low in spare),
        "n_samples": sum((m + 255) // 256 for m, _ in spare),
        "n_text": sum(len(i.encode()) for i in index.ids) if index.ids.dtype == object and n else 0,
    }
    present = {
        "always": True,
        "rotation": books.rotation is not None,
        "norms": bool(books.norms),
        "index": kind == "index",
        "int64 ids": kind == "index" and n > 0 and index._ids.kind == "int64",
        "string ids": kind == "index" and n > 0 and index._ids.kind == "string",
        "calibration": kind == "index" and index._calibration is not None,
    }
    expected = {}
    for section, dtype, shape, when, _ in table("section"):
        if not present[when]:
            continue
        parts: list[dict[str, Any]] = [{}]
        if "{b}" in section:
            parts = [{"n_words": len(b.words), "width": len(b.support)} for b in books.books]
        if "{i}" in section:
            parts = [{"n_values": len(norm.values)} for norm in books.norms]
        for i, part in enumerate(parts):
            name = section.replace("{b}", str(i)).replace("{i}", str(i))
            expected[name] = (dtype, tuple(eval(shape, {"__builtins__": {}}, names | part)))
    return expected


@pytest.fixture(scope="module")
def documented() -> dict[str, il.Index]:
    return documented_files()


def test_the_documented_sections_are_those_written(documented: dict[str, il.Index], tmp_path: Path) -> None:
    met: set[str] = set()
    for name, index in documented.items():
        index.save(tmp_path / "i")
        file = storage.read(tmp_path / "i")
        assert {s: file.entry(s)[:2] for s in file.names} == documented_sections(index), name
        met |= {re.sub(r"\d+$", "#", s) for s in file.names}
        index.codebooks.save(tmp_path / "c")
        file = storage.read(tmp_path / "c")
        assert {s: file.entry(s)[:2] for s in file.names} == documented_sections(index, "codebooks"), name
    assert met == {re.sub(r"\{\w\}$", "#", row[0]) for row in table("section")}  # no row of the table is idle


def test_the_documented_metadata_is_that_written(documented: dict[str, il.Index], tmp_path: Path) -> None:
    for index in documented.values():
        index.save(tmp_path / "i")
        data = (tmp_path / "i").read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        assert data[8 : 8 + int.from_bytes(data[:8], "little")].isascii()
        metadata = header["__metadata__"]
        assert list(metadata) == [row[0] for row in table("metadata")]
        inside = json.loads(metadata["interlace"])
        assert list(inside) == ["description", "checksums"]
        description = inside["description"]
        assert list(description) == [row[0] for row in table("description")]
        assert list(description["codebooks"]) == [row[0] for row in table("codebooks")]
        assert set(inside["checksums"]) == {s for s in header if s != "__metadata__" and not s.startswith(".pad.")}
        if description["calibration"] is not None:
            text = next(row[1] for row in table("description") if row[0] == "calibration")
            assert f'"ks": {description["calibration"]["ks"]}' in text
            assert f'"targets": {description["calibration"]["targets"]}' in text
            assert set(description["calibration"]) == {"n", "ks", "targets"}
        index.codebooks.save(tmp_path / "c")
        assert set(storage.read(tmp_path / "c").meta) == {"kind", "codebooks"}


def test_the_documented_reader_reads_every_file(documented: dict[str, il.Index], tmp_path: Path) -> None:
    """The page's own code, which knows nothing of the library, finds the same codes and ids."""
    code = re.search(r"```python\n(.*?)```", DOC, re.S)
    assert code is not None
    page: dict[str, Any] = {}
    exec(code[1].replace('open(path, "rb").read()', "path.read_bytes()"), page)
    for index in documented.values():
        index.save(tmp_path / "i")
        codes, ids = page["read_interlace"](tmp_path / "i")
        assert ids == index.ids.tolist()
        np.testing.assert_array_equal(codes, index._codes_of(np.arange(len(index))))
        damaged = bytearray((tmp_path / "i").read_bytes())
        damaged[-1] ^= 1
        (tmp_path / "i").write_bytes(damaged)
        with pytest.raises(AssertionError):
            page["read_interlace"](tmp_path / "i")


# --- golden files -----------------------------------------------------------------------------------------------------


def golden_names() -> list[str]:
    return sorted(path.stem for path in GOLDEN.glob("*.interlace"))


def test_there_is_a_golden_file_of_every_layout_and_kind_of_ids() -> None:
    assert {f"v1-{layout}-{ids}" for layout in LAYOUTS for ids in ID_KINDS} <= set(golden_names())
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(golden_names())
    assert max(path.stat().st_size for path in GOLDEN.glob("*.interlace")) < 40_000


@pytest.mark.parametrize("name", golden_names())
def test_golden_files_open_and_answer_as_they_did(name: str) -> None:
    stored = json.loads((GOLDEN / f"{name}.json").read_text())
    index = il.open(GOLDEN / f"{name}.interlace")
    index.verify()
    books = index.codebooks
    assert {key: getattr(books, key) for key in stored["codebooks"]} == stored["codebooks"]
    assert index._calibration is not None
    np.testing.assert_array_equal(index._calibration.shares, np.array(stored["shares"], np.float32))
    assert index.ids.tolist() == stored["ids"]
    np.testing.assert_allclose(index.reconstruct(index.ids), stored["reconstructed"], rtol=1e-5, atol=1e-6)
    for search in stored["searches"]:
        for margin in ("exact", float("inf")):
            matches = index.search(stored["queries"], search["k"], margin=margin, threads=1)
            assert matches.ids.tolist() == search["ids"], margin
            np.testing.assert_allclose(matches.distances, np.array(search["distances"], float), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", golden_names())
def test_golden_files_can_grow_and_be_saved_again(name: str, tmp_path: Path) -> None:
    index = il.open(GOLDEN / f"{name}.interlace")
    kind = index._ids.kind
    index.add(clustered(5, index.dim, seed=77), ids_of(kind, 5, first=90_000), threads=1)
    index.save(tmp_path / "i")
    again = il.open(tmp_path / "i")
    again.verify()
    assert same_index(index, again)
