"""Named sets: where they are looked for, what they hold, and that a wrong file is noticed."""

from __future__ import annotations

import gzip
import hashlib
import io

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import interlace as il
from interlace.data import digits, mnist, sift300k, synthetic
from interlace.paper.datasets import files, sets
from raising import raises

RNG = np.random.default_rng(0)
SIFT = {
    "base": RNG.integers(0, 256, (30, 128), np.uint8),
    "query": RNG.integers(0, 256, (4, 128), np.uint8),
    "learn": RNG.integers(0, 256, (10, 128), np.uint8),
    "gt_ids": RNG.integers(0, 30, (4, 5), np.int32),
    "gt_d2": np.zeros((4, 5), np.float32),
}
IMAGES = {"train": RNG.integers(0, 256, (6, 28, 28), np.uint8), "t10k": RNG.integers(0, 256, (3, 28, 28), np.uint8)}


def idx(array):
    shape = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + shape + array.tobytes()


@pytest.fixture
def sift_file(monkeypatch):
    """A small stand-in with the arrays of the real file, and its checksum in place of the real one."""
    buffer = io.BytesIO()
    np.savez(buffer, **SIFT)
    monkeypatch.setattr(sets, "_SIFT_SHA256", hashlib.sha256(buffer.getvalue()).hexdigest())
    return buffer.getvalue()


@pytest.fixture
def mnist_files(monkeypatch):
    files = {}
    for part, images in IMAGES.items():
        files[f"{part}-images-idx3-ubyte"] = idx(images)
        files[f"{part}-labels-idx1-ubyte"] = idx(np.arange(len(images), dtype=np.uint8))
    checksums = {name: hashlib.sha256(files[name]).hexdigest() for name in sets._MNIST_SHA256}
    monkeypatch.setattr(sets, "_MNIST_SHA256", checksums)
    return files


@pytest.fixture(autouse=True)
def _no_folder_from_outside(monkeypatch, tmp_path):
    monkeypatch.delenv(files.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)


def put(folder, name, content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def check_sift(found):
    assert_array_equal(found.x, SIFT["base"])
    assert_array_equal(found.queries, SIFT["query"])
    assert_array_equal(found.learn, SIFT["learn"])
    assert_array_equal(found.truth, SIFT["gt_ids"])
    assert found.labels is None


@pytest.mark.parametrize("folder", ["sift300k", "."])
def test_sift_by_argument_in_its_folder_or_not(folder, sift_file, tmp_path):
    put(tmp_path / "mine" / folder, "sift300k.npz", sift_file)
    check_sift(sift300k(tmp_path / "mine"))


def test_sift_by_environment_variable(sift_file, tmp_path, monkeypatch):
    put(tmp_path / "mine" / "sift300k", "sift300k.npz", sift_file)
    monkeypatch.setenv(files.VARIABLE, str(tmp_path / "mine"))
    check_sift(sift300k())


def test_sift_beside_the_checkout(sift_file, tmp_path, monkeypatch):
    put(tmp_path / "shared" / "data" / "sift300k", "sift300k.npz", sift_file)
    module = tmp_path / "checkout" / "src" / "interlace" / "paper" / "datasets" / "files.py"
    monkeypatch.setattr(files, "__file__", str(module))
    check_sift(sift300k())


def test_the_argument_is_the_only_folder(sift_file, tmp_path, monkeypatch):
    put(tmp_path / "mine", "sift300k.npz", sift_file)
    monkeypatch.setenv(files.VARIABLE, str(tmp_path / "mine"))
    with raises(FileNotFoundError, "sift300k/sift300k.npz", "(no such folder)", "INTERLACE_DATA"):
        sift300k(tmp_path / "other")


def test_a_changed_file_is_noticed(sift_file, tmp_path):
    put(tmp_path, "sift300k.npz", sift_file[:-1] + b"x")
    with pytest.raises(il.InputError, match=rf"{tmp_path}/sift300k.npz' is not the expected file: .* sha256"):
        sift300k(tmp_path)


def test_what_is_missing_is_named_with_the_folders_and_the_way_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv(files.VARIABLE, str(tmp_path / "gone"))
    monkeypatch.setattr(
        files, "__file__", str(tmp_path / "checkout" / "src" / "interlace" / "paper" / "datasets" / "files.py")
    )
    with pytest.raises(FileNotFoundError) as caught:
        mnist()
    message = str(caught.value)
    assert "mnist/train-images-idx3-ubyte.gz (or train-images-idx3-ubyte, train-images.idx3-ubyte)" in message
    assert f"{tmp_path / 'gone'} (no such folder)" in message
    assert str(tmp_path / "shared" / "data") in message
    assert "INTERLACE_DATA" in message
    assert "To get it: the four files of http" in message


@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw", "."])
@pytest.mark.parametrize("form", ["gz", "plain", "dotted"])
def test_mnist_packed_and_unpacked(form, folder, mnist_files, tmp_path):
    for name, content in mnist_files.items():
        if form == "gz":
            put(tmp_path / folder, f"{name}.gz", gzip.compress(content))
        else:
            put(tmp_path / folder, name if form == "plain" else name.replace("-idx", ".idx"), content)
    found = mnist(tmp_path)
    assert_array_equal(found.x, IMAGES["train"].reshape(6, 784))
    assert_array_equal(found.queries, IMAGES["t10k"].reshape(3, 784))
    assert found.labels.tolist() == list(range(6))
    assert found.query_labels.tolist() == list(range(3))


def test_mnist_missing_truncated_or_changed(mnist_files, tmp_path):
    with raises(FileNotFoundError, "mnist/train-images-idx3-ubyte.gz"):
        mnist(tmp_path)
    for name, content in mnist_files.items():
        put(tmp_path, f"{name}.gz", gzip.compress(content))
    first = tmp_path / "train-images-idx3-ubyte.gz"
    whole = first.read_bytes()
    first.write_bytes(whole[:-20])
    with pytest.raises(il.InputError, match=f"{first}' is damaged or truncated"):
        mnist(tmp_path)
    first.write_bytes(gzip.compress(mnist_files["t10k-images-idx3-ubyte"]))
    with raises(il.InputError, "train-images-idx3-ubyte.gz'"):
        mnist(tmp_path)


def test_digits():
    pytest.importorskip("sklearn")
    found = digits(100)
    assert found.x.shape == (1697, 64)
    assert found.queries.shape == (100, 64)
    assert found.x.dtype == np.float32
    assert (len(found.labels), len(found.query_labels)) == (1697, 100)
    assert set(found.labels.tolist()) == set(range(10))
    with raises(il.InputError, "n_queries", 1, 1796, "2.5"):
        digits(2.5)
    with raises(il.InputError, "n_queries", 1, 1796, 0):
        digits(0)


def test_digits_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)
    with pytest.raises(il.InputError, match="pip install scikit-learn"):
        digits()


