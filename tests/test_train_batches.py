"""Users' data as seeded batches: every row once, the same order again, and what is wrong is named in time."""

from __future__ import annotations

import collections
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
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
)

import interlace as il  # noqa: E402
from interlace.train.batches import Data, triplets  # noqa: E402
from interlace.train.labels import encode_labels  # noqa: E402


def rows(n=40, dim=3):
    """Row i holds i in its first column, so that a batch tells where its rows come from."""
    x = np.random.default_rng(0).normal(size=(n, dim)).astype(np.float32)
    x[:, 0] = np.arange(n)
    return x


def labels(n=40, classes=4):
    return np.arange(n) % classes


class Pairs(Dataset):
    """A dataset without a list of its labels; ``noise`` augments as torchvision does, by the global generator."""

    def __init__(self, x, y, noise=0.0):
        self.x, self.y, self.noise, self.taken = x, y, noise, 0

    def __len__(self):
        return len(self.x)

    def __getitem__(self, row):
        self.taken += 1
        x = torch.as_tensor(self.x[row])
        return x + self.noise * torch.randn(x.shape) if self.noise else x, self.y[row]


def check_batch(data, batch, x, y):
    """Rows, labels and inputs belong together."""
    inputs, numbers, places = batch
    assert (inputs.dtype, numbers.dtype, places.dtype) == (torch.float32, torch.int64, torch.int64)
    source = data.rows[places.numpy()]
    assert_array_equal(inputs.numpy(), np.asarray(x)[source].astype(np.float32))
    assert_array_equal(data.classes[numbers.numpy()], np.asarray(y)[source])


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
    ("call", "message"),
    [
        (lambda d: d.batches(1, 0), "at least 2 rows"),
        (lambda d: d.batches(0, 0), "size must be a positive integer"),
        (lambda d: d.batches(4, -1), "epoch must be an integer of at least 0"),
        (lambda d: d.batches(4, 0, -1), "seed must be"),
        (lambda d: d.rows_in_order(2.5), "size must be"),
        (lambda d: d.split(0.0), "validation must be a share"),
        (lambda d: d.split(1), "validation must be a share"),
        (lambda d: d.split("0.1"), "validation must be a share"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(il.InputError, match=message):
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
    with pytest.raises(il.InputError, match=r"input_shape \(2, 3\) does not fit rows of shape \(24,\)"):
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


# ------------------------------------------------------------------------------------------------ datasets and loaders


def test_labels_of_a_dataset_come_from_its_list_if_that_is_right():
    dataset = Pairs(rows(200), labels(200))
    dataset.targets = labels(200).tolist()
    data = Data(dataset)
    assert dataset.taken < 100
    assert_array_equal(data.classes[data.labels], labels(200))
    dataset.targets = ((labels(200) + 1) % 4).tolist()  # as with a target_transform
    data = Data(dataset)
    assert_array_equal(data.classes[data.labels], labels(200))
    part = Data(Subset(Pairs(rows(), labels()), [5, 2, 9, 0, 1]))
    assert_array_equal(part.classes[part.labels], labels()[[5, 2, 9, 0, 1]])
    tensors = TensorDataset(torch.from_numpy(rows()), torch.from_numpy(labels()))
    part = Data(Subset(tensors, [5, 2, 9, 0, 1]))
    assert_array_equal(part.classes[part.labels], labels()[[5, 2, 9, 0, 1]])


def test_the_loader_makes_its_own_batches():
    x, y = rows(), labels()
    loader = DataLoader(Pairs(x, y), batch_size=9, shuffle=True, drop_last=True)
    data = Data(loader)
    found = list(data.batches(3, 0))
    assert [len(batch[0]) for batch in found] == [9, 9, 9, 9]
    for batch in found:
        check_batch(data, batch, x, y)
    assert torch.cat([batch[2] for batch in found]).tolist() != list(range(36))
    plain = Data(DataLoader(Pairs(x, y), batch_size=13))
    found = list(plain.batches(3, 0))
    assert [len(batch[0]) for batch in found] == [13, 13, 14]  # the last row alone joins its neighbours
    assert torch.cat([batch[2] for batch in found]).tolist() == list(range(40))
    assert [len(batch[0]) for batch in plain.rows_in_order(30)] == [30, 10]


def test_the_sampler_and_collate_function_of_the_loader_are_used():
    x, y = rows(), labels()
    loader = DataLoader(
        Pairs(x, y),
        batch_size=10,
        sampler=WeightedRandomSampler([0.0] * 20 + [1.0] * 20, 60),
        collate_fn=lambda items: (torch.stack([item[0] for item in items]) * 2, None),
    )
    data = Data(loader)
    found = list(data.batches(3, 0))
    places = torch.cat([batch[2] for batch in found])
    assert len(places) == 60
    assert places.min() >= 20
    for inputs, numbers, place in found:
        assert_array_equal(inputs.numpy(), 2 * x[place])
        assert_array_equal(numbers.numpy(), y[place])


@pytest.mark.parametrize("workers", [0, 1])
def test_loaders_and_augmentation_repeat_themselves_by_seed_and_epoch(workers):
    data = Data(DataLoader(Pairs(rows(16), labels(16), noise=1.0), batch_size=8, shuffle=True, num_workers=workers))

    def epoch(number, seed=1):
        found = list(data.batches(4, number, seed))
        return torch.cat([torch.cat([batch[0] for batch in found]).flatten(), torch.cat([b[2] for b in found])])

    state = torch.random.get_rng_state()
    first = epoch(0)
    torch.rand(3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(epoch(0), first)
    assert torch.equal(state, torch.random.get_rng_state())
    assert not torch.equal(epoch(1), first)


def test_augmentation_of_a_dataset_repeats_itself_too():
    state = torch.random.get_rng_state()
    data = Data(Pairs(rows(), labels(), noise=1.0))
    runs = [torch.cat([batch[0] for batch in data.batches(9, epoch, 3)]) for epoch in (0, 0, 1)]
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (Pairs(rows(0), []), "no rows to learn from"),
        (DataLoader(Pairs(rows(0), []), batch_size=2), "no rows to learn from"),
        ([torch.zeros(3)] * 4, "labels are missing"),
        (TensorDataset(torch.zeros(4, 3)), "must be pairs .* item 0 is tuple of 1"),
        (TensorDataset(torch.zeros(4, 3), torch.arange(4), torch.arange(4)), "item 0 is tuple of 3"),
        (Subset([torch.zeros(3)] * 4, range(4)), r"item 0 is Tensor of shape \(3,\)"),
        (Subset([(torch.zeros(3), 0), torch.zeros(3)], range(2)), r"item 1 is Tensor of shape \(3,\)"),
        (Subset([(torch.zeros(3), i) for i in (0, 1.5)], range(2)), r"y\[1\] is 1.5"),
        (Subset([(torch.zeros(3), i) for i in (0.0, 1.0)], range(2)), "pass integers"),
        (Subset([(torch.zeros(3), torch.eye(4)[i]) for i in range(4)], range(4)), r"one-hot; pass y.argmax\(1\)"),
        (Subset([(torch.zeros(3 + i), i) for i in range(2)], range(2)), r"shape \(3,\), x\[1\] is .*\(4,\)"),
        (Subset([("text", i) for i in range(2)], range(2)), "x must be flat rows"),
        (Subset([({}, i) for i in range(2)], range(2)), "x must be flat rows"),
        (Subset([(torch.full((3,), i / i if i else np.nan), i) for i in range(2)], range(2)), r"x\[0, 0\] is nan"),
        (DataLoader(Pairs(rows(), labels()), batch_size=None), "makes no batches"),
    ],
)
def test_bad_datasets_are_named(x, message):
    with pytest.raises(il.InputError, match=message):
        Data(x)


def test_what_can_only_be_iterated_is_named():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([(torch.zeros(3), 0)])

    for x in (Stream(), DataLoader(Stream(), batch_size=2)):
        with pytest.raises(il.InputError, match="Stream can only be iterated; a dataset with a length"):
            Data(x)
    with pytest.raises(il.InputError, match="pass it without y"):
        Data(Pairs(rows(), labels()), labels())


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
    with pytest.warns(il.FewRowsWarning), pytest.raises(il.InputError, match="each of 3 classes has a single row"):
        Data(rows(3), [0, 1, 2]).split()


# --------------------------------------------------------------------------------------------------------------- labels


@given(
    y=st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=20),
        st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=2, max_size=20),
        st.lists(st.booleans(), min_size=2, max_size=20),
    )
)
@settings(max_examples=100, deadline=None)
def test_classes_stand_for_the_labels(y):
    if len(set(y)) < 2:
        with pytest.raises(il.InputError, match="at least two classes, all are"):
            encode_labels(y, len(y))
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers, classes = encode_labels(y, len(y))
        again, _ = encode_labels(np.array(y, object), len(y))
    assert classes[numbers].tolist() == y
    assert numbers.dtype == np.int64
    assert sorted(set(numbers.tolist())) == list(range(len(set(y))))
    assert_array_equal(again, numbers)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "labels are missing: pass y, an integer or a string for each of the 4 rows"),
        ([0, 1, 0], "y has 3 labels, x has 4 rows"),
        ([], "y has 0 labels, x has 4 rows"),
        ([5, 5, 5, 5], "at least two classes, all are 5"),
        (np.array(["a"] * 4), "at least two classes, all are 'a'"),
        ([0.0, 1.0, 0.0, 1.0], "got dtype float64; pass integers"),
        (np.array([0, 1, 0, 1], np.float32), "got dtype float32; pass integers"),
        (torch.tensor([0.0, 1.0, 0.0, 1.0]), "pass integers"),
        ([0, 1, np.nan, 1], r"y\[2\] is nan, y\[0\] is 0"),
        (np.array([0, 1, np.nan, 1]), r"y\[2\] is nan; pass integers"),
        (np.eye(4)[[0, 1, 2, 3]], r"shape \(4, 4\) and dtype float64, which is one-hot; pass y.argmax\(1\)"),
        (np.eye(2, dtype=bool)[[0, 1, 0, 1]].tolist(), "which is one-hot"),
        ([[0], [1], [0], [1]], r"pass y.ravel\(\)"),
        ([[0, 2], [1, 1], [0, 0], [1, 1]], "several labels per row"),
        (np.int64(3), "must be 1-D"),
        ("abab", "must be 1-D"),
        ([0, 1, "a", 1], r"all of one kind: y\[2\] is 'a', y\[0\] is 0"),
        ([0, 1, None, 1], r"y\[2\] is None"),
        ([0, 1, True, 1], r"y\[2\] is True"),
        ([None, 1, 0, 1], r"y\[0\] is None"),
        (np.array([1j, 2j, 1j, 2j]), "integers or strings"),
        (np.array(["2020-01-01"] * 4, "datetime64[D]"), "integers or strings"),
        ([[0], [1, 2], [0], [1]], "y cannot be read as an array"),
    ],
)
def test_bad_labels_are_named(y, message):
    with pytest.raises(il.InputError, match=message):
        Data(np.zeros((4, 2)), y)


