"""torch datasets and loaders: their own batches and labels, repeated by seed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from torch.utils.data import (  # noqa: E402
    DataLoader,
    IterableDataset,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
)

import interlace as il  # noqa: E402
from interlace.learn.joint.batches import Data  # noqa: E402
from raising import raises  # noqa: E402
from rows_data import Pairs, check_batch, labels, rows  # noqa: E402


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
    ("x", "facts"),
    [
        (Pairs(rows(0), []), ("no rows to learn from",)),
        (DataLoader(Pairs(rows(0), []), batch_size=2), ("no rows to learn from",)),
        ([torch.zeros(3)] * 4, ("labels", "missing")),
        (TensorDataset(torch.zeros(4, 3)), ("item 0", 1)),
        (TensorDataset(torch.zeros(4, 3), torch.arange(4), torch.arange(4)), ("item 0", 3)),
        (Subset([torch.zeros(3)] * 4, range(4)), ("item 0", "(3,)")),
        (Subset([(torch.zeros(3), 0), torch.zeros(3)], range(2)), ("item 1", "(3,)")),
        (Subset([(torch.zeros(3), i) for i in (0, 1.5)], range(2)), ("y[1]", "1.5")),
        (Subset([(torch.zeros(3), i) for i in (0.0, 1.5)], range(2)), ("y[1]", "1.5")),
        (Subset([(torch.zeros(3), torch.eye(4)[i]) for i in range(4)], range(4)), ("y.argmax(1)",)),
        (Subset([(torch.zeros(3 + i), i) for i in range(2)], range(2)), ("(3,)", "x[1]", "(4,)")),
        (Subset([("text", i) for i in range(2)], range(2)), ("x", "rows")),
        (Subset([({}, i) for i in range(2)], range(2)), ("x", "rows")),
        (Subset([(torch.full((3,), i / i if i else np.nan), i) for i in range(2)], range(2)), ("x[0, 0]", "nan")),
        (DataLoader(Pairs(rows(), labels()), batch_size=None), ("batch_size=None",)),
    ],
)
def test_bad_datasets_are_named(x, facts):
    with raises(il.InputError, *facts):
        Data(x)


def test_labels_of_items_that_are_whole_floats_are_integers():
    found = Data(Subset([(torch.zeros(3), i) for i in (0.0, 1.0)], range(2)))
    assert found.classes.tolist() == [0, 1]
    assert found.classes.dtype == np.int64


def test_what_can_only_be_iterated_is_named():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([(torch.zeros(3), 0)])

    for x in (Stream(), DataLoader(Stream(), batch_size=2)):
        with raises(il.InputError, "Stream", "__len__"):
            Data(x)
    with raises(il.InputError, "y", "None"):
        Data(Pairs(rows(), labels()), labels())
