"""An index that keeps its vectors beside their codes: the same answers in memory, in files, stores and pickles."""

from __future__ import annotations

import copy
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import interlace as il
from helpers import METRICS, clustered, hand_made
from interlace.codec.originals import KINDS, OriginalsFormat, centre_of
from interlace.files import storage

X, Q = clustered(2000, 12, seed=1), clustered(40, 12, seed=2)


def built(kind: str | None = "float16", metric: str = "l2", x: np.ndarray = X, **more: object) -> il.Index:
    return il.Index.build(x, n_bytes=3, layout="subspace", metric=metric, originals=kind, threads=1, **more)


def answers(index: il.Index | il.Store, **options: object) -> tuple[list[object], bytes]:
    found = index.search(Q, 5, threads=1, **({"rerank": 60} | options))
    return found.ids.tolist(), found.distances.tobytes()


def true_rows(index: il.Index, kind: str, k: int) -> np.ndarray:
    """By brute force over what is kept."""
    unit = lambda v: v / np.linalg.norm(v, axis=1, keepdims=True) if index.metric == "cosine" else v  # noqa: E731
    format = OriginalsFormat.around(kind, index.codebooks)
    kept = format.to_vectors(format.to_bytes(unit(X).astype(np.float32))).astype(np.float64)
    products = unit(Q).astype(np.float64) @ kept.T
    away = -products if index.metric == "ip" else (kept**2).sum(1) - 2 * products
    return np.argsort(away, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS)
def test_a_re_rank_of_all_rows_is_brute_force(kind: str, metric: str) -> None:
    index = built(kind, metric)
    assert index.originals == kind
    whole = index.search(Q, 5, rerank=2000, threads=1)
    share = np.mean(whole.ids == true_rows(index, kind, 5))
    assert share > 0.99  # rounding may swap neighbours
    assert whole.stats.reranked == 40 * 2000
    by_code = index.search(Q, 5, margin=0.999, threads=1)
    assert np.mean(by_code.ids == true_rows(index, kind, 5)) < share


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_answers_wherever_it_is(tmp_path: Path, kind: str) -> None:
    index = built(kind)
    expected = answers(index)
    index.save(tmp_path / "i")
    opened = il.Index.open(tmp_path / "i")
    opened.verify()
    assert opened.originals == kind
    for other in (opened, pickle.loads(pickle.dumps(index)), pickle.loads(pickle.dumps(opened)), copy.copy(index)):
        assert answers(other) == expected
        assert answers(other, rerank=None, recall=0.9) == answers(index, rerank=None, recall=0.9)
    opened.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "i").read_bytes()
    with index.to_store(tmp_path / "s") as store:
        assert store.originals == kind
        assert answers(store) == expected
        assert answers(store, rerank=None, recall=0.9) == answers(index, rerank=None, recall=0.9)
        assert np.array_equal(store.get([7, 3], originals=True), index.searcher.originals.take(np.array([7, 3])))
        store.add(X[:10] + 1, threads=1)
        store.compact()
        store.verify()
        assert len(store) == 2010
    with opened.to_store(tmp_path / "t", originals=kind) as store:
        assert answers(store) == expected
    other_kind = next(other for other in KINDS if other != kind)
    with pytest.raises(il.InputError, match=f"originals is '{other_kind}', but the index keeps .* as '{kind}'"):
        index.to_store(tmp_path / "u", originals=other_kind)


