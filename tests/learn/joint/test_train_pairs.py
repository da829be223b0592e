"""Learning from pairs: what pairs may be, batches with negatives, and codes that find the positives of new queries."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from torch.utils.data import TensorDataset  # noqa: E402

import interlace as il  # noqa: E402
from interlace.learn.joint.losses.contrastive import pair_contrastive, supervised_contrastive  # noqa: E402
from interlace.learn.joint.pairs import PairData  # noqa: E402
from raising import raises  # noqa: E402

RNG = np.random.default_rng(5)
QUICK = il.Recipe(warm_up=3, shape=1, epochs=3)


def topics(n: int, *, seed: int, topic_dims: int = 6, noise_dims: int = 18) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose few informative dimensions are small, beside large ones without meaning; and the topic of each row."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(12, topic_dims))
    topic = rng.integers(12, size=n)
    informative = centres[topic] + 0.3 * rng.normal(size=(n, topic_dims))
    return np.hstack([informative, 2.0 * rng.normal(size=(n, noise_dims))]).astype(np.float32), topic


def pairs_of(topic: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Each row with another row of its topic."""
    rng, queries, positives = np.random.default_rng(seed), [], []
    for number in np.unique(topic):
        members = rng.permutation(np.flatnonzero(topic == number))
        queries.append(members)
        positives.append(np.roll(members, 1))
    return np.concatenate(queries), np.concatenate(positives)


# --- the loss


def test_the_loss_by_plain_loops():
    queries, keys = (torch.from_numpy(RNG.normal(size=(n, 3))) for n in (3, 5))
    targets = torch.tensor([[1, 0, 0, -1, 0], [0, 1, 1, 0, 0], [0, 0, 0, 0, 0]], dtype=torch.int8)
    total, counted = 0.0, 0
    for q, row in zip(queries.numpy(), targets.numpy(), strict=True):
        terms = [np.exp(-2.0 * ((q - k) ** 2).sum()) for k in keys.numpy()]
        whole = sum(t for t, kind in zip(terms, row, strict=True) if kind >= 0)
        found = [-np.log(t / whole) for t, kind in zip(terms, row, strict=True) if kind > 0]
        if found:
            total, counted = total + float(np.mean(found)), counted + 1
    assert_allclose(float(pair_contrastive(queries, keys, targets, 2.0)), total / counted, rtol=1e-12)


def test_pairs_of_all_rows_of_a_class_are_the_loss_of_labels():
    z, labels = torch.from_numpy(RNG.normal(size=(9, 4))), torch.tensor([0, 1, 2] * 3)
    targets = (labels[:, None] == labels[None]).to(torch.int8)
    targets.fill_diagonal_(-1)
    assert_allclose(float(pair_contrastive(z, z, targets, 3.0)), float(supervised_contrastive(z, z, labels, 3.0)))
    with raises(il.InputError, "targets", 9):
        pair_contrastive(z, z, targets[:2], 3.0)


# --- pairs -> batches


def test_batches_hold_each_pair_once_and_know_all_listed_positives():
    x = RNG.normal(size=(40, 4)).astype(np.float32)
    pairs = (np.array([0, 0, 5, 7, 9, 9]), np.array([1, 2, 6, 5, 0, 0]))
    data = PairData(x, pairs)
    listed = {*zip(*(side.tolist() for side in pairs), strict=True)}
    assert {tuple(pair) for pair in data.pairs.tolist()} == listed  # the duplicate counts once
    seen = []
    for inputs, targets, rows in data.batches(9, 3, seed=1):
        n_queries, n_keys = targets.shape
        assert (n_keys, len(rows)) == (2 * n_queries, 3 * n_queries)
        assert_array_equal(inputs.numpy(), x[rows.numpy()])
        queries, keys = rows[:n_queries].tolist(), rows[n_queries:].tolist()
        seen += list(zip(queries, keys, strict=False))
        for q, own in zip(queries, targets.tolist(), strict=True):
            for key, kind in zip(keys, own, strict=True):
                wanted = 1 if (q, key) in listed else -1 if q == key or (key, q) in listed else 0
                assert kind == wanted
    assert sorted(seen) == sorted(listed)
    again = [rows.tolist() for _, _, rows in data.batches(9, 3, seed=1)]
    assert again == [rows.tolist() for _, _, rows in PairData(x, pairs).batches(9, 3, seed=1)]
    assert again != [rows.tolist() for _, _, rows in data.batches(9, 4, seed=1)]


