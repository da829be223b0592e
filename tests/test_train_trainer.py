"""Joint learning: what it reaches, that it can be killed and resumed at any time, and data of every odd shape."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import interlace as il  # noqa: E402
from interlace import Recipe, storage  # noqa: E402
from interlace.quantizers import SQ  # noqa: E402
from interlace.train.losses.prior import PriorLoss  # noqa: E402
from interlace.train.passes import Passes  # noqa: E402
from interlace.train.trainer import Trainer  # noqa: E402
from joint_data import SHORT, icq, labelled  # noqa: E402

X, Y = labelled()

#: Four or six dimensions are few for two modes.
small = pytest.mark.filterwarnings("ignore::interlace.errors.PriorCollapsedWarning")


def module(width=6, seed=0):
    """A user's module: it draws from the global generator in training, and has buffers."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, width))


class Stop:
    """A progress callback that raises at its n-th call."""

    def __init__(self, at, error=SystemExit):
        self.at, self.error, self.said = at, error, []

    def __call__(self, what, done):
        self.said.append(what)
        if len(self.said) - 1 == self.at:
            raise self.error


def told(history):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history]


def same(a, b):
    """Bit for bit, NaN included."""
    assert a.codebooks_ == b.codebooks_
    assert a.embedding_.fingerprint == b.embedding_.fingerprint
    assert repr(told(a.history_)) == repr(told(b.history_))
    assert (a.prior_, a.fit_info_) == (b.prior_, b.fit_info_)
    assert_array_equal(a.codes_, b.codes_)
    return True