def test_rows_that_are_added_are_kept(tmp_path: Path) -> None:
    """In one piece, in pieces, to a mapped file: the answers of an index of all rows."""
    codebooks = built(None).codebooks
    whole = il.Index(codebooks, originals="float16")
    whole.add(X, threads=1)
    expected = answers(whole)
    grown = il.Index(codebooks, originals="float16")
    empty = answers(grown)
    for a in range(0, 2000, 250):
        before = copy.copy(grown)
        grown.add(X[a : a + 250], threads=1)
        assert len(before) == a
        assert before.searcher.originals.n == a
    assert answers(grown) == expected
    first = il.Index(codebooks, originals="float16")
    assert answers(first) == empty
    first.add(X[:700], threads=1)
    first.save(tmp_path / "i")
    mapped = il.Index.open(tmp_path / "i")
    mapped.add(X[700:1999], threads=1)
    mapped.add(X[1999:], threads=1)
    assert answers(mapped) == expected
    mapped.save(tmp_path / "j")
    again = il.Index.open(tmp_path / "j")
    again.verify()
    assert answers(again) == expected
    with pytest.raises(il.InputError, match=r"x\[2, 1\] is 70000.*float16"):
        grown.add(np.where(np.arange(36).reshape(3, 12) == 25, 7e4, 0).astype(np.float32))
    assert len(grown) == 2000
    assert answers(grown) == expected


def test_an_index_without_originals_writes_what_it_wrote(tmp_path: Path) -> None:
    index = built(None)
    index.save(tmp_path / "i")
    file = storage.read(tmp_path / "i")
    assert "originals" not in file.meta
    assert "originals" not in file.names
    for options in ({"rerank": 20}, {"recall": 0.9}):
        with pytest.raises(il.InputError, match=r"needs kept originals: .*Index.build\(x, originals='float16'\)"):
            index.search(Q, 5, **options)


def changed(path: Path, **description: object) -> Path:
    """The file with another description, correct checksums included."""
    file = storage.read(path)
    arrays = {name: np.array(file.array(name)) for name in file.names}
    meta = json.loads(json.dumps(file.meta)) | description
    other = path.with_name(path.name + "-changed")
    storage.write(other, arrays, meta)
    return other


def test_damage_is_named(tmp_path: Path) -> None:
    index = il.Index(hand_made(), originals="float16")
    index.add(clustered(50, 4))
    index.save(tmp_path / "i")
    for kind in ("int8", "float8", 7, ["float16"]):
        with pytest.raises(il.DamagedFileError, match="originals"):
            il.Index.open(changed(tmp_path / "i", originals=kind))
    arrays, meta = index.to_arrays()
    rows = np.array(arrays["originals"])
    for wrong in (rows[:40], rows[:, :6], rows.view(np.uint32)):
        storage.write(tmp_path / "j", {**arrays, "originals": np.ascontiguousarray(wrong)}, meta)
        with pytest.raises(il.DamagedFileError, match="originals"):
            il.Index.open(tmp_path / "j")
    rows[3, 1] = 0x7E
    storage.write(tmp_path / "k", {**arrays, "originals": rows}, meta)
    opened = il.Index.open(tmp_path / "k")
    with pytest.raises(il.DamagedFileError, match="an original has a value that is not finite"):
        opened.verify()
    with pytest.raises(il.DamagedFileError, match="the original of row 3 is not finite"):
        opened.search(np.zeros(4), 10, rerank=50)


