"""Networks: shapes, standardisation, folding, wrapping, export; and that torch stays out of ``import interlace``."""

from __future__ import annotations

import copy
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch", reason="the train extra is not installed")

import interlace as il  # noqa: E402
from helpers import run_python  # noqa: E402
from interlace.learn.joint import export, networks, require_torch  # noqa: E402
from interlace.learn.joint.layers import Dropout, Standardize, statistics_of  # noqa: E402
from raising import raises  # noqa: E402

nn = torch.nn
VECTOR, GREY, COLOUR = (12,), (1, 28, 28), (3, 16, 24)
CASES = [
    ("identity", VECTOR, 12, ()),
    ("linear", VECTOR, 5, ()),
    ("linear", (2, 3, 2), 5, ()),
    ("mlp", VECTOR, 4, (7, 6)),
    ("lenet", GREY, 9, ()),
    ("alexnet", COLOUR, 6, ()),
]


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def made(name, shape, dim, hidden, *, seed=1, statistics=True):
    """A network with statistics, and batch norm off its start."""
    network = networks.build(name, input_shape=shape, dim=dim, hidden=hidden, generator=generator(seed))
    if statistics:
        rng = np.random.default_rng(seed)
        n = network.standardize.mean.numel()
        network.set_statistics(rng.normal(size=n) * 3, rng.uniform(0.5, 4, n))
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.uniform_(-1, 1, generator=generator(seed))
            part.running_var.uniform_(0.5, 2, generator=generator(seed))
    return network.eval()


def inputs(shape, n=7, seed=0):
    return (np.random.default_rng(seed).normal(size=(n, *shape)) * 4 + 1).astype(np.float32)


def run(network, x):
    with torch.no_grad():
        return network(torch.as_tensor(x)).numpy()


# ------------------------------------------------------------------------------------------------------ torch stays out


def test_import_interlace_and_the_training_package_do_without_torch():
    code = """
import json, sys
import interlace, interlace.learn.joint
print(json.dumps("torch" in sys.modules))
"""
    assert run_python(code) is False


def test_missing_torch_is_named(monkeypatch):
    require_torch()
    monkeypatch.setitem(sys.modules, "torch", None)
    with raises(il.InputError, "torch", "'interlace[train]'"):
        require_torch()


# ------------------------------------------------------------------------------------------------------------- building


@pytest.mark.parametrize(("name", "shape", "dim", "hidden"), CASES)
def test_flat_shaped_and_byte_inputs_give_the_same_rows(name, shape, dim, hidden):
    network = made(name, shape, dim, hidden)
    x = np.random.default_rng(0).integers(0, 256, (5, *shape), np.uint8)
    z = run(network, x)
    assert (z.shape, z.dtype) == ((5, dim), np.float32)
    assert_array_equal(run(network, x.reshape(5, -1)), z)
    assert_array_equal(run(network, x.astype(np.float32)), z)
    assert np.abs(z - z[0]).max() > 1e-3  # it looks at its input
    assert_allclose(run(network, x[2:3]), z[2:3], rtol=1e-3, atol=1e-3)  # rows do not see each other


@pytest.mark.parametrize(("name", "shape", "dim", "hidden"), CASES)
def test_weights_come_from_the_generator_alone(name, shape, dim, hidden):
    torch_state = torch.random.get_rng_state()
    first, again, other = (made(name, shape, dim, hidden, seed=seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch_state, torch.random.get_rng_state())
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)
    assert all(torch.isfinite(value).all() for value in first.values())


@pytest.mark.parametrize(("name", "shape", "dim", "hidden"), CASES)
def test_hidden_layers_keep_the_scale_and_gradients_reach_every_layer(name, shape, dim, hidden):
    network = networks.build(name, input_shape=shape, dim=dim, hidden=hidden, generator=generator(0)).train()
    z = network(torch.randn(64, *shape, generator=generator(1)))
    assert 0.2 < z.detach().std().item() < 3
    trained = [p for p in network.parameters() if p.requires_grad]
    if name == "identity":
        assert trained == []
        return
    z.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in trained)


