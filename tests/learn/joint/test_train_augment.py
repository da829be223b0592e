"""Shifted and mirrored images, and lists of triplets, in training."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the train extra is not installed")

import interlace as il  # noqa: E402
from interlace.learn.joint import passes as module  # noqa: E402
from interlace.learn.joint.augment import SHIFT, crops  # noqa: E402
from interlace.learn.joint.batches import Data  # noqa: E402
from interlace.learn.joint.losses.asymmetric_triplet import SCALE, asymmetric_triplet, listed_triplet  # noqa: E402
from interlace.learn.joint.networks import build  # noqa: E402
from interlace.quantizers import PQN  # noqa: E402
from joint_data import labelled, same  # noqa: E402
from raising import raises  # noqa: E402

SHORT = {"warm_up": 1, "shape": 1, "epochs": 1, "batch_size": 60}


def images(n=120, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    return (rng.normal(size=(n, 3, 16, 16)) + labels[:, None, None, None]).astype(np.float32), labels


def test_every_image_is_a_shifted_and_maybe_mirrored_one():
    x = torch.from_numpy(images(30)[0])
    found = crops(x, 1, 2, 3)
    assert found.shape == x.shape
    kinds = set()
    for before, after in zip(x.numpy(), found.numpy(), strict=True):
        padded = np.pad(before, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT)))
        hits = [
            (down, right, mirrored)
            for down in range(2 * SHIFT + 1)
            for right in range(2 * SHIFT + 1)
            for mirrored in (False, True)
            if np.array_equal(padded[:, down : down + 16, right : right + 16][:, :, :: -1 if mirrored else 1], after)
        ]
        assert len(hits) == 1
        kinds.add(hits[0])
    assert len(kinds) > 20
    assert {kind[2] for kind in kinds} == {False, True}
    assert torch.equal(crops(x, 1, 2, 3), found)
    assert not torch.equal(crops(x, 1, 2, 4), found)


def test_only_training_sees_other_images(monkeypatch):
    seen = []
    monkeypatch.setattr(module, "crops", lambda x, *seed: seen.append(seed) or crops(x, *seed))
    x, y = images()
    model = il.ICQ(
        n_books=4, n_words=8, threads=1, embedding="cnn3", dim=12, recipe=il.Recipe(**SHORT, augment="crops")
    )
    model.fit(x, y)
    assert len(seen) == len(set(seen)) == 3 * 2  # three epochs of two batches, each with a seed of its own
    plain = il.ICQ(n_books=4, n_words=8, threads=1, embedding="cnn3", dim=12, recipe=il.Recipe(**SHORT)).fit(x, y)
    assert len(seen) == 6
    assert plain.codebooks_ != model.codebooks_
    flat = il.ICQ(n_books=4, n_words=8, threads=1, recipe=il.Recipe(**SHORT, augment="crops")).fit(*labelled(200))
    assert len(seen) == 6  # rows without a shape stay as they are
    assert flat.codebooks_.n_books == 4


def test_a_listed_loss_is_a_plain_loop():
    rng = np.random.default_rng(0)
    z, zq = (torch.from_numpy(rng.normal(size=(12, 5))) for _ in range(2))
    unit = sum(float(v) ** 2 for v in z.reshape(-1)) / 12
    total = 0.0
    for i in range(4):
        near, far = (float(z[i] @ zq[j]) for j in (4 + i, 8 + i))
        total += 1 / (1 + np.exp(SCALE * (near - far) / unit))
    assert listed_triplet(z, zq).item() == pytest.approx(total / 4)
    one = torch.tensor([0, 0, 1])
    assert listed_triplet(z[:3], zq[:3]).item() > 0
    assert asymmetric_triplet(z[:3], zq[:3], one).item() > 0
    with raises(il.InputError, "three rows", "4"):
        listed_triplet(z[:4], zq[:4])


def test_batches_of_triplets():
    data = Data(*labelled(90))
    found = list(data.triplets(50, 30, 3, seed=2))
    assert [len(labels) for _, labels, _ in found] == [30] * 5
    for inputs, labels, rows in found:
        (a, p, n), (anchor, near, _) = labels.reshape(3, 10), rows.reshape(3, 10)
        assert (a == p).all()
        assert (a != n).all()
        assert (anchor != near).all()
        assert np.array_equal(inputs.numpy(), labelled(90)[0][rows.numpy()])
    again = list(data.triplets(50, 30, 3, seed=2))
    assert all(torch.equal(a[2], b[2]) for a, b in zip(found, again, strict=True))
    assert not torch.equal(found[0][2], next(data.triplets(50, 30, 4, seed=2))[2])


def test_pqn_learns_from_a_list_of_triplets(monkeypatch):
    drawn = []
    real = Data.triplets
    monkeypatch.setattr(Data, "triplets", lambda self, n, *rest: drawn.append(n) or real(self, n, *rest))
    x, y = labelled()
    recipe = il.Recipe(warm_up=3, epochs=2, batch_size=90, triplets=4000)

    def fit():
        return PQN(n_books=4, n_words=16, threads=1, recipe=recipe).fit(x, y)

    model = fit()
    assert drawn == [800] * 5  # an equal share for each of five epochs
    assert model.score(*labelled(200, seed=1)) > 0.9
    assert same(fit(), model)
    other = PQN(n_books=4, n_words=16, threads=1, recipe=il.Recipe(warm_up=3, epochs=2, batch_size=90)).fit(x, y)
    assert other.codebooks_ != model.codebooks_


def test_the_network_of_pqn():
    network = build("cnn3", input_shape=(3, 32, 32))
    assert network.dim == 500
    assert [
        tuple(m.weight.shape) for m in network.convolutions if hasattr(m, "kernel_size") and hasattr(m, "weight")
    ] == [
        (32, 3, 5, 5),
        (32, 32, 5, 5),
        (64, 32, 5, 5),
    ]
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 500)
    assert build("cnn3", input_shape=(3072,), dim=7)(torch.zeros(2, 3072)).shape == (2, 7)
    with raises(il.InputError, "cnn3", "divisible by 8", "(3, 12, 16)"):
        build("cnn3", input_shape=(3, 12, 16))
