"""The file of a run: others are refused, more epochs are added, a directory has one for each run."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

torch = pytest.importorskip("torch", reason="the train extra is not installed")


import interlace as il  # noqa: E402
from interlace import Recipe  # noqa: E402
from interlace.files import storage  # noqa: E402
from interlace.quantizers import SQ  # noqa: E402
from joint_data import SHORT, Stop, icq, labelled, module, same  # noqa: E402
from raising import raises  # noqa: E402

X, Y = labelled()

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
    with raises(il.InputError, "kind", "'icq'", "'cq'"):
        model.fit(X, Y)
    with raises(il.InputError, "'linear'", "'module'"):
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
    for name, error, facts in [
        ("model", il.InputError, ("'model'",)),
        ("text", il.NotAnIndexError, ("is not an interlace file",)),
        ("empty", il.NotAnIndexError, ("is empty",)),
        ("short", il.DamagedFileError, ("is truncated",)),
        ("flipped", il.DamagedFileError, ("does not match its checksum",)),
    ]:
        before, quiet = (tmp_path / name).read_bytes(), Stop(-1)
        with raises(error, *facts):
            icq(checkpoint=tmp_path / name, progress=quiet).fit(X, Y)
        assert (tmp_path / name).read_bytes() == before
        assert not quiet.said


@pytest.mark.parametrize(
    ("path", "facts"),
    [
        ("no/such/file", ("no/such",)),
        (5, ("checkpoint", "None", 5)),
        (True, ("checkpoint", "file")),
    ],
)
def test_a_checkpoint_that_cannot_be_written_is_told_at_once(path, facts, tmp_path):
    quiet = Stop(-1)
    with raises(il.InputError, *facts):
        icq(checkpoint=tmp_path / path if isinstance(path, str) else path, progress=quiet).fit(X, Y)
    assert not quiet.said


def test_a_checkpoint_holds_no_rows(tmp_path):
    icq(checkpoint=str(tmp_path / "c"), optimize="alternate").fit(X, Y)
    file = storage.read(tmp_path / "c")
    assert not [name for name in file.names if len(X) * 0.9 <= file.array(name).size == file.array(name).shape[0]]
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize("change", ["no epoch", "another shape", "no array", "state of text", "scalars"])
def test_a_checkpoint_whose_checksums_are_right_but_that_makes_no_sense(change, tmp_path):
    icq({"epochs": 1}, checkpoint=tmp_path / "c").fit(X, Y)
    file = storage.read(tmp_path / "c")
    arrays, meta = {name: np.array(file.array(name)) for name in file.names}, file.meta
    first = next(name for name in arrays if name.startswith("network."))
    if change == "no epoch":
        del meta["state"]["epoch"]
    elif change == "another shape":
        arrays[first] = arrays[first][:0]
    elif change == "no array":
        del arrays[first]
    elif change == "state of text":
        meta["state"] = "x"
    else:
        meta["scalars"] = [first]
    storage.write(tmp_path / "c", arrays, meta)
    with pytest.raises(il.DamagedFileError, match="damaged"):
        icq({"epochs": 2}, checkpoint=tmp_path / "c").fit(X, Y)


# --- more epochs ------------------------------------------------------------------------------------------------------


def test_a_finished_run_goes_on_for_more_epochs(tmp_path):
    first = icq({"epochs": 2}, checkpoint=tmp_path / "c").fit(X, Y)
    said = Stop(-1)
    more = icq({"epochs": 5, "patience": 3}, checkpoint=tmp_path / "c", progress=said).fit(X, Y)
    assert [row["phase"] for row in more.history_] == ["warm-up", "shape"] + ["learn"] * 5
    assert more.history_[:4] == first.history_  # those epochs are not learned again, their seconds tell
    assert len(said.said) == 3 + 2
    assert more.fit_info_["recipe"]["epochs"] == 5
    assert more.fit_info_["validation_map"] >= first.fit_info_["validation_map"]
    assert same(icq({"epochs": 5, "patience": 3}, checkpoint=tmp_path / "c").fit(X, Y), more)
    fewer = icq({"epochs": 1}, checkpoint=tmp_path / "c").fit(X, Y)  # what is there is there
    assert fewer.history_ == more.history_
    assert fewer.codebooks_ == more.codebooks_


def test_a_run_without_books_goes_on_to_them(tmp_path):
    icq({"epochs": 0}, checkpoint=tmp_path / "c").fit(X, Y)
    assert same(icq({"epochs": 2}, checkpoint=tmp_path / "c").fit(X, Y), icq({"epochs": 2}).fit(X, Y))


def test_more_patience_takes_a_stopped_run_further(tmp_path):
    still = {"rate_embedding": 0, "rate_books": 0, "rate_theta": 0, "epochs": 9, "patience": 1}
    assert len(icq(still, checkpoint=tmp_path / "c").fit(X, Y).history_) == 1 + 1 + 1 + 1
    assert len(icq(still | {"patience": 4}, checkpoint=tmp_path / "c").fit(X, Y).history_) == 1 + 1 + 1 + 4


# --- a directory ------------------------------------------------------------------------------------------------------


def test_a_directory_has_a_file_for_each_configuration_and_each_set_of_rows(tmp_path):
    def fit(x=X, y=Y, progress=False, **settings):
        return icq(checkpoint=tmp_path, progress=progress, **settings).fit(x, y)

    others = [{}, {"seed": 1}, {"recipe": {"epochs": 1}}, {"x": X[:500], "y": Y[:500]}, {"x": X * 2}]
    whole = [fit(**other) for other in others]
    names = {path.name for path in tmp_path.iterdir()}
    assert len(names) == 5
    assert all(name.endswith(".ckpt") for name in names)
    for other, model in zip(others, whole, strict=True):
        said = Stop(-1)
        assert same(fit(**other, progress=said), model)
        assert len(said.said) == 2  # all epochs were there: only coding is left
    assert {path.name for path in tmp_path.iterdir()} == names
    with pytest.raises(SystemExit):
        fit(seed=2, progress=Stop(2))
    assert same(fit(seed=2), icq(seed=2).fit(X, Y))


def test_cross_validation_with_checkpoints(tmp_path):
    selection = pytest.importorskip("sklearn.model_selection", reason="scikit-learn is not installed")
    alone = selection.cross_val_score(icq(), X, Y, cv=2, error_score="raise")
    for _ in range(2):
        folds = selection.cross_val_score(icq(checkpoint=tmp_path), X, Y, cv=2, error_score="raise")
        assert_array_equal(folds, alone)
    with pytest.raises(il.InputError, match="give a directory.*a fold of a cross-validation"):
        selection.cross_val_score(icq(checkpoint=tmp_path / "one"), X, Y, cv=2, error_score="raise")