def test_defaults_of_the_images():
    lenet, alexnet = (networks.build(name, input_shape=(raw,)) for name, raw in (("lenet", 784), ("alexnet", 3072)))
    assert (lenet.input_shape, lenet.dim, lenet.fc.in_features) == ((1, 28, 28), 512, 800)
    assert (alexnet.input_shape, alexnet.dim, alexnet.fc.in_features) == ((3, 32, 32), 1024, 2048)
    assert sum(isinstance(part, nn.Conv2d) for part in alexnet.modules()) == 5
    assert [type(network.out) for network in (lenet, alexnet)] == [nn.Linear] * 2
    mlp = networks.build("mlp", input_shape=(10,), dim=3)
    assert [layer.out_features for layer in mlp.hidden] == [256]
    assert run(networks.build("lenet", input_shape=(2, 16, 21), dim=3).eval(), inputs((2, 16, 21))).shape == (7, 3)
    assert run(networks.build("alexnet", input_shape=(1, 16, 24), dim=3).eval(), inputs((1, 16, 24))).shape == (7, 3)


@pytest.mark.parametrize(
    ("name", "settings_", "facts"),
    [
        ("resnet", {"input_shape": (4,), "dim": 2}, ("identity", "linear", "mlp", "lenet", "alexnet", "torch")),
        ("linear", {"input_shape": (4,)}, ("needs dim",)),
        ("linear", {"input_shape": (4,), "dim": 0}, ("dim", "integer")),
        ("linear", {"input_shape": 4, "dim": 2}, ("input_shape",)),
        ("linear", {"input_shape": (), "dim": 2}, ("input_shape",)),
        ("linear", {"input_shape": (4, 0), "dim": 2}, ("input_shape", "integer")),
        ("linear", {"input_shape": (4,), "dim": 2, "hidden": (3,)}, ("belong",)),
        ("mlp", {"input_shape": (4,), "dim": 2, "hidden": (3, 0)}, ("hidden", "integer")),
        ("identity", {"input_shape": (4,), "dim": 2}, ("input's", 4, "dim=2")),
        ("lenet", {"input_shape": (785,)}, ("lenet", "(1, 28, 28)", "input_shape=(785,)")),
        ("lenet", {"input_shape": (1, 28, 15)}, (16,)),
        ("alexnet", {"input_shape": (3, 32, 30)}, ("divisible", 8)),
        ("alexnet", {"input_shape": (1, 8, 8)}, (16, "(3, 32, 32)", "(1, 8, 8)")),
    ],
)
def test_bad_settings_are_named(name, settings_, facts):
    with raises(il.InputError, *facts):
        networks.build(name, **settings_)


@pytest.mark.parametrize("shape", [(5,), (5, 11), (5, 2, 28, 28), (784,)])
def test_inputs_of_another_shape_are_named(shape):
    network = networks.build("lenet", input_shape=GREY)
    expected = rf"inputs \[n, 1, 28, 28\] or flat rows \[n, 784\], got shape \({', '.join(map(str, shape))}"
    with pytest.raises(il.InputError, match=expected):
        network(torch.zeros(shape))


# ------------------------------------------------------------------------------------------------------ standardisation


def plain_statistics(rows):
    """[n, *shape] -> mean and std by loops, per channel of images."""
    columns = [row.reshape(row.shape[0], -1) if row.ndim == 3 else row.reshape(-1, 1) for row in rows]
    means, stds = [], []
    for feature in range(len(columns[0])):
        values = [float(v) for row in columns for v in row[feature]]
        mean = math.fsum(values) / len(values)
        means.append(mean)
        stds.append(math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values)))
    return means, stds


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 12),
    size=st.integers(1, 5),
    shape=st.sampled_from([(4,), (2, 3, 2), (1, 2, 2)]),
    offset=st.sampled_from([0.0, 1e4]),
    flat=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_statistics_equal_the_plain_loop_for_any_batches(seed, n, size, shape, offset, flat):
    rows = np.random.default_rng(seed).normal(size=(n, *shape)).astype(np.float32) + np.float32(offset)
    given_ = rows.reshape(n, -1) if flat else rows
    batches = [(torch.from_numpy(given_[i : i + size]), None) for i in range(0, n, size)]
    mean, std = statistics_of(batches, shape)
    expected = plain_statistics(rows)
    assert mean.dtype == std.dtype == np.float64
    assert_allclose(mean, expected[0], rtol=1e-12, atol=1e-12)
    assert_allclose(std, expected[1], rtol=1e-6, atol=1e-9)