def test_a_class_of_one_row_warns():
    with pytest.warns(il.FewRowsWarning, match=r"1 of 3 classes have a single row \(7\)"):
        Data(np.zeros((5, 2)), [0, 0, 1, 1, 7])


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


# ------------------------------------------------------------------------------------------------------------- triplets


@given(seed=st.integers(0, 2**32 - 1), counts=st.lists(st.integers(1, 6), min_size=2, max_size=6))
@settings(max_examples=60, deadline=None)
def test_triplets_are_what_they_say(seed, counts):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)) * 3 - 4, counts))
    if max(counts) == 1:
        with pytest.raises(il.InputError, match="two classes, one of them with two rows"):
            triplets(y, 5, seed)
        return
    found = triplets(y, 50, seed)
    assert (found.shape, found.dtype) == ((50, 3), np.int64)
    for a, p, n in found:
        assert a != p
        assert y[a] == y[p] != y[n]
    assert_array_equal(triplets(y, 50, seed), found)


def test_triplets_reach_every_row_evenly():
    y = np.array([0, 0, 1, 1, 1, 2])
    found = triplets(y, 30_000, 1)
    wanted = {
        (a, p, n): 1 / 5 / (list(y).count(y[a]) - 1) / (6 - list(y).count(y[a]))
        for a in range(6)
        for p in range(6)
        for n in range(6)
        if a != p and y[a] == y[p] != y[n]
    }
    counted = collections.Counter(map(tuple, found.tolist()))
    assert set(counted) == set(wanted)
    for triplet, share in wanted.items():
        assert counted[triplet] / 30_000 == pytest.approx(share, rel=0.2)


@pytest.mark.parametrize(
    ("y", "n", "message"),
    [
        ([0, 0, 0], 5, "two classes"),
        ([0.0, 1.0], 5, "integer labels"),
        ([0, 0, 1], 0, "n must be a positive integer"),
    ],
)
def test_bad_input_to_triplets_is_named(y, n, message):
    with pytest.raises(il.InputError, match=message):
        triplets(y, n)
