"""CIFAR-10 in each of its forms, damaged or missing; its GIST features and their cache."""

from __future__ import annotations

import hashlib
import pickle
import struct
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import interlace as il
from interlace.data import cifar10
from interlace.paper.datasets import cache, cifar, files, gabor
from raising import raises

RNG = np.random.default_rng(0)
ROWS = 4  # of a batch; six batches
RECORDS = RNG.integers(0, 256, (6 * ROWS, 3073), np.uint8)
RECORDS[:, 0] %= 10


@pytest.fixture(autouse=True)
def _small(monkeypatch, tmp_path):
    """Batches of a few images in place of the real ones, and folders of this test alone."""
    monkeypatch.setattr(cifar, "_ROWS", ROWS)
    parts = zip(cifar._MD5, np.split(RECORDS, 6), strict=True)
    monkeypatch.setattr(cifar, "_MD5", {name: hashlib.md5(part.tobytes()).hexdigest() for name, part in parts})
    monkeypatch.delenv(files.VARIABLE, raising=False)
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def text(value: bytes) -> bytes:
    return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<I", len(value)) + value


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def python_2_pickle(records, reconstruct=b"numpy.core.multiarray\n_reconstruct"):
    """A batch as Python 2 wrote it: protocol 2, strings of bytes."""
    images = np.ascontiguousarray(records[:, 1:])
    labels = b"](" + b"".join(number(int(v)) for v in records[:, 0]) + b"e"
    dtype = b"cnumpy\ndtype\n(" + text(b"u1") + number(0) + number(1) + b"tR"
    dtype += b"(" + number(3) + text(b"|") + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"
    array = b"c" + reconstruct + b"\n(cnumpy\nndarray\n(" + number(0) + b"t" + text(b"b") + b"tR"
    shape = number(images.shape[0]) + number(images.shape[1]) + b"\x86"
    array += b"(" + number(1) + shape + dtype + b"\x89" + text(images.tobytes()) + b"tb"
    return b"\x80\x02}(" + text(b"labels") + labels + text(b"data") + array + b"u."


def put(folder, form):
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in zip(cifar._MD5, np.split(RECORDS, 6), strict=True):
        if form == "bin":
            (folder / f"{name}.bin").write_bytes(part.tobytes())
        else:
            (folder / name).write_bytes(python_2_pickle(part))


def test_the_pickles_made_here_are_what_python_reads():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's old module name
        found = pickle.loads(python_2_pickle(RECORDS[:3]), encoding="bytes")
    assert_array_equal(found[b"data"], RECORDS[:3, 1:])
    assert_array_equal(found[b"labels"], RECORDS[:3, 0])


@pytest.mark.parametrize(
    ("form", "folder"),
    [("bin", "cifar10"), ("bin", "cifar-10-batches-bin"), ("bin", "."), ("py", "cifar-10-batches-py"), ("py", ".")],
)
def test_the_official_versions_hold_the_same(form, folder, tmp_path):
    put(tmp_path / "mine" / folder, form)
    found = cifar10(tmp_path / "mine")
    images = RECORDS[:, 1:].reshape(-1, 3, 32, 32)
    assert_array_equal(found.x, images[: 5 * ROWS])
    assert_array_equal(found.queries, images[5 * ROWS :])
    assert_array_equal(found.labels, RECORDS[: 5 * ROWS, 0])
    assert_array_equal(found.query_labels, RECORDS[5 * ROWS :, 0])
    assert found.x.dtype == np.uint8