def test_a_file_that_was_cut_is_not_read(tmp_path: Path) -> None:
    """To read the pages that it lost would end the process."""
    index = il.Index(hand_made(), originals="float16")
    index.add(clustered(20_000, 4), threads=1)
    index.save(tmp_path / "i")
    opened = il.Index.open(tmp_path / "i")
    opened.search(np.zeros(4), 5, rerank=50)
    os.truncate(tmp_path / "i", (tmp_path / "i").stat().st_size // 2)
    kept = opened.searcher.originals
    for act in (
        lambda: kept.native,
        lambda: kept.take(np.array([19_999])),
        lambda: list(kept.blocks()),
        kept.section,
        kept.verify,
        lambda: opened.search(np.zeros(4), 5, rerank=50),
        lambda: opened.save(tmp_path / "j"),
        lambda: opened.evaluate(),
    ):
        with pytest.raises(il.DamagedFileError, match="when it was opened"):
            act()
    assert not (tmp_path / "j").exists()


def test_kinds_are_checked_before_learning() -> None:
    for wrong in ("float32", 16, True):
        with pytest.raises(il.InputError, match="originals must be 'float16', 'int8' or None, got"):
            il.Index.build(X, originals=wrong)
        with pytest.raises(il.InputError, match="originals must be 'float16', 'int8' or None, got"):
            il.plan(1000, 12, originals=wrong)


def test_report_and_plan_count_them() -> None:
    index = built("int8")
    report = index.report()
    assert (report.originals, report.originals_kind) == (2000 * 20, "int8")
    assert "originals                40,000 bytes (int8)" in str(report)
    assert report.bytes_per_vector == pytest.approx(report.code_bytes_per_vector + 20)
    assert f"{report.code_bytes_per_vector + 20:.2f} with originals" in str(report)
    without = built(None).report()
    assert without.bytes_per_vector == without.code_bytes_per_vector == report.code_bytes_per_vector
    assert "with originals" not in str(without)
    assert report.total - without.total == 40_000
    assert "originals" not in str(without)
    plain, kept = (il.plan(2000, 12, n_bytes=3, originals=kind, measure=False) for kind in (None, "int8"))
    assert (plain.originals, kept.originals) == (0, 40_000)
    assert kept.file - plain.file >= 40_000
    assert kept.memory - plain.memory == 40_000
    assert kept.coding_memory - plain.coding_memory == 40_000
    assert "originals" in str(kept)
    assert "originals" not in str(plain)
    million = {"n": 1_000_000, "dim": 128, "measure": False, "max_memory": "300MB"}
    il.plan(**million)
    with pytest.raises(il.InputError, match="max_memory allows"):
        il.plan(**million, originals="float16")


def test_recall_is_calibrated_when_it_is_built() -> None:
    index = built("float16", x=clustered(6000, 12, seed=1))
    assert index.calibration is not None
    assert index.calibration.recalls.found
    low, high = (index.search(Q, 10, recall=recall, threads=1) for recall in (0.5, 0.95))
    assert low.stats.reranked < high.stats.reranked
    assert low.stats.expected_recall >= 0.5
    assert high.stats.expected_recall >= 0.95
    assert f"expected recall {high.stats.expected_recall:.3f} of the k neighbours" in str(high.stats)
    assert index.search(Q, 10, margin=0.999, threads=1).stats.expected_recall is None
    assert index.search(Q, 10, rerank=10, threads=1, margin="exact").stats.expected_recall is None
    recalls = index.calibration.recalls
    index.calibrate(threads=1)  # by the originals
    assert index.calibration.recalls.found
    index.calibrate(clustered(500, 12, seed=5), threads=1)
    assert index.calibration.recalls != recalls


def test_neighbours_of_rows_by_their_originals() -> None:
    index = built("float16")
    kept = index.searcher.originals.take(np.arange(2000)).astype(np.float64)
    away = ((kept[[17, 400], None] - kept[None]) ** 2).sum(2)
    away[[0, 1], [17, 400]] = -1
    found = index.search_by_id([17, 400], 5, rerank=1999, threads=1)
    assert np.array_equal(found.ids, np.argsort(away, axis=1, kind="stable")[:, 1:6])


def test_an_embedding_comes_first(tmp_path: Path) -> None:
    from interlace.codec.embedding import Linear

    rng = np.random.default_rng(0)
    embedding = Linear(rng.normal(size=(4, 7)), rng.normal(size=4))
    index = il.Index(hand_made(), embedding, originals="float16")
    raw = rng.normal(size=(40, 7)).astype(np.float32)
    index.add(raw)
    centre = centre_of(index.codebooks)
    expected = (embedding(raw) - centre).astype(np.float16).astype(np.float32) + centre
    assert np.array_equal(index.searcher.originals.take(np.arange(40)), expected)
    assert index.search(raw[:5], 1, rerank=40).ids.ravel().tolist() == [0, 1, 2, 3, 4]
    model = il.ICQ(n_bytes=3, layout="subspace", threads=1).fit(X)
    assert model.index(X, originals="int8").originals == "int8"
