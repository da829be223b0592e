"""Should a default of the recipe change? Fits on draws and training rows that no figure uses, and controls.

They were made later than the controls and the attempts, and have a folder of their own (``results/defaults``). Groups:

``gap``: half or three quarters of the books on psi, with 16 books on draws of Datasets 2 and 3.
``rates``: ``rate_embedding`` and ``scale``, the settings that tuning found better than the defaults on one data set, on
draws of the synthetic sets and of unseen classes.
``tuning``: the same on data sets that are not drawn, judged by training rows that were held out, as in the tuning; and
why psi has nearly all dimensions on text vectors: other axes, another prior, more dimensions.
``one-book``: one dense book with default settings, the control that the figure ``ablation`` lacks.
"""

from __future__ import annotations

import dataclasses

from .attempts import CLASSES
from .controls import DRAWS, GAP, GAPS, HELD_OUT, RATE, SCALE, SEEDS, Lines, runs_of_group
from .runs import Run, Settings
from .study import Study

RATES, ONE_BOOK = "rates", "one-book"
GROUPS = {
    GAP: "Shares of the books on psi with 16 books, on draws of Datasets 2 and 3 that no figure uses",
    RATES: "Settings that tuning found better, on draws that no figure uses",
    HELD_OUT: "Settings that tuning found better, and the split on text vectors, judged by held-out training rows",
    ONE_BOOK: "One dense book with default settings (test queries, as in `ablation`)",
}
DRAWN, KEPT = ("synthetic1", "synthetic2", "synthetic3"), ("mnist", "cifar10-gist", "text")
UNSEEN_SET = "mnist-unseen"
#: The line that others are compared with, by group and data set.
REFERENCES = {
    (GAP, "synthetic2"): "SQ+PQ",
    (GAP, "synthetic3"): "SQ+PQ",
    **{(RATES, data): "ICQ" for data in (*DRAWN, UNSEEN_SET)},
    **{(HELD_OUT, data): "ICQ" for data in KEPT},
    (ONE_BOOK, "synthetic2"): "one book",
}
N_BOOKS = 8  #: as in the tuning

_RATE: Settings = (("rate_embedding", 1e-3),)
_SCALE: Settings = (("scale", 4.0),)
#: The first line has the defaults.
SETTINGS: Lines = {"ICQ": ("ICQ", ()), f"ICQ, {RATE}": ("ICQ", _RATE)}
MORE: Lines = {f"ICQ, {SCALE}": ("ICQ", _SCALE)}
#: The same on text vectors with four books. The default dimension there is 64.
SPLITS: Lines = {
    "ICQ": ("ICQ", ()),
    "ICQ, axes not levelled": ("ICQ", (("level", False),)),
    "ICQ, pi2 = 0.2": ("ICQ", (("pi2", 0.2),)),
}
WIDER, WIDER_DIM = "ICQ, 128 dimensions", 128
_WIDER: Lines = {WIDER: ("ICQ", ())}
_SHARES: Lines = {label: line for label, line in GAPS.items() if "scale" not in label}


def runs() -> list[Run]:
    """Every fit, the most informative first."""
    return [
        *runs_of_group(GAP, _SHARES, ("synthetic2", "synthetic3"), (16,), DRAWS),
        *runs_of_group(RATES, SETTINGS, DRAWN, (N_BOOKS,), DRAWS),
        *runs_of_group(HELD_OUT, SETTINGS, KEPT, (N_BOOKS,), SEEDS),
        *runs_of_group(RATES, SETTINGS, (UNSEEN_SET,), (N_BOOKS,), CLASSES),
        *runs_of_group(HELD_OUT, SPLITS, ("text",), (4,), SEEDS),
        *(dataclasses.replace(run, dim=WIDER_DIM) for run in runs_of_group(HELD_OUT, _WIDER, ("text",), (4,), SEEDS)),
        *runs_of_group(ONE_BOOK, {"one book": ("SQ+CQ", ())}, ("synthetic2",), (1,), SEEDS),
        *runs_of_group(RATES, MORE, DRAWN, (N_BOOKS,), DRAWS),
        *runs_of_group(HELD_OUT, MORE, KEPT, (N_BOOKS,), SEEDS),
        *runs_of_group(RATES, MORE, (UNSEEN_SET,), (N_BOOKS,), CLASSES),
    ]


DEFAULTS = Study("defaults", GROUPS, runs, REFERENCES)