def test_what_is_missing_is_named_with_the_way_to_get_it(tmp_path):
    with raises(FileNotFoundError, "cifar10/data_batch_1.bin", "cs.toronto"):
        cifar10(tmp_path / "mine")
    put(tmp_path / "mine", "bin")
    (tmp_path / "mine" / "test_batch.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"cifar10/test_batch\.bin"):
        cifar10(tmp_path / "mine")


@pytest.mark.parametrize("form", ["bin", "py"])
@pytest.mark.parametrize("damage", ["flipped", "truncated", "empty"])
def test_a_damaged_file_is_named(form, damage, tmp_path):
    put(tmp_path / "mine", form)
    path = tmp_path / "mine" / ("data_batch_3.bin" if form == "bin" else "data_batch_3")
    content = bytearray(path.read_bytes())
    content[-2000] ^= 1  # a pixel in both
    path.write_bytes({"flipped": bytes(content), "truncated": bytes(content[:-100]), "empty": b""}[damage])
    with pytest.raises(il.InputError, match=rf"{path}' is (damaged|not the expected file)"):
        cifar10(tmp_path / "mine")


def test_a_pickle_cannot_run_anything(tmp_path):
    put(tmp_path / "mine", "py")
    evil = tmp_path / "mine" / "data_batch_1"
    target = tmp_path / "ran"
    evil.write_bytes(b"cos\nmkdir\n(" + text(str(target).encode()) + b"tR.")
    with raises(il.InputError, "data_batch_1'", "os.mkdir"):
        cifar10(tmp_path / "mine")
    assert not target.exists()
    for content in (b"\x80\x02}.", b"\x80\x02]].", python_2_pickle(RECORDS[:4]).replace(b"u1", b"u2"), b"I1\n."):
        evil.write_bytes(content)
        with raises(il.InputError, "data_batch_1'"):
            cifar10(tmp_path / "mine")


def sheets(folder, monkeypatch):
    """The same images as one sheet of 100 x 100 for each batch, and all labels in one file."""
    image = pytest.importorskip("PIL.Image")
    folder.mkdir(parents=True)
    monkeypatch.setattr(cifar, "_ROWS", 10_000)
    labels = RNG.integers(0, 10, 60_000, np.uint8)
    images = np.repeat(RNG.integers(0, 256, (100, 3, 32, 32), np.uint8), 100, axis=0)
    np.save(folder / "labels.npy", labels)
    sheet = images.reshape(100, 100, 3, 32, 32).transpose(0, 3, 1, 4, 2).reshape(3200, 3200, 3)
    md5 = {}
    for k, name in enumerate(cifar._MD5):
        part = labels[k * 10_000 : (k + 1) * 10_000]
        records = np.concatenate([part[:, None], images.reshape(10_000, -1)], 1)
        md5[name] = hashlib.md5(records.tobytes()).hexdigest()
        path = folder / f"{name}.webp"
        if k == 0:
            image.fromarray(sheet).save(path, lossless=True, quality=0, method=0)
        else:
            path.write_bytes((folder / "data_batch_1.webp").read_bytes())
    monkeypatch.setattr(cifar, "_MD5", md5)
    return images, labels


def test_sheets_of_images(tmp_path, monkeypatch):
    folder = tmp_path / "mine" / "cifar10"
    images, labels = sheets(folder, monkeypatch)
    found = cifar10(tmp_path / "mine")
    assert_array_equal(found.queries, images)
    assert_array_equal(found.labels, labels[:50_000])
    np.save(folder / "labels.npy", labels[:100])
    with raises(il.InputError, "labels.npy'", 60000):
        cifar10(tmp_path / "mine")
    (folder / "labels.npy").write_bytes(b"nothing")
    with raises(il.InputError, "labels.npy'", ".npy"):
        cifar10(tmp_path / "mine")
    (folder / "labels.npy").unlink()
    with pytest.raises(FileNotFoundError, match="labels.npy"):
        cifar10(tmp_path / "mine")
    np.save(folder / "labels.npy", labels)
    whole = (folder / "data_batch_1.webp").read_bytes()
    (folder / "data_batch_1.webp").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(il.InputError, match="data_batch_1.webp' is damaged"):
        cifar10(tmp_path / "mine")


def test_features_are_those_of_the_images_and_are_computed_once(tmp_path, monkeypatch):
    put(tmp_path / "mine", "bin")
    pixels, found = cifar10(tmp_path / "mine"), cifar10(tmp_path / "mine", features="gist")
    assert (found.name, found.x.shape, found.queries.shape) == ("cifar10-gist", (5 * ROWS, 512), (ROWS, 512))
    assert found.x.dtype == np.float32
    assert_array_equal(found.x, gabor.gist(pixels.x))
    assert_array_equal(found.queries, gabor.gist(pixels.queries))
    assert_array_equal(found.labels, pixels.labels)
    assert_array_equal(found.query_labels, pixels.query_labels)

    def fail(*arguments, **keywords):
        raise AssertionError("computed again")

    monkeypatch.setattr(cifar, "gist", fail)
    again = cifar10(tmp_path / "not there", features="gist")
    for name in ("x", "queries", "labels", "query_labels"):
        assert_array_equal(getattr(again, name), getattr(found, name))
    monkeypatch.setattr(cifar, "VERSION", gabor.VERSION + 1)  # another key
    with pytest.raises(AssertionError, match="computed again"):
        cifar10(tmp_path / "mine", features="gist")


def test_unknown_features(tmp_path):
    with raises(il.InputError, "features", "pixels", "gist", "'sift'"):
        cifar10(tmp_path, features="sift")


@pytest.mark.slow
def test_the_real_files_where_they_are_at_hand(monkeypatch):
    monkeypatch.undo()
    try:
        found = cifar10()
    except FileNotFoundError:
        pytest.skip("not on this machine")
    assert (found.x.shape, found.queries.shape) == ((50_000, 3, 32, 32), (10_000, 3, 32, 32))
    assert found.labels[:5].tolist() == [6, 9, 9, 4, 1]
