"""Few rows, many books, odd labels, datasets and images."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import interlace as il  # noqa: E402
from interlace import Recipe  # noqa: E402
from interlace.learn.joint.passes import Passes  # noqa: E402
from interlace.quantizers import SQ  # noqa: E402
from joint_data import SHORT, Stop, caught, icq, labelled, same  # noqa: E402
from raising import raises  # noqa: E402

X, Y = labelled()


@pytest.mark.parametrize("n", [2, 9, 100, 270])
def test_fewer_rows_than_words_is_told_once(n):
    x, y = X[:n], np.arange(n) % 2
    validation = 0 if n == 2 else 0.1
    model, found = caught(lambda: icq(n_words=256, n_books=8, validation=validation).fit(x, y))
    alone = n == 2  # each class has a single row, which warns too
    assert found.count(il.FewRowsWarning) == 1 + alone
    assert {*found} <= {il.FewRowsWarning, il.PriorCollapsedWarning}
    assert all(len(book.words) <= n for book in model.codebooks_.books)
    assert model.index(x).search(x[:2], 2).ids.shape == (2, 2)
    assert icq(n_words=128).fit(X[:143], Y[:143]) is not None


def test_more_books_than_dimensions():
    model = icq(n_books=20, dim=5).fit(X, Y)
    assert model.codebooks_.n_books == 20
    assert model.score(X, Y) > 0.8
    quiet = Stop(-1)
    with raises(il.InputError, 20, "dim=5"):
        SQ("pq", n_books=20, dim=5, progress=quiet).fit(X, Y)
    assert not quiet.said


def test_without_validation_the_last_epoch_is_kept():
    model = icq(validation=0).fit(X, Y)
    assert [row.get("map", "no") for row in model.history_] == ["no", "no", None, None]
    assert model.fit_info_["validation_map"] is None
    assert "ops" not in model.fit_info_
    assert_array_equal(model.sample_, np.arange(600))
    assert model.score(*labelled(100, seed=1)) > 0.9


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["cat", "dog", "Schnürschuh", ""])[Y],
        np.array(["cat", "dog", "Schnürschuh", ""])[Y].tolist(),
        np.char.encode(np.array(["cat", "dog", "Schnürschuh", ""])[Y], "utf-8"),
        Y > 1,
        Y * 1000 - 2000,
        Y.astype(np.uint8),
        np.where(np.arange(600) == 7, 99, Y),
    ],
    ids=["strings", "list", "bytes", "two classes", "negative", "uint8", "a class of one row"],
)
def test_labels(labels, tmp_path):
    model = icq().fit(X, labels)
    expected = [v.decode() if isinstance(v, bytes) else v for v in np.asarray(labels).tolist()]
    assert model.labels_.tolist() == expected
    assert model.score(X[:50], model.labels_[:50]) > 0.7
    model.save(tmp_path / "m")
    assert il.ICQ.load(tmp_path / "m").labels_.tolist() == expected


# --- datasets and images ----------------------------------------------------------------------------------------------


def test_datasets_and_loaders():
    arrays = icq().fit(X, Y)
    dataset = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    assert same(icq().fit(dataset), arrays)
    for loader in (
        DataLoader(dataset, batch_size=32, shuffle=True),
        DataLoader(dataset, batch_size=70, drop_last=True),
    ):
        one, two = (icq().fit(loader) for _ in range(2))
        assert same(one, two)
        assert one.codes_.shape == (600, 4)
        assert_array_equal(one.labels_, Y)
        assert one.score(X, Y) > 0.9
    with raises(il.InputError, "y", "None"):
        icq().fit(dataset, Y)
    same(
        SQ(n_books=4, n_words=16, threads=1, recipe=Recipe(**SHORT)).fit(dataset),
        SQ(n_books=4, n_words=16, threads=1, recipe=Recipe(**SHORT)).fit(X, Y),
    )


def test_rates_and_means_with_the_batches_of_a_loader(monkeypatch):
    done = []
    monkeypatch.setattr(
        Passes,
        "_set_rates",
        lambda self, phase, share, *a, _set=Passes._set_rates: (done.append(share), _set(self, phase, share, *a)),
    )

    def constant(self, phase, z, labels, rows, *, listed):
        self.online.update(z)
        return {"embedding": 1.0 + 0.0 * z.sum()}

    monkeypatch.setattr(Passes, "_losses", constant)
    dataset = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    model = icq(validation=0).fit(DataLoader(dataset, batch_size=70, drop_last=True))
    assert [row["embedding"] for row in model.history_] == [1.0] * 4  # though 40 rows were left out
    assert_allclose(done[:8], np.arange(8) * 70 / 600)
    assert len(done) == 4 * 8


def test_a_loader_without_batches_is_told():
    dataset = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    with raises(il.InputError, "DataLoader", 540):
        icq().fit(DataLoader(dataset, batch_size=1000, drop_last=True))


@pytest.mark.parametrize("given", ["array", "flat", "list", "dataset"])
def test_images(given):
    rng = np.random.default_rng(0)
    images, y = rng.integers(0, 256, (60, 1, 28, 28), np.uint8), np.arange(60) % 3
    model = icq({"warm_up": 1, "shape": 0, "epochs": 0, "batch_size": 30}, n_words=8, embedding="lenet")
    if given == "dataset":
        model.fit(TensorDataset(torch.from_numpy(images).float(), torch.from_numpy(y)))
    else:
        model.fit({"array": images, "flat": images.reshape(60, -1), "list": [*images]}[given], y)
    assert model.codebooks_.dim == 512
    assert model.embedding_.input_shape == (1, 28, 28)
    for again in (images, images.reshape(60, -1)):
        assert_array_equal(model.encode(again[:9]), model.codes_[:9])
    assert model.index(images).search(images[:2], 3).ids.shape == (2, 3)
