"""The file format: docs/format.md against what is written, and golden files of every version."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import books
import interlace as il
from helpers import ID_KINDS, LAYOUTS, build, clustered, hand_made, ids_of, same_index, small_index
from interlace.codec import embedding
from interlace.codec.book import HALF_WIDTH
from interlace.codec.codebooks import HALF_ROTATION
from interlace.estimators.fitted import Fitted
from interlace.files import storage
from interlace.files.versions import FORMAT, VERSION
from raising import raises

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"


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


def random_index(layout: str) -> il.Index:
    rng = np.random.default_rng(3)
    codebooks = books.random_codebooks(rng, layout, sweeps=2)
    return books.index_of(codebooks, books.random_codes(rng, codebooks, 300))


def documented_files() -> dict[str, il.Index]:
    empty = il.Index(hand_made())
    calibrated = small_index(ids="int64")
    calibrated.calibrate(clustered(400, 4))
    rng = np.random.default_rng(8)
    integers = {
        "run": np.arange(300) + 7,
        "runs out of order": np.concatenate([np.arange(100) + 1000, np.arange(200)]),
        "small gaps": np.sort(rng.choice(500, 300, replace=False)),
        "shuffled": rng.permutation(300) * 2 - 100,
        "of 64 bits": rng.integers(-(2**63) + 64, 2**63, 300),
        "smallest": np.arange(300) * 3 + np.iinfo(np.int64).min,
    }
    return {
        **{f"ids {name}": indexed(values) for name, values in integers.items()},
        **{f"{layout} {ids}": build(400, layout=layout, ids=ids) for layout in LAYOUTS for ids in ID_KINDS},
        "norm column learned": build(400, layout="residual", cross="byte"),
        "norm that is not crude": small_index(norms=True, n=700),
        **{f"random {layout}": random_index(layout) for layout in books.LAYOUTS},
        "without calibration": small_index(ids="string"),
        "calibrated by hand": calibrated,
        "empty": empty,
        "ip": build(metric="ip"),
        "cosine": build(metric="cosine"),
        **{f"embedding {kind}": embedded_index(kind) for kind in ("identity", "linear", "mlp")},
        **{f"originals {kind}": build(400, originals=kind) for kind in ("float16", "int8")},
        **{f"wide {layout}": build(400, HALF_WIDTH, layout=layout) for layout in LAYOUTS},
        "wide rotation": half_rotation(),
    }


def half_rotation() -> il.Index:
    """A rotation that float16 numbers hold: a permutation of many axes."""
    rotation = np.eye(HALF_ROTATION, dtype=np.float32)[::-1]
    book = il.Book(np.random.default_rng(2).normal(size=(4, 2)), [0, 5])
    index = il.Index(il.Codebooks([book], dim=HALF_ROTATION, n_crude=1, rotation=rotation))
    index.add(np.random.default_rng(3).normal(size=(30, HALF_ROTATION)), threads=1)
    return index


def indexed(ids: np.ndarray) -> il.Index:
    index = il.Index(hand_made())
    index.add(clustered(len(ids), 4), ids, threads=1)
    return index


def coding_of(ids: np.ndarray) -> tuple[str, int, int]:
    """How docs/format.md says that integers are stored, the number of their runs, and of the words of their blocks."""
    values = ids.tolist()
    n_runs = 1 + sum(b != a + 1 for a, b in zip(values[:-1], values[1:], strict=True))
    n_words = 0
    for first in range(0, len(values), 64):
        offsets = [value - i for i, value in enumerate(values[first : first + 64])]
        n_words += (max(offsets) - min(offsets)).bit_length()
    if n_runs <= max(1, len(values) // 64):
        return "runs of ids", n_runs, n_words
    return "plain ids" if min(values) < -(2**63) + 64 else "blocks of ids", n_runs, n_words


def embedded_index(kind: str) -> il.Index:
    rng = np.random.default_rng(5)
    layers = [(rng.normal(size=(7, 12)), rng.normal(size=7)), (rng.normal(size=(4, 7)), rng.normal(size=4))]
    made: dict[str, embedding.Embedding] = {
        "identity": embedding.Identity(4),
        "linear": embedding.Linear(rng.normal(size=(4, 12)), input_shape=(1, 3, 4)),
        "mlp": embedding.MLP(layers),
    }
    index = il.Index(hand_made(), made[kind])
    index.add(clustered(30, math.prod(index.input_shape)), threads=1)
    return index


def overlapping(codebooks: il.Codebooks) -> bool:
    """Whether books after the first share a dimension."""
    supports = [set(book.support.tolist()) for book in codebooks.books[1:]]
    return any(a & b for i, a in enumerate(supports) for b in supports[:i])


def half_words(book: il.Book) -> bool:
    """Whether docs/format.md says that the words are stored in half precision."""
    if len(book.support) < 64 and len(book.words) <= 256:
        return False
    largest = float(np.abs(book.words).max())
    scaled = np.ldexp(book.words.astype(np.float64), 5 - math.frexp(largest)[1] if largest else 0)
    return bool((scaled.astype(np.float16) == scaled).all())


def half_matrix(rotation: np.ndarray) -> bool:
    """The same for a rotation."""
    return len(rotation) >= 512 and bool((rotation.astype(np.float16) == rotation).all())


def documented_sections(index: il.Index, kind: str = "index") -> dict[str, tuple[str, tuple[int, ...]]]:
    """What the documentation's table says a file of this index holds."""
    learned, n = index.codebooks, len(index)
    codes = index.engine.segments[0].unpack() if n else np.empty((0, 1), np.uint8)
    sizes = np.bincount(codes[:, 0], minlength=learned.n_cells).tolist()
    spare = [(m, (n // m).bit_length() - 1) for m in sizes if m]
    integers = kind == "index" and n > 0 and index.ids_of_rows.kind == "int64"
    coding, n_runs, n_id_words = coding_of(index.ids) if integers else ("", 0, 0)
    names: dict[str, Any] = {
        "n_runs": n_runs,
        "n_id_words": n_id_words,
        "n_sample": 400,  # of the model in these tests
        "n_rows": 400,
        "code_width": learned.code_width,
        "dim": learned.dim,
        "n": n,
        "n_cells": learned.n_cells,
        "n_crude_dims": len(learned.crude_dims),
        "n_variances": len(learned.variances),
        "n_crude_columns": learned.n_crude - 1 + sum(norm.crude for norm in learned.norms if len(norm.values) > 1),
        "n_rest_columns": len(learned.books)
        - learned.n_crude
        + sum(not norm.crude for norm in learned.norms if len(norm.values) > 1),
        "low_bits": sum(m * low for m, low in spare),
        "high_bits": sum(m + (n >> low) + 1 for m, low in spare),
        "n_samples": sum((m + 255) // 256 for m, _ in spare),
        "original_bytes": {"float16": 2 * learned.dim, "int8": 8 + learned.dim}.get(index.originals or ""),
        "n_text": sum(len(i.encode()) for i in index.ids) if index.ids.dtype == object and n else 0,
    }
    present = {
        "always": True,
        "rotation": learned.rotation is not None,
        "norms": bool(learned.norms),
        "index": kind == "index",
        "model": kind.startswith("model"),
        "labels": kind == "model with labels",
        "embedding": kind != "codebooks",
        "cross sums": kind == "index"
        and learned.metric_type.is_squared
        and not learned.norms
        and overlapping(learned)
        and learned.n_cells <= 256,
        **{when: coding == when for when in ("runs of ids", "blocks of ids", "plain ids")},
        "blocks of ids out of order": coding == "blocks of ids" and (np.diff(index.ids.astype(object)) < 0).any(),
        "string ids": kind == "index" and n > 0 and index.ids_of_rows.kind == "string",
        "calibration": kind == "index" and index.calibration is not None,
        "originals": kind == "index" and index.originals is not None,
    }
    expected = {}
    for section, dtype, shape, when, _ in table("section"):
        if not present[when]:
            continue
        parts: list[dict[str, Any]] = [{}]
        if "{b}" in section:
            parts = [{"n_words": len(b.words), "width": len(b.support)} for b in learned.books]
        if "{i}" in section:
            parts = [{"n_values": len(norm.values)} for norm in learned.norms]
        if "{l}" in section:
            layers = getattr(index.embedding, "layers", ())
            parts = [{"n_out": weight.shape[0], "n_in": weight.shape[1]} for weight, _ in layers]
        for i, part in enumerate(parts):
            name = re.sub(r"\{\w\}", str(i), section)
            if dtype == "F32 or F16":
                words = name.startswith("codebooks.words.")
                dtype_here = ("F32", "F16")[half_words(learned.books[i]) if words else half_matrix(learned.rotation)]
            else:
                dtype_here = dtype
            expected[name] = (dtype_here, tuple(eval(shape, {"__builtins__": {}}, names | part)))
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
    met |= {"sample", "codes", "labels"}  # of models, below
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
        keys = [row[0] for row in table("description")]
        assert list(description) == (keys if index.originals else keys[:-1])
        if index.originals:
            assert description["originals"]["kind"] == index.originals
            text = next(row[1] for row in table("description") if row[0] == "originals")
            assert all(f'"{key}": ' in text for key in (*description["originals"], *description["originals"]["loss"]))
        learned = list(description["codebooks"])
        assert ("query_length" in learned) == (index.metric == "cosine")
        halves = [half_words(book) and len(book.words) <= 256 for book in index.codebooks.books]
        assert ("exponents" in learned) == any(halves)
        if any(halves):
            assert [exponent is not None for exponent in description["codebooks"]["exponents"]] == halves
        assert (metadata["format"], metadata["version"]) == (FORMAT, str(VERSION))
        assert [key for key in learned if key not in ("query_length", "exponents")] == [
            row[0] for row in table("codebooks")
        ]
        if description["embedding"] is not None:
            keys = [row[0] for row in table("embedding")]
            assert list(description["embedding"]) == (keys[:-1] if index.embedding.kind == "identity" else keys)
        assert set(inside["checksums"]) == {s for s in header if s != "__metadata__" and not s.startswith(".pad.")}
        if description["calibration"] is not None:
            text = next(row[1] for row in table("description") if row[0] == "calibration")
            assert f'"ks": {description["calibration"]["ks"]}' in text
            assert f'"targets": {description["calibration"]["targets"]}' in text
            assert set(description["calibration"]) - ({"recalls", "reachable"} if index.originals else set()) == {
                *("n", "ks", "targets", "least", "reach", "inner", "queries", "error", "error_rows")
            }
            assert all(f'"{key}": ' in text for key in description["calibration"])
        index.codebooks.save(tmp_path / "c")
        assert set(storage.read(tmp_path / "c").meta) == {"kind", "codebooks"}


def test_the_documented_model_is_that_written(tmp_path: Path) -> None:
    model = il.ICQ(4, layout="hybrid", threads=1).fit(clustered(400, 6))
    model.save(tmp_path / "m")
    file = storage.read(tmp_path / "m")
    assert list(file.meta) == [row[0] for row in table("model")]
    assert file.meta["kind"] == "model"
    index = il.Index(model.codebooks_)
    assert {s: file.entry(s)[:2] for s in file.names} == documented_sections(index, "model")
    made = embedding.Linear(np.ones((6, 20)))
    labels = np.arange(400) % 3
    codes = model.encode(clustered(400, 6))
    model.set_fitted(Fitted(model.codebooks_, model.sample_, 400, made, codes=codes, labels=labels))
    model.save(tmp_path / "m")
    file = storage.read(tmp_path / "m")
    assert list(file.meta) == [row[0] for row in table("model")]
    assert {s: file.entry(s)[:2] for s in file.names} == documented_sections(
        il.Index(model.codebooks_, made), "model with labels"
    )


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
        np.testing.assert_array_equal(codes, index.engine.codes_of(np.arange(len(index))))
        damaged = bytearray((tmp_path / "i").read_bytes())
        damaged[-1] ^= 1
        (tmp_path / "i").write_bytes(damaged)
        with pytest.raises(AssertionError):
            page["read_interlace"](tmp_path / "i")


# --- golden files -----------------------------------------------------------------------------------------------------


def golden_names() -> list[str]:
    return sorted(path.stem for path in GOLDEN.glob("*.interlace"))


def golden_indexes() -> list[str]:
    return [name for name in golden_names() if name != "model"]


def test_there_is_a_golden_file_of_every_layout_and_kind_of_ids() -> None:
    made = {f"{layout}-{ids}" for layout in LAYOUTS for ids in ID_KINDS}
    made |= {f"ids-{kind}" for kind in ("runs", "ascending", "shuffled")}
    made |= {f"{kind}-{layout}" for kind in ("cosine", "parallel") for layout in LAYOUTS}
    made |= {f"{kind}-{layout}" for kind in ("cells", "folded", "halves") for layout in ("hybrid", "residual")}
    made |= {"originals-float16", "originals-int8", "ip", "byte", "constant", "embedding", "model"}
    assert made == set(golden_names()) == {path.stem for path in GOLDEN.glob("*.json")}
    assert max(path.stat().st_size for path in GOLDEN.glob("*.interlace")) < 40_000


@pytest.mark.parametrize("path", sorted((GOLDEN / "earlier").iterdir()), ids=lambda path: path.stem)
def test_files_of_earlier_versions_are_refused_by_name(path: Path, tmp_path: Path) -> None:
    """Of interlace 0.1 and 0.2: neither misread nor called newer; a damaged one is still called damaged."""
    with raises(il.OlderFormatError, repr(str(path if path.is_file() else path / "MANIFEST.json")), "interlace 0.2"):
        il.open(path)
    if path.is_file():
        damaged = bytearray(path.read_bytes())
        damaged[100] ^= 1
        (tmp_path / "f").write_bytes(damaged)
        with pytest.raises(il.DamagedFileError):
            il.open(tmp_path / "f")


@pytest.mark.parametrize("name", golden_indexes())
def test_golden_files_open_and_answer_as_they_did(name: str) -> None:
    stored = json.loads((GOLDEN / f"{name}.json").read_text())
    index = il.open(GOLDEN / f"{name}.interlace")
    index.verify()
    assert {key: getattr(index.codebooks, key) for key in stored["codebooks"]} == stored["codebooks"]
    assert index.ids.tolist() == stored["ids"]
    np.testing.assert_allclose(index.reconstruct(index.ids), stored["reconstructed"], rtol=1e-5, atol=1e-6)
    for search in stored["searches"]:
        for margin in ("exact", float("inf")):
            matches = index.search(stored["queries"], search["k"], margin=margin, threads=1)
            assert matches.ids.tolist() == search["ids"], margin
            np.testing.assert_array_equal(matches.distances, np.array(search["distances"], np.float32))


@pytest.mark.parametrize("name", [name for name in golden_indexes() if name.startswith("parallel")])
def test_golden_codebooks_with_a_weight_encode_rows_as_they_did(name: str) -> None:
    index = il.open(GOLDEN / f"{name}.interlace")
    before = index.reconstruct(index.ids)
    index.add(clustered(70, 5, seed=7), threads=1)
    np.testing.assert_array_equal(index.reconstruct(index.ids[70:]), before)


@pytest.mark.parametrize("name", [name for name in golden_indexes() if name.startswith("originals")])
def test_golden_originals_are_what_they_were(name: str) -> None:
    stored = json.loads((GOLDEN / f"{name}.json").read_text())
    index = il.open(GOLDEN / f"{name}.interlace")
    assert name == f"originals-{index.originals}"
    found = index.search(stored["queries"], 5, rerank=len(index), margin="exact", threads=1)
    assert found.ids.tolist() == stored["reranked"]["ids"]
    assert found.distances.tolist() == stored["reranked"]["distances"]
    assert [list(recall) for recall in index.calibration.recalls.found] == stored["recalls"]


@pytest.mark.parametrize("name", golden_indexes())
def test_golden_files_keep_their_calibration(name: str) -> None:
    stored = json.loads((GOLDEN / f"{name}.json").read_text())
    index = il.open(GOLDEN / f"{name}.interlace")
    assert index.calibration is not None
    for key in ("shares", "cells"):
        np.testing.assert_array_equal(getattr(index.calibration, key), np.array(stored[key], np.float32))
    assert (index.calibration.least, index.calibration.reach) == (stored["least"], stored["reach"])
    assert index.search(stored["queries"], 10, margin=0.99, threads=1).stats.margin == stored["margin"]


@pytest.mark.parametrize("name", golden_indexes())
def test_golden_files_can_grow_and_be_saved_again(name: str, tmp_path: Path) -> None:
    index = il.open(GOLDEN / f"{name}.interlace")
    kind = index.ids_of_rows.kind
    values = math.prod(index.input_shape)
    index.add(clustered(5, values, seed=77), ids_of(kind, 5, first=90_000), threads=1)
    index.calibrate(clustered(400, values, seed=78), threads=1)
    index.save(tmp_path / "i")
    again = il.open(tmp_path / "i")
    again.verify()
    assert same_index(index, again)
    assert again.calibration is not None


def test_the_golden_model_codes_as_it_did() -> None:
    stored = json.loads((GOLDEN / "model.json").read_text())
    model = il.ICQ.load(GOLDEN / "model.interlace")
    given = model.get_params()
    assert {name: given[name] for name in stored["params"]} == stored["params"]
    assert repr(model) == repr(il.ICQ(**stored["params"]))
    assert model.encode(np.array(stored["rows"], np.float32)).tolist() == stored["codes"]
    assert il.Codebooks.load(GOLDEN / "model.interlace") == model.codebooks_
