"""Every format comes back as written, stays on disk where it can, and says what is wrong with a bad file."""

from __future__ import annotations

import gc
import os
import sys
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import interlace as il
from interlace.data import EXTENSIONS, read_vectors
from interlace.inputs.arrays import Rows
from raising import raises

RNG = np.random.default_rng(0)
FLOATS = RNG.normal(size=(37, 5)).astype(np.float32)
BYTES = RNG.integers(0, 256, (37, 5), np.uint8)
SIGNED = RNG.integers(-128, 128, (37, 5), np.int8)
INTS = RNG.integers(-1000, 1000, (37, 5), np.int32)


def write_vecs(path, array):
    header = np.full((len(array), 1), array.shape[1], "<i4").view(np.uint8).reshape(len(array), 4)
    np.concatenate([header, np.ascontiguousarray(array).view(np.uint8).reshape(len(array), -1)], 1).tofile(path)


def write_bin(path, array):
    with open(path, "wb") as file:
        np.array(array.shape, "<i4").tofile(file)
        np.ascontiguousarray(array).tofile(file)


def write_parquet(path, array):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"name": [f"r{i}" for i in range(len(array))], "vector": list(array)}), path)


def write_h5(path, array):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["vectors"] = array


WRITERS = {
    "x.npy": (np.save, FLOATS),
    "x.npz": (lambda path, a: np.savez(path, x=a, ids=np.arange(len(a))), FLOATS),
    "packed.npz": (lambda path, a: np.savez_compressed(path, x=a, ids=np.arange(len(a))), FLOATS),
    "x.fvecs": (write_vecs, FLOATS),
    "x.bvecs": (write_vecs, BYTES),
    "x.ivecs": (write_vecs, INTS),
    "x.fbin": (write_bin, FLOATS),
    "x.u8bin": (write_bin, BYTES),
    "x.i8bin": (write_bin, SIGNED),
    "x.parquet": (write_parquet, FLOATS),
    "x.h5": (write_h5, FLOATS),
    "x.hdf5": (write_h5, FLOATS),
}
MAPPED = ("x.npy", "x.npz", "x.fvecs", "x.bvecs", "x.ivecs", "x.fbin", "x.u8bin", "x.i8bin")


def test_every_extension_is_tested():
    assert {os.path.splitext(name)[1] for name in WRITERS} == set(EXTENSIONS)


@pytest.fixture(params=WRITERS)
def written(request, tmp_path):
    write, array = WRITERS[request.param]
    write(tmp_path / request.param, array)
    return tmp_path / request.param, array


def test_what_was_written_is_read(written):
    path, array = written
    vectors = read_vectors(path)
    gc.collect()  # an HDF5 data set must keep its file open by itself
    assert vectors.shape == array.shape
    assert vectors.dtype == array.dtype
    assert_array_equal(vectors[:], array)
    assert_array_equal(read_vectors(str(path))[3:9], array[3:9])


def test_the_index_takes_it_in_blocks(written):
    path, array = written
    rows = Rows(read_vectors(path))
    assert_array_equal(np.concatenate(list(rows.blocks(10))), array.astype(np.float32))
    assert_array_equal(rows.take(np.array([0, 5, 36])), array[[0, 5, 36]].astype(np.float32))
    assert len(il.Index.build(read_vectors(path), n_bytes=2, threads=1)) == len(array)


@pytest.mark.parametrize("name", MAPPED)
def test_nothing_is_copied(name, tmp_path):
    write, array = WRITERS[name]
    write(tmp_path / name, array)
    base = vectors = read_vectors(tmp_path / name)
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    assert not vectors.flags.writeable


def test_an_hdf5_data_set_stays_on_disk(tmp_path):
    h5py = pytest.importorskip("h5py")
    write_h5(tmp_path / "x.h5", FLOATS)
    assert isinstance(read_vectors(tmp_path / "x.h5"), h5py.Dataset)


def test_the_extension_may_be_upper_case(tmp_path):
    write_bin(tmp_path / "X.FBIN", FLOATS)
    assert_array_equal(read_vectors(tmp_path / "X.FBIN"), FLOATS)