def test_a_query_that_is_held_out_is_in_no_pair_to_learn_from():
    x, topic = topics(120, seed=0)
    data = PairData(x, pairs_of(topic))
    learn, held = data.split(0.2, seed=3)
    queries = set(held.pairs[:, 0].tolist())
    assert len(queries) == 24
    assert not queries & set(learn.pairs.ravel().tolist())
    assert not queries & set(learn.rows.tolist())
    assert queries == set(held.rows.tolist())
    assert len(learn.rows) + len(held.rows) == 120


def test_pairs_may_be_row_numbers_or_inputs_of_their_own():
    x, topic = topics(60, seed=0)
    queries, positives = pairs_of(topic)
    own = PairData(x, (x[queries] + 1, positives))  # as clicks: questions of their own, rows that were chosen
    assert len(own) == 60
    assert own.pairs[:, 0].min() >= 60
    assert own.pairs[:, 1].max() < 60
    for inputs, targets, rows in own.batches(12, 0):
        n, first = len(targets), rows.numpy()[: len(targets)]
        assert (first >= 60).all()
        for value, number in zip(inputs.numpy()[:n], first, strict=True):
            partners = own.pairs[own.pairs[:, 0] == number, 1]
            assert_array_equal(value, x[queries[np.isin(positives, partners)][0]] + 1)
    both = PairData(x, (np.repeat(x[:3], 2, axis=0), x[10:16]))
    assert len(np.unique(both.pairs[:, 0])) == 3  # equal queries are one query with several positives


@pytest.mark.parametrize(
    ("pairs", "facts"),
    [
        (None, ("pairs", "positives")),
        (([0, 1],), ("pairs", "positives")),
        (([0, 1], [2]), (2, 1)),
        (([], []), ("pairs[0]",)),
        ((np.zeros(0, int), np.zeros(0, int)), ("empty",)),
        (([0, 1], [2, 60]), ("pairs[1][1]", 60, 59)),
        (([0, -1], [2, 3]), ("pairs[0][1]", -1)),
        (([0, 4], [2, 4]), ("pair", 1, 4)),
        (([0.0, 1.0], [2, 3]), ("pairs[0]", "float64")),
        (([True, False], [2, 3]), ("pairs[0]", "bool")),
        ((np.zeros((2, 5)), [2, 3]), ("pairs[0]", 5, 24)),
        ((np.full((2, 24), np.nan), [2, 3]), ("pairs[0][0, 0]", "nan")),
    ],
)
def test_bad_pairs(pairs, facts):
    with raises(il.InputError, *facts):
        PairData(topics(60, seed=0)[0], pairs)


def test_what_does_not_go_with_pairs():
    x, topic = topics(60, seed=0)
    pairs = pairs_of(topic)
    with raises(il.InputError, "pairs", "y"):
        il.ICQ(n_bytes=4).fit(x, topic, pairs=pairs)
    with raises(il.InputError, "loss", "contrastive", "triplet"):
        il.ICQ(n_bytes=4, loss="triplet").fit(x, pairs=pairs)
    with raises(il.InputError, "optimize", "joint", "alternate"):
        il.SupervisedICQ(n_bytes=4, optimize="alternate").fit(x, pairs=pairs)
    with raises(il.InputError, "supervised"):
        il.ICQ(n_bytes=4, supervised=False).fit(x, pairs=pairs)
    with raises(il.InputError, "effort"):
        il.ICQ(n_bytes=4, effort="best").fit(x, pairs=pairs)
    with raises(il.InputError, "TensorDataset"):
        il.ICQ(n_bytes=4).fit(TensorDataset(torch.zeros(4, 2), torch.zeros(4)), pairs=pairs)
    with raises(il.InputError, "validation"):
        il.ICQ(n_bytes=4).fit(x, pairs=([0, 0], [1, 2]))  # a single query


