"""Labels from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlace import InputError
from interlace.data import read_inputs, read_labels
from raising import raises

NUMBERS = np.array([3, -1, 3, 0], np.int64)


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


class TestText:
    @given(labels=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
    @pytest.mark.parametrize("suffix", [".txt", ".csv"])
    def test_integers(self, suffix: str, labels: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
        path = write(tmp_path_factory.mktemp("labels") / f"y{suffix}", "\n".join(map(str, labels)) + "\n")
        found = read_labels(path)
        assert found.dtype == np.int64
        assert found.tolist() == labels

    @pytest.mark.parametrize("text", ["cat\r\ndog\r\n", "cat\ndog\n", "cat\ndog", "\ufeffcat\ndog\n"])
    @pytest.mark.parametrize("suffix", [".txt", ".csv"])
    def test_line_ends_and_marks(self, text: str, suffix: str, tmp_path: Path) -> None:
        assert read_labels(write(tmp_path / f"y{suffix}", text)).tolist() == ["cat", "dog"]

    @pytest.mark.parametrize("suffix", [".txt", ".csv"])
    def test_floats_that_are_whole_numbers(self, suffix: str, tmp_path: Path) -> None:
        found = read_labels(write(tmp_path / f"y{suffix}", "1.0\n-2\n0.00\n"))
        assert found.dtype == np.int64
        assert found.tolist() == [1, -2, 0]
        for text in ("1.5", "1e0", "1.", ".0", "01.0", "+1.0", "٣"):
            assert read_labels(write(tmp_path / f"y{suffix}", f"1.0\n{text}\n")).tolist() == ["1.0", text]

    def test_what_is_no_plain_integer_is_a_string(self, tmp_path: Path) -> None:
        assert read_labels(write(tmp_path / "y.txt", "7\n007\n")).tolist() == ["7", "007"]
        assert read_labels(write(tmp_path / "y.txt", f"{2**63}\n1\n")).tolist() == [str(2**63), "1"]
        assert read_labels(write(tmp_path / "y.txt", "a, b\nc\n")).tolist() == ["a, b", "c"]

    def test_a_column_by_its_name(self, tmp_path: Path) -> None:
        path = write(tmp_path / "y.csv", 'id,class\n0,"a, b"\n1,c\n')
        assert read_labels(path, "class").tolist() == ["a, b", "c"]
        assert read_labels(path, "id").tolist() == [0, 1]
        with raises(InputError, 2, "columns", "key"):
            read_labels(path)
        with raises(InputError, "'klass'", "'id'", "'class'"):
            read_labels(path, "klass")

    def test_bad_lines(self, tmp_path: Path) -> None:
        with raises(InputError, "line 2"):
            read_labels(write(tmp_path / "y.txt", "1\n\n2\n"))
        with raises(InputError, "line 3"):
            read_labels(write(tmp_path / "y.csv", "id,class\n0,a\n1\n"), "class")
        (tmp_path / "y.txt").write_bytes(b"\xff\xfe1")
        with pytest.raises(InputError, match="cannot be read as text, one label per line"):
            read_labels(tmp_path / "y.txt")


class TestArrays:
    def test_npy(self, tmp_path: Path) -> None:
        np.save(tmp_path / "y.npy", NUMBERS)
        np.testing.assert_array_equal(read_labels(tmp_path / "y.npy"), NUMBERS)
        np.save(tmp_path / "y.npy", NUMBERS[:, None])
        with raises(InputError, "(4, 1)"):
            read_labels(tmp_path / "y.npy")
        np.save(tmp_path / "y.npy", np.array(["a", None], object))
        with pytest.raises(InputError, match="cannot be read as"):
            read_labels(tmp_path / "y.npy")
        with pytest.raises(InputError, match="holds one label per row; a key"):
            read_labels(tmp_path / "y.npy", "y")

    def test_npz(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "one.npz", y=np.array(["a", "b"]))
        assert read_labels(tmp_path / "one.npz").tolist() == ["a", "b"]
        np.savez(tmp_path / "two.npz", x=np.zeros((4, 2)), y=NUMBERS)
        np.testing.assert_array_equal(read_labels(tmp_path / "two.npz", "y"), NUMBERS)
        with raises(InputError, "'x'", "'y'"):
            read_labels(tmp_path / "two.npz")
        with raises(InputError, "'x'", "(4, 2)"):
            read_labels(tmp_path / "two.npz", "x")
        write(tmp_path / "bad.npz", "no archive")
        with raises(InputError, ".npz"):
            read_labels(tmp_path / "bad.npz")

    def test_parquet(self, tmp_path: Path) -> None:
        pyarrow = pytest.importorskip("pyarrow", reason="the io extra is not installed")
        parquet = pytest.importorskip("pyarrow.parquet")
        names = pyarrow.array(["a", "b", "a", "c"]).dictionary_encode()
        columns = {f"f{i}": np.zeros(4) for i in range(30)} | {"y": NUMBERS, "name": names, "gap": [1, None, 2, 3]}
        parquet.write_table(pyarrow.table(columns), tmp_path / "d.parquet")
        np.testing.assert_array_equal(read_labels(tmp_path / "d.parquet", "y"), NUMBERS)
        assert read_labels(tmp_path / "d.parquet", "name").tolist() == ["a", "b", "a", "c"]
        with raises(InputError, "row 1", "'gap'"):
            read_labels(tmp_path / "d.parquet", "gap")
        with raises(InputError, "'f9'", "'f28'", "'f29'", "'y'", "'name'", "'gap'"):
            read_labels(tmp_path / "d.parquet", "class")

    def test_hdf5(self, tmp_path: Path) -> None:
        h5py = pytest.importorskip("h5py", reason="the io extra is not installed")
        with h5py.File(tmp_path / "d.h5", "w") as file:
            file["set/y"], file["names"] = NUMBERS, ["a", "b"]
        np.testing.assert_array_equal(read_labels(tmp_path / "d.h5", "/set/y"), NUMBERS)
        assert read_labels(tmp_path / "d.h5", "names").tolist() == ["a", "b"]


def test_arrays_and_columns_of_floats(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the io extra is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    h5py = pytest.importorskip("h5py", reason="the io extra is not installed")
    for values in (NUMBERS.astype(np.float64), NUMBERS / 2):
        np.save(tmp_path / "y.npy", values)
        np.savez(tmp_path / "y.npz", y=values)
        parquet.write_table(pyarrow.table({"y": values}), tmp_path / "y.parquet")
        with h5py.File(tmp_path / "y.h5", "w") as file:
            file["y"] = values
        for path in (tmp_path / f"y.{suffix}" for suffix in ("npy", "npz", "parquet", "h5")):
            if (values == NUMBERS).all():
                assert read_labels(path).dtype == np.int64
                assert read_labels(path).tolist() == NUMBERS.tolist()
            else:
                with raises(InputError, f"{str(path)!r}[0]", "1.5"):
                    read_labels(path)


def test_other_files(tmp_path: Path) -> None:
    with raises(InputError, "labels", ".npy"):
        read_labels(tmp_path / "y.fvecs")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_labels(tmp_path / "y.txt")


def test_inputs_of_any_shape(tmp_path: Path) -> None:
    for shape in ((3, 4), (3, 1, 2, 2)):
        np.save(tmp_path / "x.npy", np.ones(shape))
        assert read_inputs(tmp_path / "x.npy").shape == shape
    np.save(tmp_path / "x.npy", np.ones(3))
    with raises(InputError, "[rows, ...]", "(3,)"):
        read_inputs(tmp_path / "x.npy")