def test_fortran_order_and_no_rows(tmp_path):
    np.save(tmp_path / "f.npy", np.asfortranarray(FLOATS))
    np.savez(tmp_path / "f.npz", x=np.asfortranarray(FLOATS))
    np.save(tmp_path / "none.npy", np.empty((0, 5), np.float32))
    np.savez(tmp_path / "none.npz", x=np.empty((0, 5), np.float32))
    write_bin(tmp_path / "none.fbin", np.empty((0, 5), np.float32))
    assert_array_equal(read_vectors(tmp_path / "f.npy"), FLOATS)
    assert_array_equal(read_vectors(tmp_path / "f.npz"), FLOATS)
    for name in ("none.npy", "none.npz", "none.fbin"):
        assert read_vectors(tmp_path / name).shape == (0, 5)


def test_truncation_is_named_wherever_it_falls(written, tmp_path):
    path, _ = written
    whole = path.read_bytes()
    # Cuts at row borders of .?vecs leave a shorter, sound file: no reader could tell.
    for size in {1, 3, 7, 9, 21, len(whole) // 2 + 1, len(whole) - 1}:
        if path.suffix.endswith("vecs") and size % (4 + 5 * (1 if path.suffix == ".bvecs" else 4)) == 0:
            continue
        path.write_bytes(whole[:size])
        with pytest.raises(il.InputError, match=r"truncated|cannot be read"):
            read_vectors(path)


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_missing_empty_and_directory(extension, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_vectors(tmp_path / f"gone{extension}")
    (tmp_path / f"empty{extension}").touch()
    with pytest.raises(il.InputError, match="is empty"):
        read_vectors(tmp_path / f"empty{extension}")
    (tmp_path / f"folder{extension}").mkdir()
    with pytest.raises(il.InputError, match="is a directory"):
        read_vectors(tmp_path / f"folder{extension}")


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_something_else_is_refused(extension, tmp_path):
    path = tmp_path / f"text{extension}"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 70)
    with pytest.raises(il.InputError):
        read_vectors(path)


def test_unknown_extension_lists_the_known_ones(tmp_path):
    with raises(il.InputError, ".npy", ".npz", ".h5"):
        read_vectors(tmp_path / "x.csv")


def test_a_key_where_there_is_none(tmp_path):
    np.save(tmp_path / "x.npy", FLOATS)
    with pytest.raises(il.InputError, match="holds a single array"):
        read_vectors(tmp_path / "x.npy", "train")


class TestNpy:
    def test_wrong_rank(self, tmp_path):
        np.save(tmp_path / "x.npy", np.arange(5))
        with raises(il.InputError, "2-D", "[rows, dimensions]", "(5,)"):
            read_vectors(tmp_path / "x.npy")

    def test_objects_are_not_unpickled(self, tmp_path):
        np.save(tmp_path / "x.npy", np.array([[{}]], object), allow_pickle=True)
        np.savez(tmp_path / "x.npz", x=np.array([[{}]], object))
        for name in ("x.npy", "x.npz"):
            with pytest.raises(il.InputError, match=r"cannot be read|Python objects"):
                read_vectors(tmp_path / name)

    def test_an_archive_under_the_wrong_name(self, tmp_path):
        np.savez(tmp_path / "x.npz", x=FLOATS)
        os.rename(tmp_path / "x.npz", tmp_path / "x.npy")
        with raises(il.InputError, ".npz"):
            read_vectors(tmp_path / "x.npy")


class TestNpz:
    def test_key_chooses(self, tmp_path):
        np.savez(tmp_path / "x.npz", train=FLOATS, test=BYTES)
        assert_array_equal(read_vectors(tmp_path / "x.npz", "train"), FLOATS)
        assert_array_equal(read_vectors(tmp_path / "x.npz", "test"), BYTES)

    def test_more_than_one_is_not_guessed(self, tmp_path):
        np.savez(tmp_path / "x.npz", train=FLOATS, test=BYTES)
        with raises(il.InputError, "2-D", "'train'", "(37, 5)", "'test'"):
            read_vectors(tmp_path / "x.npz")

    def test_none_and_unknown_keys(self, tmp_path):
        np.savez(tmp_path / "x.npz", ids=np.arange(3))
        with raises(il.InputError, "2-D", "'ids'", "(3,)"):
            read_vectors(tmp_path / "x.npz")
        with raises(il.InputError, "'x'", "'ids'"):
            read_vectors(tmp_path / "x.npz", "x")

    def test_an_archive_of_other_things(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.writestr("readme.txt", "hello")
        with raises(il.InputError, ".npz"):
            read_vectors(tmp_path / "x.npz")


class TestVecs:
    def test_a_row_of_another_dimension(self, tmp_path):
        write_vecs(tmp_path / "x.fvecs", FLOATS)
        damaged = bytearray((tmp_path / "x.fvecs").read_bytes())
        damaged[24 * 7] = 9  # rows of 4 + 5 * 4 bytes
        (tmp_path / "x.fvecs").write_bytes(damaged)
        with raises(il.InputError, "row 7", 9, "row 0", 5):
            read_vectors(tmp_path / "x.fvecs")

    @pytest.mark.parametrize("dim", [0, -3])
    def test_an_impossible_dimension(self, dim, tmp_path):
        np.array([dim, 0, 0], "<i4").tofile(tmp_path / "x.ivecs")
        with pytest.raises(il.InputError, match=f"row 0 claims {dim} dimensions"):
            read_vectors(tmp_path / "x.ivecs")

    def test_long_files_are_sampled_first_and_last_row_included(self, tmp_path):
        write_vecs(tmp_path / "x.bvecs", np.zeros((5000, 3), np.uint8))
        damaged = bytearray((tmp_path / "x.bvecs").read_bytes())
        damaged[-7] = 1
        (tmp_path / "x.bvecs").write_bytes(damaged)
        with raises(il.InputError, "row 4999", 1):
            read_vectors(tmp_path / "x.bvecs")


def test_a_bin_file_longer_than_its_header(tmp_path):
    write_bin(tmp_path / "x.fbin", FLOATS)
    with open(tmp_path / "x.fbin", "ab") as file:
        file.write(b"\0" * 4)
    with raises(il.InputError, 37, 5, 748, 752):
        read_vectors(tmp_path / "x.fbin")


class TestParquet:
    @pytest.fixture
    def write(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        def write(columns, **settings):
            pq.write_table(pa.table(columns), tmp_path / "x.parquet", **settings)
            return tmp_path / "x.parquet"

        return write

    def test_all_kinds_of_lists(self, write):
        import pyarrow as pa

        flat = pa.array(FLOATS.ravel())
        offsets = np.arange(0, FLOATS.size + 1, 5)
        for column in (
            pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat),
            pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), flat),
            pa.FixedSizeListArray.from_arrays(flat, 5),
        ):
            vectors = read_vectors(write({"v": column}, row_group_size=10))
            assert vectors.dtype == np.float32
            assert_array_equal(vectors, FLOATS)

    def test_numeric_columns_side_by_side(self, write):
        columns = {f"f{i}": FLOATS[:, i] for i in range(5)}
        assert_array_equal(read_vectors(write({"name": ["a"] * 37, **columns})), FLOATS)
        path = write({"n": np.arange(37), **columns})
        with raises(il.InputError, "('n')"):
            read_vectors(path)
        assert_array_equal(read_vectors(path, "f*"), FLOATS)
        assert_array_equal(read_vectors(path, "f3"), FLOATS[:, 3:4])

    def test_key_chooses_among_lists(self, write):
        path = write({"a": list(FLOATS), "b": list(INTS)})
        assert_array_equal(read_vectors(path, "b"), INTS)
        with raises(il.InputError, "'a'", "(list"):
            read_vectors(path)
        with raises(il.InputError, "column", "'c'", "'a'"):
            read_vectors(path, "c")

    def test_text_is_no_vector(self, write):
        path = write({"name": ["a", "b"]})
        with pytest.raises(il.InputError, match="no column of numbers"):
            read_vectors(path)
        with raises(il.InputError, "column", "'name'"):
            read_vectors(path, "name")

    def test_ragged_lists_and_nulls_name_the_row(self, write):
        with raises(il.InputError, "row 2", "'v'", 1, "row 0", 2):
            read_vectors(write({"v": [[1.0, 2.0], [3.0, 4.0], [5.0]]}))[:]
        with raises(il.InputError, "row 1", "'v'", "(null)"):
            read_vectors(write({"v": [[1.0, 2.0], None]}))[:]
        with raises(il.InputError, "row 1", "'v'", "(null)"):
            read_vectors(write({"v": [[1.0, 2.0], [None, 2.0]]}))[:]
        with raises(il.InputError, "row 1", "'f'", "(null)"):
            read_vectors(write({"f": [1.0, None]}))[:]

    def test_lists_that_change_between_batches(self, write, monkeypatch):
        monkeypatch.setattr("interlace.inputs.parquet.BATCH_ROWS", 2)
        with raises(il.InputError, "row 2", "'v'", 1, "row 0", 2):
            read_vectors(write({"v": [[1.0, 2.0], [3.0, 4.0], [5.0], [6.0]]}))[:]

    @pytest.mark.parametrize("group", [1, 7, 16, 37])
    @pytest.mark.parametrize("batch", [1, 5, 1000])
    def test_rows_in_any_order(self, write, group, batch, monkeypatch):
        monkeypatch.setattr("interlace.inputs.parquet.BATCH_ROWS", batch)
        vectors = read_vectors(write({"v": list(FLOATS)}, row_group_size=group))
        rng = np.random.default_rng(group * batch)
        for _ in range(20):
            start, stop = sorted(rng.integers(0, 38, 2))
            rows = rng.integers(-37, 37, 5)
            for key in (slice(start, stop), slice(stop, start, -2), rows, np.sort(rows), int(rows[0])):
                assert_array_equal(vectors[key], FLOATS[key])
        assert_array_equal(np.asarray(vectors), FLOATS)
        assert np.asarray(vectors, np.float64).dtype == np.float64

    def test_rows_in_order_are_decoded_once(self, write, monkeypatch):
        import pyarrow.parquet as pq

        monkeypatch.setattr("interlace.inputs.parquet.BATCH_ROWS", 4)
        decoded = []
        iter_batches = pq.ParquetFile.iter_batches

        def noted(*arguments, **keywords):
            for batch in iter_batches(*arguments, **keywords):
                decoded.append(batch.num_rows)
                yield batch

        monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)
        rows = Rows(read_vectors(write({"v": list(FLOATS)}, row_group_size=12)))
        assert_array_equal(np.concatenate(list(rows.blocks(5))), FLOATS)
        assert sum(decoded) == len(FLOATS)
        decoded.clear()
        rows.take(np.array([1, 6, 30]))  # rows 0-7 of the first group, 24-31 of the third
        assert sum(decoded) == 16

    def test_a_damaged_page_is_named_when_it_is_read(self, write):
        x = np.random.default_rng(1).normal(size=(4000, 16))
        path = write({"v": list(x)}, row_group_size=1000, compression="gzip")  # which has checksums
        content = bytearray(path.read_bytes())
        middle = len(content) // 2
        content[middle : middle + 20_000] = bytes(20_000)
        path.write_bytes(content)
        vectors = read_vectors(path)
        for _ in range(2):
            assert_array_equal(vectors[:1000], x[:1000])
            with pytest.raises(il.InputError, match=r"x.parquet' is damaged: "):
                vectors[:]

    def test_an_index_of_a_file_is_that_of_the_array(self, write, tmp_path):
        x = np.random.default_rng(1).normal(size=(2500, 6)).astype(np.float32)
        for name, source in (("array", x), ("file", read_vectors(write({"v": list(x)}, row_group_size=700)))):
            il.Index.build(source, n_bytes=3, threads=1).save(tmp_path / name)
        assert (tmp_path / "array").read_bytes() == (tmp_path / "file").read_bytes()

    def test_no_rows(self, write):
        import pyarrow as pa

        assert len(read_vectors(write({"v": pa.array([], pa.list_(pa.float32()))}))) == 0


class TestHdf5:
    @pytest.fixture
    def path(self, tmp_path):
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["train"], file["group/test"], file["labels"] = FLOATS, BYTES, np.arange(37)
        return tmp_path / "x.h5"

    def test_key_chooses(self, path):
        assert_array_equal(read_vectors(path, "train")[:], FLOATS)
        assert_array_equal(read_vectors(path, "/group/test")[:], BYTES)

    def test_what_is_there_is_listed(self, path):
        with raises(il.InputError, "2-D", "'group/test'", "(37, 5)", "'labels'"):
            read_vectors(path)
        with raises(il.InputError, "'x'", "'group/test'"):
            read_vectors(path, "x")
        with raises(il.InputError, "2-D", "(37,)"):
            read_vectors(path, "labels")


@pytest.mark.parametrize(("extension", "package"), [(".parquet", "pyarrow"), (".h5", "h5py")])
def test_a_missing_package_is_named_with_its_extra(extension, package, tmp_path, monkeypatch):
    (tmp_path / f"x{extension}").write_bytes(b"whatever")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(il.InputError, match=rf"needs {package}: pip install 'interlace\[io\]'"):
        read_vectors(tmp_path / f"x{extension}")
