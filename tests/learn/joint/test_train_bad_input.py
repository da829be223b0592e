"""Input that cannot be learned from is refused before training."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from torch import nn  # noqa: E402
from torch.utils.data import TensorDataset  # noqa: E402

import interlace as il  # noqa: E402
from interlace.quantizers import SQ  # noqa: E402
from joint_data import Stop, icq, labelled  # noqa: E402
from raising import raises  # noqa: E402

X, Y = labelled()


IMAGES = np.zeros((20, 3, 30, 30), np.float32)
HOLE = X.copy()
HOLE[123, 4] = np.nan  # neither among the first rows nor among the last


class Returns(nn.Module):
    """A module whose output is not what it should be."""

    def __init__(self, make):
        super().__init__()
        self.layer, self.make = nn.Linear(12, 4), make

    def forward(self, x):
        return self.make(self.layer(x))


class NotCopied(nn.Linear):
    """As torch.jit does it: the weights of a copy are computed, not its own."""

    def __init__(self):
        super().__init__(12, 4)

    def __deepcopy__(self, memo):
        copied = NotCopied()
        copied._parameters["weight"] = self.weight * 1
        return copied


class NaNInTraining(nn.Linear):
    def __init__(self):
        super().__init__(12, 4)

    def forward(self, x):
        return super().forward(x) * (float("nan") if self.training else 1.0)


BAD = {
    "labels of the wrong length": ({}, X, Y[:-1], "y has 599 labels, x has 600 rows"),
    "one class": ({}, X, np.zeros(600, int), "labels must name at least two classes, all are 0"),
    "float labels": ({}, X, Y + 0.5, r"labels must be integers or strings, or .* whole numbers; y\[0\] is \d\.5"),
    "NaN labels": (
        {},
        X,
        np.where(Y == 2, np.nan, Y),
        r"labels must be integers or strings, .*y\[\d+\] is nan, of",
    ),
    "one-hot labels": ({}, X, np.eye(4)[Y], "one-hot; pass y.argmax"),
    "no row to hold out": ({}, X[:3], np.arange(3), r"validation=0\.1 .*3 classes.*; validation=0"),
    "NaN": ({}, HOLE, Y, r"\[123, 4\] is nan"),
    "NaN in the whole": ({}, X * np.nan, Y, "is nan"),
    "NaN, and float labels": ({}, HOLE, Y + 0.5, r"\[123, 4\] is nan"),
    "one row": ({}, X[:1], Y[:1], r"labels must name at least two classes, all are \d, one class"),
    "no rows": ({}, X[:0], Y[:0], "0 sample"),
    "flat images of the wrong size": ({"embedding": "lenet"}, X, Y, r"lenet takes images \(channels, height, width\)"),
    "images of the wrong shape": ({"embedding": "alexnet"}, IMAGES, Y[:20], "sides must be divisible by 8"),
    "images too small": (
        {"embedding": "alexnet"},
        IMAGES[:, :, :8, :8],
        Y[:20],
        r"at least 16 x 16, .*such as \(3, 32, 32\), got input_shape=\(3, 8, 8\)",
    ),
    "images too small for lenet": (
        {"embedding": "lenet"},
        IMAGES[:, :, :8, :8],
        Y[:20],
        r"at least 16 x 16, such as \(1, 28, 28\), got input_shape=\(3, 8, 8\)",
    ),
    "images with channels last": ({}, IMAGES.transpose(0, 2, 3, 1), Y[:20], "channels last"),
    "images without channels": ({}, IMAGES[:, 0], Y[:20], r"pass x\[:, None\]"),
    "a module for other inputs": (
        {"embedding": nn.Linear(9, 4)},
        X,
        Y,
        r"does not take a float32 batch of shape \(2, 12\)",
    ),
    "a module with another dim": ({"embedding": nn.Linear(12, 4), "dim": 5}, X, Y, r"must return \[2, 5\]"),
    "a module that gives images": ({"embedding": Returns(lambda z: z[:, None])}, X, Y, r"must return \[2, dim\]"),
    "a module that gives a sum": ({"embedding": Returns(lambda z: z.sum())}, X, Y, r"must return \[2, dim\]"),
    "a module that gives two": ({"embedding": Returns(lambda z: (z, z))}, X, Y, "must return one tensor"),
    "a module that gives NaN": ({"embedding": Returns(lambda z: z / 0 * 0)}, X, Y, "embedding of row 0 is not finite"),
    "the class of a module": ({"embedding": nn.Linear}, X, Y, "embedding must be one of .* or a torch module"),
    "an unknown embedding": ({"embedding": "resnet"}, X, Y, "embedding must be one of identity, linear, mlp"),
    "identity of another dim": ({"embedding": "identity", "dim": 5}, X, Y, "identity embedding has the input's 12"),
    "hidden layers of linear": ({"hidden": (5,)}, X, Y, "hidden layers belong to the mlp"),
    "hidden as a number": ({"hidden": 5}, X, Y, r"hidden must be the widths of the hidden layers"),
    "hidden of nothing": ({"embedding": "mlp", "hidden": (0,)}, X, Y, "hidden must be a positive integer"),
    "too many books": ({"n_books": 65}, X, Y, "books.*1 to 64.*65"),
    "no books": ({"n_books": 0}, X, Y, "books.*1 to 64.*0"),
    "books and bytes": ({"n_bytes": 4}, X, Y, "n_bytes or n_books, not both"),
    "too many crude books": ({"n_crude": 5}, X, Y, "n_crude must be 1 to 4"),
    "one word": ({"n_words": 1}, X, Y, "n_words must be 2 to 256"),
    "words that need two bytes": ({"n_words": 257}, X, Y, "n_words must be 2 to 256"),
    "an unknown loss": ({"loss": "hinge"}, X, Y, "loss must be one of contrastive"),
    "an unknown optimisation": ({"optimize": "both"}, X, Y, "optimize must be one of joint, alternate"),
    "an unknown recipe": ({"recipe": "papers"}, X, Y, "recipe must be 'default', 'paper'"),
    "cross of another kind": ({"cross": "none"}, X, Y, "cross must be one of auto, constant, byte, exact"),
    "all rows held out": ({"validation": 1.0}, X, Y, "validation must be a share"),
    "a number of rows held out": ({"validation": 100}, X, Y, "validation must be a share"),
    "an unknown device": ({"device": "abacus"}, X, Y, "device must be 'auto'"),
    "no device": ({"device": None}, X, Y, "device must be 'auto' .*got None"),
    "a device without numbers": ({"device": "meta"}, X, Y, "device must be 'auto'"),
    "a module whose copy is not its own": ({"embedding": NotCopied()}, X, Y, "NotCopied cannot be trained: its copy"),
    "a module that gives NaN while it learns": (
        {"embedding": NaNInTraining()},
        X,
        Y,
        "no batch of epoch 0 had a finite loss, so the embedding cannot be learned",
    ),
    "a negative seed": ({"seed": -1}, X, Y, "seed must be"),
    "dim of nothing": ({"dim": 0}, X, Y, "dim must be a positive integer"),
    "a layout": ({"layout": "hybrid"}, X, Y, "layout.*'subspace'.*'hybrid'"),
    "a rotation": ({"rotation": "none"}, X, Y, "rotation.*'principal'.*'none'"),
    "a metric": ({"metric": "cosine"}, X, Y, "metric.*'l2'.*'cosine'"),
}


@pytest.mark.filterwarnings("ignore:a loss or its gradient is not finite:RuntimeWarning")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told_before_anything_is_learned(name):
    settings, x, y, message = BAD[name]
    quiet = Stop(-1)
    model = icq(**settings, progress=quiet)
    with pytest.raises(il.InputError, match=message):
        model.fit(x, y)
    assert not quiet.said
    assert not [attribute for attribute in vars(model) if attribute.endswith("_")]


@pytest.mark.parametrize("row", range(0, 600, 13))
def test_a_bad_row_is_found_wherever_it_is(row):
    x = X.copy()
    x[row, 3] = np.inf
    quiet = Stop(-1)
    with pytest.raises(il.InputError, match=rf"\[{row}, 3\] is inf"):
        icq(progress=quiet, validation=0.5).fit(x, Y)
    assert not quiet.said


def test_labels_are_missing():
    quiet = Stop(-1)
    with raises(il.InputError, "labels", 600):
        SQ(progress=quiet).fit(X)
    with pytest.raises(il.InputError, match="items of the dataset must be pairs"):
        icq(progress=quiet).fit(TensorDataset(torch.from_numpy(X)))
    assert not quiet.said


def test_a_dataset_is_no_array():
    dataset = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    with raises(il.InputError, "X", "TensorDataset"):
        il.ICQ(2, supervised=False).fit(dataset)


def test_shares_of_numpy():
    shared = [icq(validation=share).fit(X, Y) for share in (np.float32(0.25), 0.25)]
    np.testing.assert_array_equal(shared[0].codes_, shared[1].codes_)