def test_standardised_rows_have_mean_0_and_std_1_and_constants_stay_finite():
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(200, 4)) * [1e-3, 1, 1e3, 0] + [5, -2, 1e4, 7.5]).astype(np.float32)
    stage = Standardize((4,))
    assert_array_equal(stage(torch.from_numpy(x)).numpy(), x)  # nothing is done before there are statistics
    stage.set_statistics(*statistics_of([x]))
    z = stage(torch.from_numpy(x)).numpy()
    assert_allclose(z.mean(0), 0, atol=1e-3)
    assert_allclose(z.std(0), [1, 1, 1, 0], atol=1e-3)
    assert stage(torch.tensor([[5.0, -2.0, 1e4, 9.5]]))[0, 3] == 0  # its weights were never learned


def test_a_value_that_is_rarely_there_is_bounded():
    x = np.zeros((10_000, 2), np.float32)
    x[0, 0] = 255.0
    x[:, 1] = np.random.default_rng(0).normal(size=len(x))
    _, spread = statistics_of(np.array_split(x, 7))
    assert_allclose(spread, [(255 - 0.0255) / 10, x[:, 1].std()], rtol=1e-6)


def test_a_spread_that_float32_cannot_tell_is_none():
    stage = Standardize((2,))
    stage.set_statistics([1e6, 1e6], [1e-3, 1.0])
    assert stage.std.tolist() == [np.inf, 1]


@pytest.mark.parametrize(
    ("mean", "std", "facts"),
    [
        ([0.0], [1.0, 1.0], ("mean", 2)),
        ([0.0, 0.0], [1.0, np.nan], ("std", 2)),
        ([0.0, 0.0], [1.0, -1.0], ("std", 2)),
    ],
)
def test_bad_statistics_are_named(mean, std, facts):
    with raises(il.InputError, *facts):
        Standardize((2,)).set_statistics(mean, std)


def test_statistics_of_nothing_or_of_another_shape():
    with pytest.raises(il.InputError, match="at least one row"):
        statistics_of([])
    with raises(il.InputError, "[n, 3]"):
        statistics_of([np.zeros((2, 4))], (3,))


# -------------------------------------------------------------------------------------------------------------- folding


@pytest.mark.parametrize(("name", "shape", "dim", "hidden"), CASES)
def test_fold_changes_the_output_as_it_says(name, shape, dim, hidden):
    network, x = made(name, shape, dim, hidden), inputs(shape)
    keys = list(network.state_dict())
    for seed in range(2):  # twice: a fold goes on top of the one before
        rng = np.random.default_rng(seed)
        matrix, offset = rng.normal(size=(dim, dim)), rng.normal(size=dim) * 5
        before = run(network, x).astype(np.float64)
        export.fold(network, matrix if seed else torch.from_numpy(matrix), offset)
        after = run(network, x)
        expected = (before - offset) @ matrix
        assert_allclose(after, expected, atol=1e-5 * max(1, np.abs(before).max()) * dim, rtol=1e-4)
    assert list(network.state_dict()) == keys  # a checkpoint from before fits
    assert name != "identity" or not any(p.requires_grad for p in network.parameters())


def test_fold_needs_its_shapes():
    network = made("linear", VECTOR, 5, ())
    with raises(il.InputError, "matrix", "(5, 5)", "(5, 4)"):
        export.fold(network, np.zeros((5, 4)), np.zeros(5))
    with raises(il.InputError, "offset", "(5,)"):
        export.fold(network, np.eye(5), np.full(5, np.nan))


# ------------------------------------------------------------------------------------------------------------- wrapping


class Own(nn.Module):
    """A user's module with batch norm and dropout, so that modes matter."""

    def __init__(self, dim=3):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten())
        self.last = nn.Linear(4 * 4 * 4, dim)

    def forward(self, x):
        return self.last(self.inner(x))


