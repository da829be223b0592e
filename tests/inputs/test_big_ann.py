"""Files of the big-ann benchmarks: what is written is read back, and nothing is rounded in silence."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import interlace as il
from raising import raises


@pytest.mark.parametrize(("name", "dtype"), [("x.fbin", np.float32), ("x.u8bin", np.uint8), ("x.i8bin", np.int8)])
@pytest.mark.parametrize("n", [1, 7, 20_000])
def test_vectors_are_read_back(tmp_path, name, dtype, n):
    x = np.random.default_rng(0).integers(0, 100, size=(n, 5)).astype(dtype)
    il.data.write_vectors(tmp_path / name, x)
    found = il.data.read_vectors(tmp_path / name)
    assert found.dtype == dtype
    assert_array_equal(found, x)
    assert (tmp_path / name).read_bytes()[:8] == np.array([n, 5], "<u4").tobytes()
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("name", "x", "facts"),
    [
        ("x.u8bin", [[1.0, 2.5]], ("x[0, 1]", "2.5")),
        ("x.u8bin", [[1.0, 2.0], [256.0, 0.0]], ("x[1, 0]", 256, 255)),
        ("x.i8bin", [[-129.0, 0.0]], (-129, -128)),
        ("x.fbin", [[np.nan, 0.0]], ("x[0, 0]",)),
        ("x.npy", [[1.0]], (".fbin",)),
    ],
)
def test_values_that_do_not_fit(tmp_path, name, x, facts):
    with raises(il.InputError, *facts):
        il.data.write_vectors(tmp_path / name, np.array(x))
    assert list(tmp_path.iterdir()) == []


def test_ground_truth(tmp_path):
    ids, distances = np.arange(12).reshape(4, 3), np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3)
    il.data.write_truth(tmp_path / "a.ibin", ids, distances)
    il.data.write_truth(tmp_path / "b.ibin", ids)
    found, beside = il.data.read_truth(tmp_path / "a.ibin")
    assert_array_equal(found, ids)
    assert_array_equal(beside, distances)
    found, beside = il.data.read_truth(tmp_path / "b.ibin")
    assert_array_equal(found, ids)
    assert beside is None
    (tmp_path / "c.ibin").write_bytes((tmp_path / "b.ibin").read_bytes()[:-1])
    with raises(il.InputError, 55, 56):
        il.data.read_truth(tmp_path / "c.ibin")
    (tmp_path / "c.ibin").write_bytes(b"123")
    with raises(il.InputError, 3, 8):
        il.data.read_truth(tmp_path / "c.ibin")
    for bad, facts in (
        ((ids.astype(float),), ("ids", "float64")),
        ((ids - 1,), (-1,)),
        ((ids[0],), ("ids",)),
        ((ids, distances[:2]), ("distances", "(4, 3)")),
    ):
        with raises(il.InputError, *facts):
            il.data.write_truth(tmp_path / "d.ibin", *bad)
