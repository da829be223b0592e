"""Variances along the axes of the codebooks, with psi and the prior."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codebooks
from ..errors import InputError
from ..estimators.models import Model
from ..inputs.arrays import describe
from ..learn.prior import Prior
from .style import BLUE, GREY, INK, axes_or_new, kind_of, legend_below, tidy, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Below this share of its highest point a density is not drawn.
LEAST_DENSITY = 1e-4


def variance_spectrum(model: Any, prior: Prior | None = None, ax: Axes | None = None) -> Axes:
    """Draw the variances, largest first, with psi in colour, and the density of the fitted prior and its two modes.

    ``model`` is a fitted ``ICQ`` or ``SQ``, or its ``codebooks_``, which do not contain a prior: pass it. Codebooks
    without a split (``residual``, ``SQ``) have no psi; without a prior, no density is drawn.
    """
    codebooks = getattr(model, "codebooks_", None) if isinstance(model, Model) else model
    if not isinstance(codebooks, Codebooks):
        raise InputError(f"model must be a fitted model or Codebooks, got {kind_of(model)}")
    if prior is None and isinstance(model, Model):
        prior = model.prior_
    if prior is not None and not isinstance(prior, Prior):
        raise InputError(f"prior must be the prior_ of a model, got {describe(prior)}")
    variances = codebooks.variances.astype(np.float64)
    if not len(variances):
        raise InputError(f"these codebooks (layout {codebooks.layout!r}) do not contain the variances of their axes")
    psi = np.isin(np.arange(len(variances)), codebooks.crude_dims)
    if prior is not None and not psi.any():
        psi = prior.high(variances)
    axes = axes_or_new(ax, (7.2, 3.4))
    _bars(axes, variances, psi, "crude dimensions" if prior is None else r"$\psi$")
    if prior is not None:
        _density(axes, prior)
    return axes


def _bars(ax: Any, variances: NDArray[np.float64], psi: NDArray[np.bool_], psi_name: str) -> None:
    order = np.argsort(-variances, kind="stable")
    ranked, high = variances[order], psi[order]
    total, n = max(float(variances.sum()), 1e-300), len(variances)
    places = np.arange(1, n + 1)
    width = 0.8 if n <= 128 else 1.0  # gaps between more bars would not be visible
    drawn = []
    for part, colour, name in ((high, BLUE, psi_name), (~high, GREY, "the others")):
        if part.any():
            label = f"{name}: {part.sum()} of {n} dimensions, {ranked[part].sum() / total:.1%} of the variance"
            label = label if high.any() else f"{n} dimensions, no split"
            drawn.append(ax.bar(places[part], ranked[part], width, color=colour, label=label))
    ax.set_xlim(0.2, n + 0.8)
    whole_numbers(ax.xaxis)
    ax.set_ylim(0, float(ranked[0]) * 1.06 or 1.0)
    ax.set_xlabel("dimension, by variance")
    ax.set_ylabel("variance")
    tidy(ax, "y")
    legend_below(ax, drawn, columns=1)


def _density(ax: Any, prior: Prior) -> None:
    """Draw the density of the prior to the right, with the same axis of variances."""
    # Takes its space from these axes only, because a figure of the user may have others.
    divider = importlib.import_module("mpl_toolkits.axes_grid1").make_axes_locatable(ax)
    side = divider.append_axes("right", size="38%", pad=0.12, sharey=ax)
    # Fine near 0, because the low mode is often only a hundredth of the axis wide.
    top = ax.get_ylim()[1]
    values = np.concatenate([np.linspace(0, 0.02, 200, endpoint=False), np.linspace(0.02, 1, 600)]) * top
    whole, share = prior.density(values), prior.responsibilities(values)
    least = LEAST_DENSITY * float(whole.max())
    modes = (
        ((1 - share) * whole, GREY, rf"low mode, $\pi_1$ = {prior.pi1:.3g}"),
        (share * whole, BLUE, rf"high mode, $\pi_2$ = {prior.pi2:.3g}"),
    )
    drawn = [
        side.fill_betweenx(values, least, np.maximum(mode, least), color=colour, alpha=0.35, linewidth=0, label=label)
        for mode, colour, label in modes
    ]
    side.plot(np.maximum(whole, least), values, color=INK, linewidth=1)
    side.set_xscale("log")
    side.set_xlim(least, float(whole.max()) * 2)
    side.set_xlabel("density of the prior (log)")
    side.tick_params(labelleft=False)
    tidy(side, "y")
    legend_below(side, drawn, columns=1)