class Gives(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_a_user_module_is_wrapped_and_left_as_it_was():
    module = Own()
    module.inner[1].eval()
    module.inner[0].weight.requires_grad_(False)
    state, modes = copy.deepcopy(module.state_dict()), [part.training for part in module.modules()]
    network = networks.wrap(module, (2, 6, 6))
    assert [part.training for part in module.modules()] == modes
    assert all(torch.equal(state[key], value) for key, value in module.state_dict().items())
    assert (network.dim, network.standardizes, network.module) == (3, False, module)
    network.eval()
    x = inputs((2, 6, 6))
    with torch.no_grad():
        assert_array_equal(run(network, x.reshape(7, -1)), module(torch.from_numpy(x)).numpy())
    assert networks.wrap(network, (2, 6, 6), 3) is network
    export.fold(network, 2 * np.eye(3), np.ones(3))
    assert_allclose(run(network, x), 2 * (module(torch.from_numpy(x)).detach().numpy() - 1), rtol=1e-5, atol=1e-5)
    with pytest.raises(il.InputError, match="your own module are not standardized"):
        network.set_statistics(np.zeros(2), np.ones(2))


@pytest.mark.parametrize(
    ("module", "shape", "dim", "message"),
    [
        (Own(3), (2, 6, 6), 4, r"Own must return \[2, 4\] for a batch of 2, got shape \(2, 3\)"),
        (Own(3), (2, 8, 6), 3, r"Own does not take a float32 batch of shape \(2, 2, 8, 6\)"),
        (Gives(lambda x: x[0]), (4,), None, r"Gives must return \[2, dim\] for a batch of 2, got shape \(4,\)"),
        (Gives(lambda x: x[:1]), (4,), 4, r"\[2, 4\] for a batch of 2, got shape \(1, 4\)"),
        (Gives(lambda x: x[:, None]), (4,), 4, r"got shape \(2, 1, 4\)"),
        (Gives(lambda x: (x, x)), (4,), 4, "must return one tensor .* got tuple"),
        (Gives(lambda x: x > 0), (4,), 4, "must return real numbers"),
        (Gives(lambda x: x[:, :0]), (4,), None, "must return real numbers"),
        (Gives(lambda x: 1 / 0), (4,), 4, "does not take .* division by zero"),
        (Own, (4,), 4, "must be a torch.nn.Module"),
        (np.tanh, (4,), 4, "must be a torch.nn.Module"),
    ],
)
def test_bad_modules_are_named(module, shape, dim, message):
    with pytest.raises(il.InputError, match=message):
        networks.wrap(module, shape, dim)


# --------------------------------------------------------------------------------------------------------------- export


@pytest.fixture
def embedding():
    return pytest.importorskip("interlace.embedding")


@pytest.mark.parametrize(("name", "shape", "dim", "hidden"), CASES)
@pytest.mark.parametrize("folded", [False, True])
def test_the_exported_embedding_computes_the_same(name, shape, dim, hidden, folded, embedding):
    network, x = made(name, shape, dim, hidden), inputs(shape, n=20)
    if folded:
        rng = np.random.default_rng(5)
        export.fold(network, rng.normal(size=(dim, dim)), rng.normal(size=dim))
    exported = export.to_embedding(network)
    kinds = {"identity": "Linear", "linear": "Linear", "mlp": "MLP", "lenet": "Network", "alexnet": "Network"}
    assert type(exported).__name__ == kinds[name]
    z = run(network, x)
    for given_ in (x, x.reshape(20, -1)):
        assert np.abs(exported(given_) - z).max() <= 1e-4 * np.abs(z).max()


def test_the_identity_is_exported_as_such_until_something_is_folded_in(embedding):
    network = networks.build("identity", input_shape=(6,))
    assert type(export.to_embedding(network)) is embedding.Identity
    export.fold(network, np.eye(6)[::-1], np.ones(6))
    exported, x = export.to_embedding(network), inputs((6,))
    assert type(exported) is embedding.Linear
    assert_allclose(exported(x), (x - 1)[:, ::-1], rtol=1e-5, atol=1e-5)


def test_a_user_module_is_exported_with_the_layer_behind_it(embedding):
    module = Own().eval()
    network = networks.wrap(module, (2, 6, 6)).eval()
    x = inputs((2, 6, 6))
    for _ in range(2):
        exported = export.to_embedding(network)
        assert exported.module is module
        assert_allclose(exported(x), run(network, x), rtol=1e-5, atol=1e-5)
        export.fold(network, np.diag([1.0, 2.0, 3.0]), np.ones(3))


def test_exported_weights_are_copies(embedding):
    network = made("lenet", GREY, 9, ())
    exported, x = export.to_embedding(network), inputs(GREY, n=2)
    before = run(network, x)
    export.fold(network, 2 * np.eye(9), np.zeros(9))
    assert_allclose(exported(x), before, rtol=1e-5, atol=1e-5)


# ----------------------------------------------------------------------------------------------------------- model card


@pytest.mark.parametrize(
    ("name", "shape", "dim", "hidden", "parameters", "multiply_adds"),
    [
        ("identity", (12,), 12, (), 0, 0),
        ("linear", (12,), 5, (), 12 * 5 + 5, 12 * 5),
        ("mlp", (12,), 5, (7,), 12 * 7 + 7 + 7 * 5 + 5, 12 * 7 + 7 * 5),
        (
            "lenet",
            (1, 28, 28),
            9,
            (),
            20 * 25 + 20 + 50 * 20 * 25 + 50 + 800 * 512 + 512 + 512 * 9 + 9,
            20 * 25 * 24 * 24 + 50 * 20 * 25 * 8 * 8 + 800 * 512 + 512 * 9,
        ),
    ],
)
def test_parameters_and_multiply_adds_are_counted(name, shape, dim, hidden, parameters, multiply_adds):
    network = networks.build(name, input_shape=shape, dim=dim, hidden=hidden).train()
    found = export.describe(network)
    assert found == {
        "name": name,
        "input_shape": list(shape),
        "dim": dim,
        "parameters": parameters,
        "trainable": parameters,
        "multiply_adds": multiply_adds,
    }
    assert network.training
    assert not any(part._forward_hooks for part in network.modules())


def test_the_card_of_a_user_module_and_of_a_folded_identity():
    network = networks.wrap(Own(), (2, 6, 6))
    found = export.describe(network)
    assert (found["name"], found["multiply_adds"]) == ("Own", 4 * 18 * 16 + 64 * 3)
    assert found["parameters"] == 4 * 18 + 4 + 8 + 64 * 3 + 3
    identity = networks.build("identity", input_shape=(4,))
    export.fold(identity, 2 * np.eye(4), np.zeros(4))
    found = export.describe(identity)
    assert (found["parameters"], found["trainable"], found["multiply_adds"]) == (20, 0, 16)


def test_alexnet_is_small_enough_for_two_cores():
    found = export.describe(networks.build("alexnet", input_shape=(3, 32, 32)))
    assert found["multiply_adds"] < 80e6
    assert found["parameters"] < 5e6


# -------------------------------------------------------------------------------------------------------------- dropout


def test_dropout_depends_on_its_seed_and_the_number_of_calls():
    network = networks.build("alexnet", input_shape=(1, 16, 16), dim=4).train()
    x = torch.randn(4, 1, 16, 16, generator=generator(0))
    state = torch.random.get_rng_state()

    def two(seed):
        network.reseed(seed)
        with torch.no_grad():
            return network(x), network(x)

    first, again, other = two(1), two(1), two(2)
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other[0])
    assert not torch.equal(copy.deepcopy(network)(x), first[0])  # can be copied, goes on from where it is
    network.eval()
    assert torch.equal(network(x), network(x))


def test_dropout_keeps_the_mean_and_drops_its_share():
    drop = Dropout(0.25).train()
    x = torch.ones(200, 100)
    z = drop(x)
    assert float((z == 0).float().mean()) == pytest.approx(0.25, abs=0.02)
    assert float(z.mean()) == pytest.approx(1, abs=0.02)
    assert torch.equal(Dropout(0.0).train()(x), x)
