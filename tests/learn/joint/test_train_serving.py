"""Embeddings that torch runs: named networks with stored weights, and modules of the user, known by a fingerprint."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import interlace as il
from helpers import hand_made
from interlace.codec.embedding import Linear, Module, Network, embedding_of, torch_modules
from interlace.estimators.fitted import Fitted
from raising import Facts, raises

torch = pytest.importorskip("torch", reason="the train extra is not installed")
from torch import nn  # noqa: E402

SHAPE = (1, 6, 6)
IMAGES = np.random.default_rng(0).integers(0, 255, (30, *SHAPE)).astype(np.uint8)


class Small(nn.Module):
    """Convolution, batch norm, dropout: all that differs between training and serving; it writes into its input."""

    def __init__(self, dim: int = 4, seed: int = 0) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)
        self.drop, self.out = nn.Dropout(0.5), nn.Linear(32, dim)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for value in self.parameters():
                value.copy_(torch.randn(value.shape, generator=generator) * 0.3)

    def forward(self, x: Any) -> Any:
        x.div_(255)
        return self.out(self.drop(torch.relu(self.norm(self.conv(x)))).flatten(1))


def reference(module: nn.Module, x: np.ndarray = IMAGES) -> np.ndarray:
    training = module.training
    module.eval()
    with torch.no_grad():
        out = module(torch.tensor(x.astype(np.float32))).numpy()
    module.train(training)
    return out


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What a stand-in for ``networks.build`` was asked to build."""
    asked: list[dict[str, Any]] = []

    def build(name: str, *, input_shape: tuple[int, ...], dim: int, hidden: tuple[int, ...] = ()) -> nn.Module:
        asked.append({"name": name, "input_shape": input_shape, "dim": dim})
        return Small(dim, seed=99)

    monkeypatch.setattr("interlace.learn.joint.serving.build", build)
    return asked


def weights_of(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: value.numpy().copy() for name, value in module.state_dict().items()}


# --- named networks ---------------------------------------------------------------------------------------------------


