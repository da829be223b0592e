"""Users' data as seeded batches: every row once, the same order again, and what is wrong is named in time."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from torch.utils.data import (  # noqa: E402
    DataLoader,
    TensorDataset,
)

import interlace as il  # noqa: E402
from interlace.learn.joint.batches import Data  # noqa: E402
from raising import raises  # noqa: E402
from rows_data import Pairs, check_batch, labels, rows  # noqa: E402

# --------------------------------------------------------------------------------------------------------------- orders


@given(n=st.integers(4, 60), size=st.integers(2, 70), epoch=st.integers(0, 5), seed=st.integers(0, 2**40))
@settings(max_examples=60, deadline=None)
def test_every_row_once_and_no_batch_of_a_single_row(n, size, epoch, seed):
    x, y = rows(n), labels(n, 2)
    data = Data(x, y)
    found = list(data.batches(size, epoch, seed))
    for batch in found:
        check_batch(data, batch, x, y)
    sizes = [len(batch[2]) for batch in found]
    assert sorted(np.concatenate([batch[2] for batch in found])) == list(range(n))
    assert min(sizes) >= 2
    assert set(sizes[:-1]) <= {size}
    assert sizes[-1] <= size + 1
    assert len(sizes) == (n // size + (n % size > 1) or 1)


def test_the_order_depends_on_seed_and_epoch_alone():
    data = Data(rows(), labels())

    def order(epoch, seed):
        return torch.cat([batch[2] for batch in data.batches(7, epoch, seed)]).tolist()

    state = torch.random.get_rng_state()
    first = order(0, 5)
    list(data.batches(7, 3, 5))
    assert order(0, 5) == first
    assert torch.equal(state, torch.random.get_rng_state())
    assert len({tuple(order(epoch, seed)) for epoch in range(3) for seed in range(3)}) == 9
    again = Data(rows(), labels())
    assert torch.cat([batch[2] for batch in again.batches(7, 0, 5)]).tolist() == first


def test_rows_in_order():
    x, y = rows(), labels()
    data = Data(x, y)
    found = list(data.rows_in_order(13))
    assert [len(batch[0]) for batch in found] == [13, 13, 13, 1]
    assert torch.cat([batch[2] for batch in found]).tolist() == list(range(40))
    for batch in found:
        check_batch(data, batch, x, y)


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda d: d.batches(1, 0), (2,)),
        (lambda d: d.batches(0, 0), ("size", "integer")),
        (lambda d: d.batches(4, -1), (0,)),
        (lambda d: d.batches(4, 0, -1), ("seed",)),
        (lambda d: d.rows_in_order(2.5), ("size",)),
        (lambda d: d.split(0.0), ("validation", "share")),
        (lambda d: d.split(1), ("validation", "share")),
        (lambda d: d.split("0.1"), ("validation", "share")),
    ],
)
def test_bad_arguments_are_named(call, facts):
    with raises(il.InputError, *facts):
        list(call(Data(rows(), labels())))


# ------------------------------------------------------------------------------------------------------- kinds of input


X, Y = rows(12, 4), labels(12, 3)
IMAGES = np.random.default_rng(1).integers(0, 256, (12, 2, 3, 4), np.uint8)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: (X, Y),
        lambda path: (X.astype(np.float64), Y.tolist()),
        lambda path: (X.tolist(), tuple(Y)),
        lambda path: (list(X), torch.from_numpy(Y)),
        lambda path: (torch.from_numpy(X), Y.astype(np.uint8)),
        lambda path: (X[:, ::-1][:, ::-1], [torch.tensor(int(v)) for v in Y]),
        lambda path: (np.load(path, mmap_mode="r"), Y),
        lambda path: (iter([X[:5], X[5:]]), Y),
        lambda path: (TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), None),
        lambda path: (Pairs(X, Y), None),
        lambda path: (Pairs(X.tolist(), [int(v) for v in Y]), None),
        lambda path: (DataLoader(Pairs(X, Y), batch_size=5, shuffle=True), None),
    ],
)
def test_every_kind_of_vectors(make, tmp_path):
    np.save(tmp_path / "x.npy", X)
    data = Data(*make(tmp_path / "x.npy"))
    assert (len(data), data.input_shape, data.n_classes) == (12, (4,), 3)
    for batch in [*data.batches(5, 0), *data.rows_in_order(5)]:
        check_batch(data, batch, X, Y)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: (IMAGES, Y),
        lambda path: (IMAGES.tolist(), Y),
        lambda path: (list(IMAGES), Y),
        lambda path: (torch.from_numpy(IMAGES), Y),
        lambda path: (np.load(path, mmap_mode="r"), Y),
        lambda path: (Pairs(IMAGES, Y), None),
        lambda path: (DataLoader(Pairs(IMAGES, Y), batch_size=4), None),
    ],
)
def test_every_kind_of_images(make, tmp_path):
    np.save(tmp_path / "x.npy", IMAGES)
    data = Data(*make(tmp_path / "x.npy"))
    assert data.input_shape == (2, 3, 4)
    for batch in [*data.batches(5, 0), *data.rows_in_order(5)]:
        check_batch(data, batch, IMAGES, Y)


def test_hdf5_rows_of_both_kinds(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for x in (X, IMAGES):
            data = Data(file.create_dataset(f"x{x.ndim}", data=x), Y)
            for batch in data.batches(5, 0):
                check_batch(data, batch, x, Y)


def test_flat_rows_may_be_read_as_images():
    data = Data(IMAGES.reshape(12, -1), Y, input_shape=(2, 3, 4))
    assert data.input_shape == (2, 3, 4)
    check_batch(data, next(iter(data.batches(12, 0))), IMAGES, Y)
    sequences = np.zeros((12, 5, 7))
    assert Data(sequences, Y, input_shape=(5, 7)).input_shape == (5, 7)
    assert Data(np.zeros((12, 8, 8, 3)), Y, input_shape=(8, 8, 3)).input_shape == (8, 8, 3)
    with raises(il.InputError, "input_shape", "(2, 3)", "(24,)"):
        Data(IMAGES.reshape(12, -1), Y, input_shape=(2, 3))


def test_memory_is_bounded_by_the_batch(tmp_path):
    n, dim = 20_000, 256
    np.save(tmp_path / "x.npy", np.zeros((n, dim), np.uint8))
    y = np.arange(n) % 2
    for x in (np.load(tmp_path / "x.npy", mmap_mode="r"), np.load(tmp_path / "x.npy").reshape(n, 1, 16, 16)):
        tracemalloc.start()
        try:
            for _ in Data(x, y).batches(100, 0):
                pass
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < n * 8 * 8 + 1024 * dim * 4 * 4  # labels, their order; the first look; float32 rows would be 20 MB


# ---------------------------------------------------------------------------------------------------------------- split


@given(
    seed=st.integers(0, 2**32 - 1),
    counts=st.lists(st.integers(1, 30), min_size=2, max_size=8),
    validation=st.floats(0.01, 0.9),
)
@settings(max_examples=80, deadline=None)
def test_split_keeps_classes_and_shares(seed, counts, validation):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    if max(counts) == 1:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = Data(rows(len(y)), y)
    train, held = data.split(validation, seed)
    assert sorted([*train.rows, *held.rows]) == list(range(len(y)))
    assert len(held) >= 1
    room = sum(c - 1 for c in counts)
    assert len(held) == min(max(1, round(validation * len(y))), room)
    for number, count in enumerate(counts):
        kept = int((train.labels == number).sum())
        assert kept >= 1
        if all(validation * c <= c - 1 for c in counts):  # where no class gives its share to others
            assert abs(count - kept - validation * count) <= 1
    for part in (train, held):
        assert_array_equal(part.labels, y[part.rows])
        assert_array_equal(np.diff(part.rows) > 0, True)
        assert part.classes is data.classes


def test_split_of_even_classes_is_even_and_seeded():
    data = Data(rows(400), labels(400))
    train, held = data.split(0.1, 3)
    assert_array_equal(np.bincount(held.labels), [10] * 4)
    assert_array_equal(data.split(0.1, 3)[1].rows, held.rows)
    assert not np.array_equal(data.split(0.1, 4)[1].rows, held.rows)
    assert len(train) == 360


def test_many_small_classes_still_give_their_share():
    y = np.repeat(np.arange(100), 4)
    _, held = Data(rows(400), y).split(0.1)
    assert len(held) == 40
    assert np.bincount(held.labels).max() == 1


@pytest.mark.parametrize("kind", ["array", "dataset", "loader"])
def test_batches_of_a_part_hold_its_rows_alone(kind):
    x, y = rows(), labels()
    source = {
        "array": lambda: (x, y),
        "dataset": lambda: (Pairs(x, y),),
        "loader": lambda: (DataLoader(Pairs(x, y), batch_size=6, shuffle=True),),
    }[kind]()
    train, held = Data(*source).split(0.3, 1)
    for part in (train, held):
        found = list(part.batches(6, 0))
        for batch in found:
            check_batch(part, batch, x, y)
            assert len(batch[0]) >= 2
        assert sorted(torch.cat([batch[2] for batch in found]).tolist()) == list(range(len(part)))
        assert_array_equal(torch.cat([b[0] for b in part.rows_in_order(4)])[:, 0], part.rows)


def test_nothing_can_be_held_out_of_single_rows():
    with pytest.warns(il.FewRowsWarning), raises(il.InputError, 3, "classes"):
        Data(rows(3), [0, 1, 2]).split()


# --------------------------------------------------------------------------------------------------------------- inputs


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((0, 3)), "no rows to learn from"),
        ([], "no rows to learn from"),
        (np.zeros(4), "2-D|flat rows"),
        ([1.0, 2.0, 3.0, 4.0], "x must be flat rows"),
        (np.zeros((4, 8, 8)), r"rows have shape \(8, 8\): for grey images pass x\[:, None\]"),
        (np.zeros((4, 8, 8, 3)), r"look like images with channels last: pass x.transpose\(0, 3, 1, 2\)"),
        (np.zeros((4, 1, 8, 8, 3)), r"channels first; rows have shape \(1, 8, 8, 3\)"),
        (np.zeros((4, 3, 0, 8)), "rows have shape"),
        (np.zeros((4, 3), complex), "real numbers"),
        (np.zeros((4, 1, 3, 3), bool), "real numbers"),
        (np.array([["a", "b"]] * 4), "real numbers"),
        ([[1.0, 2.0], [1.0], [1.0, 2.0], [1.0, 2.0]], r"must all have shape \(2,\), x\[1\] is .*\(1,\)"),
        ([[1.0, 2.0], ["a", "b"], [1.0, 2.0], [1.0, 2.0]], r"x\[1\] must hold real numbers"),
        ("x.npy", "is a path|flat rows"),
    ],
)
def test_bad_inputs_are_named(x, message):
    with pytest.raises(il.InputError, match=message):
        Data(x, [0, 1, 0, 1])


@pytest.mark.parametrize("shape", [(5000, 2), (5000, 1, 2, 1)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_named_at_once_or_in_their_batch(shape, value):
    y = np.arange(5000) % 2
    x = np.zeros(shape, np.float32)
    x.reshape(5000, -1)[4999, 1] = value
    with pytest.raises(il.InputError, match=rf"x\[4999, 1\] is {value}, not a finite number"):
        Data(x, y)
    x = np.zeros(shape, np.float32)
    data = Data(x, y)
    missed = int(np.setdiff1d(np.arange(5000), np.linspace(0, 4999, 1024).astype(np.int64))[700])
    x.reshape(5000, -1)[missed, 1] = value  # after the first look
    Data(x, y)
    with pytest.raises(il.InputError, match=rf"x\[{missed}, 1\] is {value}, not a finite number"):
        list(data.batches(64, 0))
    train, held = data.split(0.5)
    part = train if missed in train.rows else held
    with pytest.raises(il.InputError, match=rf"x\[{missed}, 1\] is"):
        list(part.rows_in_order(64))
