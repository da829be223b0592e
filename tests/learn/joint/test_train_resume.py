"""A run that is killed goes on as if nothing had been."""

from __future__ import annotations

import math
import warnings

import pytest

torch = pytest.importorskip("torch", reason="the train extra is not installed")


from interlace import Recipe  # noqa: E402
from joint_data import SHORT, Stop, icq, labelled, module, same, small  # noqa: E402

X, Y = labelled()


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
def test_the_paper_recipe_resumes_at_any_scale(scale, tmp_path):
    def fit(**more):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return icq(Recipe.paper(**SHORT, rate_theta=0.5), **more).fit(X * scale, Y)

    whole = fit()
    assert all(math.isfinite(row.get("prior", 0)) for row in whole.history_)
    with pytest.raises(SystemExit):
        fit(checkpoint=tmp_path / "c", progress=Stop(3))
    assert same(fit(checkpoint=tmp_path / "c"), whole)