@pytest.mark.parametrize(("name", "informative"), [(1, 32), (2, 16), (3, 8)])
def test_synthetic(name, informative):
    datasets = pytest.importorskip("sklearn.datasets")
    found = synthetic(name, seed=5)
    assert (found.name, found.x.shape, found.queries.shape) == (f"synthetic{name}", (10_000, 64), (1_000, 64))
    assert found.x.dtype == found.queries.dtype == np.float32
    raw, labels = datasets.make_classification(
        11_000,
        64,
        n_informative=informative,
        n_classes=10,
        n_clusters_per_class=1,
        class_sep=2,
        flip_y=0.01,
        random_state=5,
    )
    train = raw[:10_000]
    assert_allclose(found.x, (train - train.mean(0)) / train.std(0), atol=1e-5)
    assert_allclose(found.queries, (raw[10_000:] - train.mean(0)) / train.std(0), atol=1e-5)
    assert_array_equal(np.concatenate([found.labels, found.query_labels]), labels)
    assert set(found.labels.tolist()) == set(range(10))
    assert_array_equal(synthetic(name, seed=5).x, found.x)
    assert not np.array_equal(synthetic(name, seed=6).x, found.x)


def test_synthetic_bad_names_and_seeds(monkeypatch):
    for name in (0, 4, "1", 1.0, True, None):
        with raises(il.InputError, 1, 2, 3):
            synthetic(name)
    for seed in (-1, 2**32, 1.0, None):
        with raises(il.InputError, "seed", "integer"):
            synthetic(1, seed)
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)
    with raises(il.InputError, "synthetic", "scikit-learn"):
        synthetic(1)


@pytest.mark.parametrize("load", [sift300k, mnist])
def test_the_real_files_where_they_are_at_hand(load):
    try:
        found = load()
    except FileNotFoundError:
        pytest.skip("not on this machine")
    expected = {"sift300k": ((300_000, 128), (2_000, 128)), "mnist": ((60_000, 784), (10_000, 784))}
    assert (found.x.shape, found.queries.shape) == expected[found.name]