# --- codes


@pytest.fixture(scope="module")
def learned() -> il.ICQ:
    x, topic = topics(1_000, seed=1)
    return il.ICQ(n_bytes=4, dim=8, seed=0, threads=1, progress=False).fit(x, pairs=pairs_of(topic))


def test_pairs_find_what_distances_of_the_inputs_do_not(learned):
    """Queries and database are new rows: unsupervised codes keep the large dimensions, pairs the meaningful ones."""
    x, topic = topics(1_000, seed=2)
    q, wanted = topics(200, seed=3)
    plain = il.ICQ(n_bytes=4, seed=0, threads=1, progress=False).fit(x).score(q, wanted, x, topic, at=50)
    found = learned.score(q, wanted, x, topic, at=50)
    assert plain < 0.4
    assert found > 0.7


def test_the_model_of_pairs(learned, tmp_path):
    assert learned.fit_info_["pairs"] == 1_000
    assert 0 < learned.fit_info_["validation_map"] <= 1
    assert "classes" not in learned.fit_info_
    assert not hasattr(learned, "labels_")
    assert learned.codes_.shape == (1_000, learned.codebooks_.code_width)
    x, _ = topics(1_000, seed=1)
    index = learned.index(x)
    assert_array_equal(index.search(x[:3], k=2).ids.shape, (3, 2))
    learned.save(tmp_path / "m.icq")
    assert_array_equal(il.ICQ.load(tmp_path / "m.icq").encode(x[:9]), learned.encode(x[:9]))


@pytest.mark.filterwarnings("ignore::interlace.errors.DegeneratePsiWarning")  # three epochs of few rows
def test_the_same_seed_and_a_resumed_run_give_the_same_bytes(tmp_path):
    x, topic = topics(200, seed=1)
    pairs = pairs_of(topic)
    settings = {"n_bytes": 4, "dim": 8, "seed": 3, "threads": 1, "progress": False, "n_words": 16}
    whole = il.SupervisedICQ(**settings, recipe=QUICK).fit(x, pairs=pairs)
    short = il.Recipe(warm_up=3, shape=1, epochs=1)
    path = tmp_path / "run.ckpt"
    il.SupervisedICQ(**settings, recipe=QUICK, checkpoint=path).fit(x, pairs=pairs)
    again = il.SupervisedICQ(**settings, recipe=QUICK, checkpoint=path).fit(x, pairs=pairs)
    assert_array_equal(again.codes_, whole.codes_)
    with raises(il.InputError, "checkpoint", "data"):
        il.SupervisedICQ(**settings, recipe=short, checkpoint=path).fit(x, pairs=pairs_of(topic, seed=9))


def test_images_and_validation_of_nothing():
    images = RNG.normal(size=(30, 1, 4, 4)).astype(np.float32)
    model = il.SupervisedICQ(
        n_bytes=2, dim=4, n_words=4, embedding="mlp", validation=0, recipe=QUICK, threads=1, progress=False
    ).fit(images, pairs=(np.arange(15), np.arange(15, 30)))
    assert model.fit_info_["validation_map"] is None
    assert model.encode(images).shape[0] == 30
    blank = il.SupervisedICQ(n_bytes=2, dim=4, n_words=4, recipe=QUICK, threads=1, progress=False)
    blank.fit(images, pairs=(images[:15], np.arange(15, 30)))
    assert blank.fit_info_["pairs"] == 15