def test_a_network_is_built_once_and_run_with_its_weights(
    built: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = Small(seed=3)
    made = Network("lenet", SHAPE, 4, weights_of(module))
    assert built == []  # nothing runs before the first input
    monkeypatch.setattr(torch_modules, "NETWORK_VALUES", 36 * 7)  # blocks of 7 images
    assert made.block_rows == 7
    before = IMAGES.copy()
    assert_allclose(made(IMAGES), reference(module), rtol=1e-4, atol=1e-5)
    assert_allclose(made(IMAGES.reshape(30, 36)), reference(module), rtol=1e-4, atol=1e-5)
    assert built == [{"name": "lenet", "input_shape": SHAPE, "dim": 4}]
    assert_array_equal(IMAGES, before)
    again = pickle.loads(pickle.dumps(made))
    assert_array_equal(again(IMAGES), made(IMAGES))


def test_a_network_travels_with_its_index(built: list[dict[str, Any]], tmp_path: Path) -> None:
    made = Network("lenet", SHAPE, 4, weights_of(Small(seed=3)))
    index = il.Index(hand_made(), made)
    index.add(IMAGES, threads=1)
    index.save(tmp_path / "i")
    opened = il.open(tmp_path / "i")
    opened.verify()
    assert opened.embedding is not None
    assert opened.embedding.fingerprint == made.fingerprint
    ours, theirs = (i.search(IMAGES[:5], 6, margin="exact", threads=1) for i in (index, opened))
    assert_array_equal(ours.ids, theirs.ids)
    assert_array_equal(ours.distances, theirs.distances)
    single = opened.search(IMAGES[0], 6, margin="exact", threads=1)
    assert single.ids.shape == (6,)
    assert_allclose(single.distances, ours.distances[0], rtol=1e-4)  # torch may round another batch size differently
    report = opened.report()
    assert (report.embedding_kind, report.embedding) == ("lenet", made.n_bytes)
    with raises(il.InputError, "differs", "file"):
        il.open(tmp_path / "i", embedding=Small(seed=3))


def test_weights_that_do_not_fit(built: list[dict[str, Any]]) -> None:
    with raises(il.InputError, "out.weight"):
        Network("lenet", SHAPE, 4, weights_of(Small(5)))(IMAGES)


def test_outputs_of_another_width_are_refused(built: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlace.learn.joint.serving.build", lambda name, **settings: Small(5))
    with raises(il.InputError, "lenet", "[n, 4]", "(30, 5)", 30):
        Network("lenet", SHAPE, 4, weights_of(Small(5)))(IMAGES)


def test_the_networks_of_the_package_travel(tmp_path: Path) -> None:
    networks = pytest.importorskip("interlace.learn.joint.networks", reason="the networks are not here yet")
    module = networks.build("lenet", input_shape=(1, 28, 28), dim=4).eval()
    made = Network("lenet", (1, 28, 28), 4, weights_of(module))
    images = np.random.default_rng(1).normal(size=(12, 1, 28, 28)).astype(np.float32)
    assert_allclose(made(images), reference(module, images), rtol=1e-4, atol=1e-5)
    index = il.Index(hand_made(), made)
    index.add(images, threads=1)
    index.save(tmp_path / "i")
    assert il.open(tmp_path / "i").search(images[0], 1).ids.shape == (1,)


# --- modules of the user ----------------------------------------------------------------------------------------------


def test_a_module_runs_in_eval_mode_and_is_left_as_it_was() -> None:
    module = Small(seed=1).train()
    module.norm.eval()  # frozen by its owner
    made = Module(module, SHAPE, 4)
    state = weights_of(module)
    assert_allclose(made(IMAGES), reference(Small(seed=1)), rtol=1e-4, atol=1e-5)
    assert (module.training, module.norm.training, module.drop.training) == (True, False, True)
    for name, value in weights_of(module).items():
        assert_array_equal(value, state[name])


def test_a_layer_behind_a_module() -> None:
    module, rng = Small(5, seed=1), np.random.default_rng(0)
    weight, bias = rng.normal(size=(4, 5)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    made = Module(module, SHAPE, 4, weight, bias)
    assert_allclose(made(IMAGES), reference(module) @ weight.T + bias, rtol=1e-4, atol=1e-4)
    again = embedding_of(*made.to_arrays(), module)
    assert_array_equal(again(IMAGES), made(IMAGES))
    assert again.fingerprint == made.fingerprint
    assert made.fingerprint != Module(module, SHAPE, 4, weight, bias + 1).fingerprint
    with raises(il.InputError, "weight", 4):
        Module(module, SHAPE, 4, weight[:3])


def with_module(tmp_path: Path, module: nn.Module) -> il.Index:
    index = il.Index(hand_made(), Module(module, SHAPE, 4))
    index.add(IMAGES, threads=1)
    index.save(tmp_path / "i")
    return index


def test_a_file_asks_for_the_module_it_was_made_with(tmp_path: Path) -> None:
    index = with_module(tmp_path, Small(seed=1))
    opened = il.open(tmp_path / "i", embedding=Small(seed=1))  # equal weights, another object
    assert_array_equal(opened.search(IMAGES, 5).ids, index.search(IMAGES, 5).ids)
    with raises(il.InputError, "(Small"):
        il.open(tmp_path / "i", embedding=Small(seed=2))
    with raises(il.InputError, "torch.nn.Module", "Linear"):
        il.open(tmp_path / "i", embedding=Linear(np.ones((4, 36))))


def test_without_its_module_an_index_searches_vectors(tmp_path: Path) -> None:
    index = with_module(tmp_path, Small(seed=1))
    opened = il.open(tmp_path / "i")
    opened.verify()
    assert index.embedding is not None
    z = index.embedding(IMAGES)
    assert_array_equal(opened.search(z, 5, embedded=True).ids, index.search(IMAGES, 5).ids)
    needs = r"raw inputs need the module that this was made with, Small \(fingerprint \w{12}\).*embedded=True"
    with pytest.raises(il.InputError, match=needs):
        opened.search(IMAGES)
    with pytest.raises(il.InputError, match=needs):
        opened.add(IMAGES)
    assert "not given" in repr(opened)
    assert opened.report().embedding_kind == "module Small"
    opened.add(z, embedded=True, threads=1)
    opened.save(tmp_path / "j")  # still known by the same fingerprint
    assert len(il.open(tmp_path / "j", embedding=Small(seed=1)).search(IMAGES[0], 60)) == 60


def test_a_module_that_was_trained_further_is_not_saved(tmp_path: Path) -> None:
    module = Small(seed=1)
    index = with_module(tmp_path, module)
    with torch.no_grad():
        module.out.bias[0] += 1e-3
    with raises(il.InputError, "Small"):
        index.save(tmp_path / "i")
    assert len(il.open(tmp_path / "i", embedding=Small(seed=1))) == 30


def test_fingerprints_of_modules() -> None:
    made = Module(Small(seed=1), SHAPE, 4)
    assert made.fingerprint == Module(Small(seed=1).train(), SHAPE, 4).fingerprint
    others = [Module(Small(seed=2), SHAPE, 4), Module(Small(seed=1), (6, 6), 4), Module(Small(5, seed=1), SHAPE, 5)]
    half = Small(seed=1).to(torch.bfloat16)
    others.append(Module(half, SHAPE, 4))
    assert len({made.fingerprint, *(o.fingerprint for o in others)}) == 5


class Odd(nn.Module):
    def __init__(self, out: Any) -> None:
        super().__init__()
        self.result = out

    def forward(self, x: Any) -> Any:
        return self.result(x)


@pytest.mark.parametrize(
    ("out", "facts"),
    [
        (lambda x: x.flatten(1)[:, :3], ("Odd", "[n, 4]", "(30, 3)")),
        (lambda x: x.flatten(1)[:1, :4], ("Odd", "[n, 4]", "(1, 4)")),
        (lambda x: x[:, 0, 0, 0], ("Odd", "[n, 4]", "(30,)")),
        (lambda x: (x,), ("Odd",)),
        (lambda x: x.flatten(1)[:, :4] / 0, ("x[0]",)),
    ],
)
def test_outputs_that_cannot_be(out: Any, facts: Facts) -> None:
    with raises(il.InputError, *facts):
        Module(Odd(out), SHAPE, 4)(IMAGES)


def test_what_is_no_module() -> None:
    for wrong in (Small, "lenet", lambda x: x):
        with raises(il.InputError, "torch.nn.Module"):
            Module(wrong, SHAPE, 4)


def test_pickles_hold_no_module() -> None:
    made = Module(Small(seed=1), SHAPE, 4)
    data = pickle.dumps(made)
    assert b"conv" not in data
    absent = pickle.loads(data)
    with pytest.raises(il.InputError, match="raw inputs need the module"):
        absent(IMAGES)
    assert_array_equal(absent.given(Small(seed=1))(IMAGES), made(IMAGES))


def test_a_model_with_a_module(tmp_path: Path) -> None:
    module = Small(seed=1)
    model = il.ICQ(3, threads=1)
    model.set_fitted(Fitted(hand_made(), np.zeros(0, np.int64), 30, Module(module, SHAPE, 4)))
    codes = model.encode(IMAGES)
    model.save(tmp_path / "m")
    assert_array_equal(il.ICQ.load(tmp_path / "m", embedding=Small(seed=1)).encode(IMAGES), codes)
    absent = il.ICQ.load(tmp_path / "m")
    with pytest.raises(il.InputError, match="raw inputs need the module"):
        absent.encode(IMAGES)
    assert isinstance(absent.embedding_, Module)
    absent.embedding_ = absent.embedding_.given(module)
    assert_array_equal(absent.encode(IMAGES), codes)
    assert_array_equal(pickle.loads(pickle.dumps(model)).encode(IMAGES), codes)  # a pickle of a model has it
    with pytest.raises(il.InputError, match="is not the one this was made with"):
        il.ICQ.load(tmp_path / "m", embedding=Small(seed=2))
    assert "module Small" in model.card()
    assert model.decode(codes).shape == (30, 4)