def caught(call):
    """What it returns, and the warnings by category."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = call()
    return result, [w.category for w in found]


# --- what it learns ---------------------------------------------------------------------------------------------------


@small
@pytest.mark.parametrize("optimize", ["joint", "alternate"])
@pytest.mark.parametrize("loss", ["contrastive", "cross_entropy", "regression", "triplet", "asymmetric_triplet"])
def test_losses_fall_and_rows_of_a_class_are_found(loss, optimize):
    # Fewer dimensions than the input has, or regression would have nothing to learn.
    recipe = {"warm_up": 3, "shape": 2, "epochs": 3}
    model = icq(recipe, loss=loss, optimize=optimize, dim=5).fit(X[:400], Y[:400])
    phases = {name: [row for row in model.history_ if row["phase"] == name] for name in ("warm-up", "shape", "learn")}
    assert [len(phase) for phase in phases.values()] == [3, 2, 3]
    assert [row["epoch"] for row in model.history_] == [*range(8)]
    assert phases["warm-up"][-1]["embedding"] < phases["warm-up"][0]["embedding"]
    parts = {"embedding", "quantization", "cross", "interleaving", "prior"}
    assert parts | {"epoch", "phase", "map", "seconds"} == set(phases["learn"][0])
    totals = [sum(row[part] for part in parts) for row in phases["learn"]]
    assert totals[-1] < totals[0]
    assert model.score(*labelled(200, seed=1)) > 0.75  # by chance 0.25; cross-entropy takes longer than the others


@small
def test_the_same_seed_gives_the_same_arrays():
    before = torch.random.get_rng_state()
    assert same(icq(embedding="mlp").fit(X, Y), icq(embedding="mlp").fit(X, Y))
    assert icq(seed=1).fit(X, Y).codebooks_ != icq().fit(X, Y).codebooks_
    assert same(icq(embedding=module()).fit(X, Y), icq(embedding=module()).fit(X, Y))
    assert_array_equal(torch.random.get_rng_state(), before)
    icq(seed=2**63 - 1).fit(X, Y)


@small
def test_a_users_module_is_left_as_it_was():
    mine = module()
    before = {name: value.clone() for name, value in mine.state_dict().items()}
    model = icq(embedding=mine)
    first = model.fit(X, Y).codebooks_
    assert all(torch.equal(before[name], value) for name, value in mine.state_dict().items())
    assert model.fit(X, Y).codebooks_ == first  # and a second fit starts from the same
    assert mine.training
    assert model.embedding_.module is not mine
    assert model.codebooks_.dim == 6

    class Alone(nn.Linear):
        def __deepcopy__(self, memo):
            raise RuntimeError("there is one of me")

    with pytest.raises(il.InputError, match="Alone cannot be copied by copy.deepcopy: there is one of me"):
        icq(embedding=Alone(12, 4)).fit(X, Y)


@small
def test_inputs_of_a_module_and_of_identity_are_not_standardised():
    seen = []

    class Spy(nn.Linear):
        def forward(self, x):
            seen.append(x.detach().numpy().copy())
            return super().forward(x)

    x = X * 5 + 3
    icq(embedding=Spy(12, 4)).fit(x, Y)
    assert max(np.abs(block).max() for block in seen) == np.abs(x).max()
    model = icq(embedding="identity").fit(x, Y)
    z = model.embed(x).astype(np.float64)
    ratio = ((z[1:] - z[:-1]) ** 2).sum(1) / ((x[1:] - x[:-1]).astype(np.float64) ** 2).sum(1)
    assert_allclose(ratio, ratio.mean(), rtol=1e-3)  # distances are those of the input


@pytest.mark.parametrize("theta", ["em", "gradient"])
def test_theta(theta, monkeypatch):
    fits = []
    monkeypatch.setattr(PriorLoss, "fit_em", lambda self, v, _fit=PriorLoss.fit_em: fits.append(1) or _fit(self, v))
    model = icq({"theta": theta, "shape": 3}).fit(X, Y)
    assert len(fits) == (3 + 1 + 2 if theta == "em" else 0)  # each epoch, and at the start of the books
    assert 0 < model.codebooks_.crude_dims.size < 12
    assert model.prior_.high(model.codebooks_.variances).any()
    assert model.score(X, Y) > 0.9


def test_early_stopping_and_the_best_epoch(monkeypatch):
    scores, weights = iter([0.5, 0.9, 0.2, 0.9, 0.3, 1.0]), []

    def scripted(self):
        weights.append(self.state.network.out.weight.detach().numpy().copy())
        return next(scores)

    monkeypatch.setattr(Trainer, "validate", scripted)
    model = icq({"epochs": 6, "patience": 3, "standardize": False}).fit(X, Y)
    assert [row.get("map") for row in model.history_] == [None, None, 0.5, 0.9, 0.2, 0.9, 0.3]
    assert_array_equal(model.embedding_.layers[0][0], weights[1])
    assert not np.array_equal(weights[1], weights[-1])
    assert model.fit_info_["validation_map"] == 0.9


def test_a_run_that_stopped_early_is_not_taken_further(tmp_path):
    still = {"rate_embedding": 0, "rate_books": 0, "rate_theta": 0, "epochs": 9, "patience": 2}
    first = icq(still, checkpoint=tmp_path / "c").fit(X, Y)
    assert len(first.history_) == 1 + 1 + 1 + 2
    assert same(first, icq(still, checkpoint=tmp_path / "c").fit(X, Y))


@pytest.mark.parametrize("phases", [*itertools.product([0, 1], repeat=3)])
def test_phases_may_be_left_out(phases):
    warm_up, shape, epochs = phases
    model = icq({"warm_up": warm_up, "shape": shape, "epochs": epochs}).fit(X, Y)
    assert [row["phase"] for row in model.history_] == ["warm-up"] * warm_up + ["shape"] * shape + ["learn"] * epochs
    assert model.score(X, Y) > 0.6


# --- killed and resumed -----------------------------------------------------------------------------------------------


@small
@pytest.mark.parametrize("embedding", ["mlp", "module"])
@pytest.mark.parametrize("loss", ["contrastive", "cross_entropy"])
@pytest.mark.parametrize("optimize", ["joint", "alternate"])
def test_a_killed_run_goes_on_as_if_nothing_had_been(optimize, loss, embedding, tmp_path):
    x, y = X[:300], Y[:300]

    def fit(**more):
        made = module() if embedding == "module" else embedding
        return icq(n_words=8, optimize=optimize, loss=loss, embedding=made, hidden=(), **more).fit(x, y)

    whole = fit()
    for at in range(6):  # after each of four epochs, while rows are coded, at the very end
        path, stop = tmp_path / f"{at}", Stop(at)
        with pytest.raises(SystemExit):
            fit(checkpoint=path, progress=stop)
        assert path.exists() == (at > 0)
        goes_on = Stop(-1)
        assert same(fit(checkpoint=path, progress=goes_on), whole)
        assert len(goes_on.said) == 6 - min(at, 4)  # epochs that were saved are not run again


@pytest.mark.parametrize(
    "settings", [{"n_books": 2}, {"cross": "byte"}, {"recipe": {"theta": "em"}}, {"validation": 0}]
)
def test_killed_over_and_over(settings, tmp_path):
    whole = icq(**settings).fit(X, Y)
    for _ in range(9):
        try:
            again = icq(**settings, checkpoint=tmp_path / "c", progress=Stop(1)).fit(X, Y)
        except SystemExit:
            continue
    with pytest.raises(SystemExit):
        icq(**settings, checkpoint=tmp_path / "c", progress=Stop(1)).fit(X, Y)
    again = icq(**settings, checkpoint=tmp_path / "c").fit(X, Y)
    assert same(again, whole)


@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_the_paper_recipe_resumes_where_its_prior_is_not_finite(scale, tmp_path):
    def fit(**more):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return icq(Recipe.paper(**SHORT, rate_theta=0.5), **more).fit(X * scale, Y)

    whole = fit()
    assert not all(math.isfinite(row.get("prior", 0)) for row in whole.history_)
    with pytest.raises(SystemExit):
        fit(checkpoint=tmp_path / "c", progress=Stop(3))
    assert same(fit(checkpoint=tmp_path / "c"), whole)


CHANGES = [
    ({"seed": 1}, "seed was 0, now 1"),
    ({"n_books": 5}, "n_books was 4, now 5"),
    ({"n_words": 8}, "n_words was 16, now 8"),
    ({"loss": "triplet"}, "loss was 'contrastive', now 'triplet'"),
    ({"optimize": "alternate"}, "optimize was"),
    ({"cross": "byte"}, "cross was 'constant', now 'byte'"),
    ({"recipe": {"gamma1": 0.25}}, "recipe.gamma1 was 0.005, now 0.25"),
    ({"dim": 5}, "dim was 6, now 5"),
    ({"hidden": (9,)}, r"weights.hidden.0.\w+ was \[8.*\], now \[9"),
    ({"hidden": (8, 8)}, r"weights.hidden.1.\w+ was None, now \[8"),
    ({"embedding": "linear", "hidden": ()}, "embedding was 'mlp', now 'linear'"),
    ({"validation": 0.2}, "rows was 540, now 480"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=lambda v: next(iter(v)) if isinstance(v, dict) else "")
def test_a_checkpoint_of_another_configuration(change, message, tmp_path):
    settings = {"embedding": "mlp", "hidden": (8,), "dim": 6, "checkpoint": tmp_path / "c"}
    whole = icq(**settings).fit(X, Y)
    held, quiet = (tmp_path / "c").read_bytes(), Stop(-1)
    with pytest.raises(il.InputError, match=f"is of another configuration: {message}.*remove the file"):
        icq(**settings | change, progress=quiet).fit(X, Y)
    assert not quiet.said
    assert (tmp_path / "c").read_bytes() == held
    assert same(icq(**settings).fit(X, Y), whole)  # nothing was lost


def test_a_checkpoint_of_other_rows(tmp_path):
    icq(checkpoint=tmp_path / "c").fit(X, Y)
    for x, y in ((X * 2, Y), (X, Y[::-1]), (X, Y + 1), (X[:599], Y[:599])):
        with pytest.raises(il.InputError, match="is of another configuration: (data|rows) was"):
            icq(checkpoint=tmp_path / "c").fit(x, y)
    model = SQ("cq", n_books=4, n_words=16, threads=1, recipe=Recipe(**SHORT), checkpoint=tmp_path / "c")
    with pytest.raises(il.InputError, match="kind was 'icq', now 'cq'"):
        model.fit(X, Y)
    with pytest.raises(il.InputError, match="is of another configuration: embedding was 'linear', now 'module'"):
        icq(checkpoint=tmp_path / "c", embedding=module(12)).fit(X, Y)


def test_files_that_are_no_checkpoint(tmp_path):
    model = icq().fit(X, Y)
    model.save(tmp_path / "model")
    (tmp_path / "text").write_text("my notes of last week, which nobody should write over")
    (tmp_path / "empty").write_bytes(b"")
    icq(checkpoint=tmp_path / "c").fit(X, Y)
    whole = (tmp_path / "c").read_bytes()
    (tmp_path / "short").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "flipped").write_bytes(whole[:-500] + bytes([whole[-500] ^ 1]) + whole[-499:])
    for name, error, message in [
        ("model", il.InputError, "holds 'model', not a checkpoint; give another path"),
        ("text", il.NotAnIndexError, "is not an interlace file"),
        ("empty", il.NotAnIndexError, "is empty"),
        ("short", il.DamagedFileError, "is truncated"),
        ("flipped", il.DamagedFileError, "does not match its checksum"),
    ]:
        before, quiet = (tmp_path / name).read_bytes(), Stop(-1)
        with pytest.raises(error, match=message):
            icq(checkpoint=tmp_path / name, progress=quiet).fit(X, Y)
        assert (tmp_path / name).read_bytes() == before
        assert not quiet.said


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "is a directory"),
        ("no/such/file", "there is no directory"),
        (5, "checkpoint must be the path of a file, or None, got 5"),
        (True, "checkpoint must be the path of a file"),
    ],
)
def test_a_checkpoint_that_cannot_be_written_is_told_at_once(path, message, tmp_path):
    quiet = Stop(-1)
    with pytest.raises(il.InputError, match=message):
        icq(checkpoint=tmp_path / path if isinstance(path, str) else path, progress=quiet).fit(X, Y)
    assert not quiet.said


def test_a_checkpoint_holds_no_rows(tmp_path):
    icq(checkpoint=str(tmp_path / "c"), optimize="alternate").fit(X, Y)
    file = storage.read(tmp_path / "c")
    assert not [name for name in file.names if len(X) * 0.9 <= file.array(name).size == file.array(name).shape[0]]
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1])
def test_ctrl_c_before_there_are_books(at):
    model = icq(progress=Stop(at, KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert not [name for name in vars(model) if name.endswith("_")]
    model.progress = False
    model.fit(X, Y)
    before, model.progress = dict(vars(model)), Stop(at, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:100], Y[:100] > 1)
    assert vars(model) | {"progress": False} == before
    assert model.score(X, Y) > 0.9


@pytest.mark.parametrize("optimize", ["joint", "alternate"])
def test_ctrl_c_while_all_is_learned_keeps_the_best(optimize, monkeypatch):
    scores, weights = iter([0.5, 0.9, 0.2]), []

    def scripted(self):
        weights.append(self.state.network.out.weight.detach().numpy().copy())
        return next(scores)

    monkeypatch.setattr(Trainer, "validate", scripted)
    model = icq({"epochs": 9, "standardize": False}, optimize=optimize, progress=Stop(4, KeyboardInterrupt))
    with pytest.warns(UserWarning, match="learning was interrupted; the best epoch so far is kept") as found:
        model.fit(X, Y)
    assert found[0].filename == __file__
    assert_array_equal(model.embedding_.layers[0][0], weights[1])
    assert len(model.history_) == model.fit_info_["epochs"] == 5
    assert model.score(X, Y) > 0.9


def test_ctrl_c_within_the_first_epoch_with_books(monkeypatch):
    calls = []

    def interrupted(self, z, st, labels, _loss=Passes._losses):
        calls.append(1)
        if len(calls) > 2 * 6 + 2:  # six batches an epoch
            raise KeyboardInterrupt
        return _loss(self, z, st, labels, None)

    monkeypatch.setattr(Passes, "_losses", lambda self, phase, z, labels, rows: interrupted(self, phase, z, labels))
    with pytest.warns(UserWarning, match="learning was interrupted"):
        model = icq().fit(X, Y)
    assert [row["phase"] for row in model.history_] == ["warm-up", "shape"]
    assert model.fit_info_["validation_map"] is None
    assert model.score(X, Y) > 0.9


# --- searching what was learned ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_books", [1, 2, 3, 13])
@pytest.mark.parametrize("cross", ["constant", "byte", "exact"])
def test_codes_are_searched_by_their_distances(cross, n_books):
    model = icq(cross=cross, n_books=n_books).fit(X, Y)
    queries, _ = labelled(40, seed=5)
    index, z = model.index(X), model.embed(queries).astype(np.float64)
    found = index.search(queries, len(X), margin=math.inf)
    decoded = model.decode(model.codes_).astype(np.float64)
    expected = np.take_along_axis(((z[:, None] - decoded) ** 2).sum(2), found.ids, 1)
    codebooks = model.codebooks_
    assert codebooks.n_bytes == n_books + (cross == "byte" and n_books > 2)
    assert_array_equal(np.sort(found.ids, 1), np.tile(np.arange(len(X)), (40, 1)))
    if cross == "exact" or n_books < 3:
        assert_allclose(found.distances, expected, rtol=2e-3, atol=1e-3)
    elif cross == "byte":  # rounds the cross terms; they were not made for those of rows held out
        assert_allclose(found.distances, expected, atol=0.03)
        assert np.abs(found.distances - expected).mean() < 1e-3
    else:  # with a constant, the order is what counts
        assert np.corrcoef(found.distances.ravel(), expected.ravel())[0, 1] > 0.99
    exact = index.search(queries, 10, margin="exact")
    assert_array_equal(exact.distances, found.distances[:, :10])
    assert codebooks.n_crude == (n_books if n_books < 3 else codebooks.n_crude)
    assert model.score(X, Y) > 0.9


@pytest.mark.parametrize(
    ("n_bytes", "cross", "n_books"), [(8, "auto", 8), (8, "byte", 7), (17, "byte", 16), (2, "byte", 2)]
)
def test_bytes_count_everything_that_is_stored(n_bytes, cross, n_books):
    model = icq(n_books=None, n_bytes=n_bytes, cross=cross).fit(X, Y)
    assert (model.codebooks_.n_bytes, model.codebooks_.n_books) == (n_bytes, n_books)
    assert model.codes_.shape == (600, n_bytes)
    product = SQ("pq", n_bytes=4, cross="byte", n_words=16, threads=1, recipe=Recipe(**SHORT)).fit(X, Y)
    assert (product.codebooks_.n_bytes, product.codebooks_.n_books) == (4, 4)


@pytest.mark.parametrize("n_books", [3, 8])
@pytest.mark.parametrize("recipe", [{}, {"groups": "hard"}, {"groups": "hard", "hard_end": False}])
def test_in_the_end_books_are_on_psi_or_off_it(recipe, n_books):
    model = icq(recipe, n_books=n_books).fit(X, Y)
    psi = {*model.codebooks_.crude_dims.tolist()}
    supports = [{*book.support.tolist()} for book in model.codebooks_.books]
    n_psi = max(1, n_books // 4)
    assert 0 < len(psi) < 12
    assert supports == [psi] * n_psi + [{*range(12)} - psi] * (n_books - n_psi)
    assert 1 <= model.codebooks_.n_crude <= n_psi
    assert_array_equal(model.encode(X), model.codes_)


def test_a_soft_end_leaves_words_where_they_are():
    model = icq({"hard_end": False}).fit(X, Y)
    assert all(len(book.support) == 12 for book in model.codebooks_.books)
    assert model.score(X, Y) > 0.9


@pytest.mark.parametrize("n_crude", [1, 3, 4])
def test_the_number_of_crude_books_may_be_given(n_crude):
    assert icq(n_crude=n_crude).fit(X, Y).codebooks_.n_crude == n_crude


# --- scales, and a prior that says nothing ----------------------------------------------------------------------------


def test_the_scale_of_the_data_changes_nothing():
    queries, labels = labelled(200, seed=1)
    scores = []
    for scale in (1.0, 0.01, 100.0):
        model = icq(recipe="default").fit(X * scale, Y)
        assert all(math.isfinite(v) for row in model.history_ for v in row.values() if isinstance(v, float))
        scores.append(model.score(queries * scale, labels, at=None))
    assert scores[0] > 0.95
    assert_allclose(scores, scores[0], atol=0.02)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("settings", [{}, {"theta": "em"}])
def test_the_method_as_written_warns_and_goes_on(scale, settings):
    model, found = caught(lambda: icq(Recipe.paper(**SHORT, **settings), n_books=8).fit(X * scale, Y))
    assert {*found} <= {il.PriorCollapsedWarning, RuntimeWarning}
    assert len(found) == len({*found})
    assert np.isfinite(model.embed(X * scale)).all()
    assert 0.2 < model.score(X * scale, Y) <= 1
    if scale == 0.01 and not settings:
        assert il.PriorCollapsedWarning in found


@pytest.mark.parametrize("embedding", ["linear", "identity"])
@pytest.mark.parametrize("recipe", [Recipe(**SHORT), Recipe(**SHORT, theta="em"), Recipe.paper(**SHORT)])
@pytest.mark.parametrize("kind", ["equal", "one", "two", "constant", "constant far out", "one of them varies"])
def test_psi_is_never_empty_or_everything_without_a_warning(kind, recipe, embedding):
    dim = {"one": 1, "two": 2}.get(kind, 6)
    x = np.random.default_rng(0).permuted(np.tile(np.linspace(-1, 1, 300)[:, None], (1, dim)), axis=0)
    if kind == "equal":
        x = np.tile(np.concatenate([np.eye(6), -np.eye(6)]), (25, 1))  # white, to the last bit
    x = {"constant": 0 * x, "constant far out": 0 * x + 1e6, "one of them varies": x * (np.arange(dim) == 2)}.get(
        kind, x
    )
    model, found = caught(lambda: icq(recipe, embedding=embedding).fit(x, Y[:300]))
    psi = model.codebooks_.crude_dims
    assert (0 < len(psi) < dim) or il.PriorCollapsedWarning in found
    assert {*found} <= {il.PriorCollapsedWarning, RuntimeWarning}
    assert np.isfinite(model.embed(x)).all()
    assert np.isfinite(model.embed(x + 1)).all()
    assert model.index(x).search(x[:3], 5, margin=math.inf).ids.shape == (3, 5)


def test_one_or_two_books_need_no_prior():
    for n_books in (1, 2):
        model, found = caught(lambda n=n_books: icq(n_books=n, dim=1).fit(X, Y))
        assert not found
        assert model.prior_ is None
        assert [row["phase"] for row in model.history_] == ["warm-up", "learn", "learn"]


# --- few rows, many books, odd labels ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 9, 100, 270])
def test_fewer_rows_than_words_is_told_once(n):
    x, y = X[:n], np.arange(n) % 2
    validation = 0 if n == 2 else 0.1
    model, found = caught(lambda: icq(n_words=256, n_books=8, validation=validation).fit(x, y))
    alone = n == 2  # each class has a single row, which is told too
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
    with pytest.raises(il.InputError, match="20 product books need as many dimensions, the embedding has dim=5"):
        SQ("pq", n_books=20, dim=5, progress=quiet).fit(X, Y)
    assert not quiet.said


def test_without_validation_the_last_epoch_is_kept():
    model = icq(validation=0).fit(X, Y)
    assert [row.get("map", "no") for row in model.history_] == ["no", "no", None, None]
    assert model.fit_info_["validation_map"] is None
    assert "ops" not in model.fit_info_
    assert_array_equal(model._sample, np.arange(600))
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
    with pytest.raises(il.InputError, match="a dataset has its labels in its items; pass it without y"):
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
    monkeypatch.setattr(Passes, "_losses", lambda self, phase, z, labels, rows: {"embedding": 1.0 + 0.0 * z.sum()})
    dataset = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    model = icq(validation=0).fit(DataLoader(dataset, batch_size=70, drop_last=True))
    assert [row["embedding"] for row in model.history_] == [1.0] * 4  # though 40 rows were left out
    assert_allclose(done[:8], np.arange(8) * 70 / 600)
    assert len(done) == 4 * 8


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


# --- bad input --------------------------------------------------------------------------------------------------------

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


BAD = {
    "labels of the wrong length": ({}, X, Y[:-1], "y has 599 labels, x has 600 rows"),
    "one class": ({}, X, np.zeros(600, int), "labels must name at least two classes, all are 0"),
    "float labels": ({}, X, Y + 0.5, "labels must be integers or strings, got dtype float64"),
    "NaN labels": ({}, X, np.where(Y == 2, np.nan, Y), r"labels must be integers or strings, y\[\d+\] is nan"),
    "one-hot labels": ({}, X, np.eye(4)[Y], "one-hot; pass y.argmax"),
    "no row to hold out": ({}, X[:3], np.arange(3), "no row can be held out for validation"),
    "NaN": ({}, HOLE, Y, r"\[123, 4\] is nan"),
    "NaN in the whole": ({}, X * np.nan, Y, "is nan"),
    "no rows": ({}, X[:0], Y[:0], "0 sample"),
    "flat images of the wrong size": ({"embedding": "lenet"}, X, Y, r"lenet takes images \(channels, height, width\)"),
    "images of the wrong shape": ({"embedding": "alexnet"}, IMAGES, Y[:20], "sides must be divisible by 8"),
    "images with channels last": ({}, IMAGES.transpose(0, 2, 3, 1), Y[:20], "channels last"),
    "images without channels": ({}, IMAGES[:, 0], Y[:20], r"pass x\[:, None\]"),
    "a module for other inputs": (
        {"embedding": nn.Linear(9, 4)},
        X,
        Y,
        r"does not take a float32 batch of shape \(2, 12\)",
    ),
    "a module with another dim": ({"embedding": nn.Linear(12, 4), "dim": 5}, X, Y, r"must give \[2, 5\]"),
    "a module that gives images": ({"embedding": Returns(lambda z: z[:, None])}, X, Y, r"must give \[2, dim\]"),
    "a module that gives a sum": ({"embedding": Returns(lambda z: z.sum())}, X, Y, r"must give \[2, dim\]"),
    "a module that gives two": ({"embedding": Returns(lambda z: (z, z))}, X, Y, "must give one tensor"),
    "a module that gives NaN": ({"embedding": Returns(lambda z: z / 0 * 0)}, X, Y, "embedding of row 0 is not finite"),
    "the class of a module": ({"embedding": nn.Linear}, X, Y, "embedding must be one of .* or a torch module"),
    "an unknown embedding": ({"embedding": "resnet"}, X, Y, "embedding must be one of identity, linear, mlp"),
    "identity of another dim": ({"embedding": "identity", "dim": 5}, X, Y, "identity embedding has the input's 12"),
    "hidden layers of linear": ({"hidden": (5,)}, X, Y, "hidden layers belong to the mlp"),
    "hidden as a number": ({"hidden": 5}, X, Y, r"hidden must be the widths of the hidden layers"),
    "hidden of nothing": ({"embedding": "mlp", "hidden": (0,)}, X, Y, "hidden must be a positive integer"),
    "too many books": ({"n_books": 65}, X, Y, "there must be 1 to 64 books, got 65"),
    "no books": ({"n_books": 0}, X, Y, "there must be 1 to 64 books, got 0"),
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
    "an unknown device": ({"device": "abacus"}, X, Y, "device must be 'auto' or one that torch has here"),
    "a negative seed": ({"seed": -1}, X, Y, "seed must be"),
    "dim of nothing": ({"dim": 0}, X, Y, "dim must be a positive integer"),
    "a layout": ({"layout": "hybrid"}, X, Y, "with labels layout is 'subspace', given by the method"),
    "a rotation": ({"rotation": "none"}, X, Y, "with labels rotation is 'principal'"),
    "a metric": ({"metric": "cosine"}, X, Y, "with labels metric is 'l2'"),
}


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
    with pytest.raises(il.InputError, match="labels are missing: pass y, an integer or a string for each of the 600"):
        SQ(progress=quiet).fit(X)
    with pytest.raises(il.InputError, match="items of the dataset must be pairs"):
        icq(progress=quiet).fit(TensorDataset(torch.from_numpy(X)))
    assert not quiet.said
