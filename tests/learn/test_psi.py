"""The split of the subspace layout: psi by the prior, and what the codebooks tell of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import interlace as il
from interlace.learn.axes import principal_axes
from interlace.learn.prior import split_dimensions


def spectrum(kind: str, n: int = 2500, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind == "digits":
        x = pytest.importorskip("sklearn.datasets").load_digits().data
        return x[rng.permutation(len(x))[:1500]].astype(np.float32)
    spread = {"steps": np.repeat([4.0, 0.5], [6, 18]), "falling": 3 * 0.85 ** np.arange(24)}[kind]
    return (rng.normal(size=(n, 24)) * spread).astype(np.float32)


def psi_of(x: np.ndarray, **settings: Any) -> int:
    """Size of psi: with additive books the first one spans just it."""
    model = il.ICQ(4, layout="subspace", cross="exact", n_words=16, iterations=0, threads=1, **settings).fit(x)
    assert model.prior_ is not None
    mask = model.prior_.high(model.codebooks_.variances.astype(np.float64))
    support = model.codebooks_.books[0].support
    np.testing.assert_array_equal(np.flatnonzero(mask), support)
    return len(support)


@pytest.mark.parametrize("kind", ["digits", "steps", "falling"])
def test_psi_is_the_same_over_samples_and_seeds(kind: str) -> None:
    sizes = [psi_of(spectrum(kind, seed=seed), seed=seed) for seed in range(5)]
    assert max(sizes) - min(sizes) <= 1
    if kind == "steps":
        assert sizes == [6] * 5


@pytest.mark.parametrize("kind", ["digits", "steps", "falling"])
def test_em_and_gradient_split_alike(kind: str) -> None:
    x = spectrum(kind)
    em, gradient = (
        il.ICQ(6, layout="subspace", prior=prior, n_words=32, threads=1).fit(x) for prior in ("em", "gradient")
    )
    assert [b.support.tolist() for b in em.codebooks_.books] == [b.support.tolist() for b in gradient.codebooks_.books]
    np.testing.assert_array_equal(em.encode(x), gradient.encode(x))


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual"])
@pytest.mark.parametrize("power", [-20, -10, 10, 20])
def test_a_power_of_two_changes_no_code(layout: str, power: int) -> None:
    x = spectrum("falling", 600)
    settings: dict[str, Any] = {"n_bytes": 4, "layout": layout, "iterations": 2, "threads": 1}
    one = il.ICQ(**settings).fit(x)
    other = il.ICQ(**settings).fit(x * np.float32(2.0**power))
    np.testing.assert_array_equal(one.encode(x), other.encode(x * np.float32(2.0**power)))
    np.testing.assert_array_equal(
        one.transform(x) * np.float32(2.0**power), other.transform(x * np.float32(2.0**power))
    )


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_psi_does_not_depend_on_the_scale(scale: float) -> None:
    x = spectrum("falling")
    assert psi_of(x * np.float32(scale)) == psi_of(x)


@pytest.mark.parametrize("layout", ["subspace", "hybrid"])
@pytest.mark.parametrize("rotation", ["auto", "none"])
@pytest.mark.parametrize("cross", ["auto", "exact"])
def test_what_codebooks_tell_of_the_split(layout: str, rotation: str, cross: str) -> None:
    x = spectrum("falling", 1500)[:, np.random.default_rng(1).permutation(24)]
    codebooks = il.ICQ(6, layout=layout, rotation=rotation, cross=cross, n_words=32, iterations=1).fit(x).codebooks_
    cells = layout == "hybrid"
    crude = codebooks.books[cells : codebooks.n_crude]
    assert codebooks.crude_dims.tolist() == sorted({int(d) for book in crude for d in book.support})
    assert len(codebooks.variances) == codebooks.dim
    unread = np.delete(codebooks.variances.astype(np.float64), codebooks.crude_dims).sum()
    assert codebooks.residual_variance == pytest.approx(unread, rel=1e-5)
    if not cells:  # variances of the data along the axes of the books
        y = x - x.mean(0)
        y = y if codebooks.rotation is None else y @ codebooks.rotation
        np.testing.assert_allclose(codebooks.variances, y.var(0), rtol=1e-3)
        psi, _ = split_dimensions(codebooks.variances)
        if cross == "exact":
            assert codebooks.books[0].support.tolist() == np.flatnonzero(psi).tolist()


def test_residual_tells_the_variances_of_the_dimensions() -> None:
    x = spectrum("falling", 800)
    codebooks = il.ICQ(4, layout="residual", n_crude=2, n_words=32, iterations=1).fit(x).codebooks_
    np.testing.assert_allclose(codebooks.variances, x.var(0), rtol=1e-3)
    energies = [float((b.words**2).sum(1).mean()) for b in codebooks.books]
    assert codebooks.residual_variance > sum(energies[2:])  # and the spread of the cross terms
    stored = il.ICQ(4, layout="residual", cross="byte", n_crude=2, n_words=32, iterations=1).fit(x).codebooks_
    energies = [float((b.words**2).sum(1).mean()) for b in stored.books]
    assert stored.residual_variance == pytest.approx(sum(energies[2:]), rel=1e-4)


def test_the_number_of_crude_books_is_what_was_asked_for() -> None:
    x = spectrum("steps", 800)
    for layout in ("subspace", "hybrid", "residual"):
        for n_crude in (1, 3, 5):
            codebooks = il.ICQ(6, layout=layout, n_crude=n_crude, n_words=16, iterations=1).fit(x).codebooks_
            assert codebooks.n_crude == n_crude
    asked = il.ICQ(6, layout="subspace", n_crude=3, n_words=16).fit(x).codebooks_
    assert asked.crude_dims.tolist() == list(range(6))  # then psi has just these books


def test_a_learned_rotation_is_one_and_codes_better() -> None:
    rng = np.random.default_rng(3)
    x = (rng.laplace(size=(3000, 12)) @ rng.normal(size=(12, 12))).astype(np.float32)
    fixed, turned = (
        il.ICQ(4, layout="subspace", rotation=r, n_words=64, threads=1).fit(x) for r in ("principal", "learned")
    )
    rotation = turned.codebooks_.rotation
    assert rotation is not None
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(12), atol=1e-4)
    errors = [((m.transform(x) - x) ** 2).sum(1).mean() for m in (fixed, turned)]
    assert errors[1] < errors[0]


def test_principal_axes_of_few_rows() -> None:
    x = spectrum("falling", 9) + np.float32(10)
    axes, variances = principal_axes(x)
    np.testing.assert_allclose(axes.T @ axes, np.eye(24), atol=1e-6)
    expected = np.linalg.eigvalsh(np.cov(x.T.astype(float), bias=True))[::-1]
    np.testing.assert_allclose(variances, expected, atol=1e-9)
    np.testing.assert_allclose(((x - x.mean(0)) @ axes).var(0), expected, atol=1e-4)


def test_principal_axes_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x = spectrum("falling", 1000) + np.float32(100)
    axes, variances = principal_axes(x)
    monkeypatch.setattr("interlace.learn.axes.BLOCK", 64)
    again, same = principal_axes(x)
    np.testing.assert_allclose(variances, np.linalg.eigvalsh(np.cov(x.T.astype(float), bias=True))[::-1], rtol=1e-9)
    np.testing.assert_allclose(same, variances, rtol=1e-9)
    np.testing.assert_allclose(again, axes, atol=1e-5)
