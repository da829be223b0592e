"""The figures of the paper as data, and the list of runs of each figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import InputError
from ..estimators.baselines.registry import method, methods
from .runs import Run, Series
from .sizes import Size

#: Baselines without codes: a search by the predictions of a classifier, by predicted classes of the queries and known
#: classes of the rows, and a random ranking.
TOPLINE, KNOWN, RANDOM = "class topline", "known labels", "random codes"
BASELINES = (TOPLINE, KNOWN, RANDOM)


@dataclass(frozen=True)
class FigurePart:
    """All combinations of series, data sets, numbers of books and seeds."""

    data: tuple[str, ...]
    series: tuple[Series, ...]
    books: tuple[int, ...] | None = None  #: None: those of the size of the run
    dim: int | None = None
    seeds: int | None = None  #: at most
    open: bool = True  #: registered methods that no figure names are added
    sweep: bool = False  #: series are values of one setting; smaller sizes run only some of them
    control: bool = False  #: numbers of books are not limited to those of the size


@dataclass(frozen=True)
class Figure:
    """One figure."""

    name: str
    title: str
    drawn: str  #: function of ``drawing`` that draws it
    parts: tuple[FigurePart, ...]
    seeds: int = 3

    @property
    def lines(self) -> list[str]:
        """Labels of all series, in order."""
        return list(dict.fromkeys(series.label for part in self.parts for series in part.series))


def _series(name: str, label: str = "", **settings: Any) -> Series:
    return Series(label=label or name, method=name, **settings)


def _icq(label: str, recipe: str = "default", **changes: Any) -> Series:
    return _series("ICQ", label, recipe=recipe, changes=tuple(changes.items()))


def _baselines(*data: str) -> FigurePart:
    names = (name for name in BASELINES if name != KNOWN or not any(map(_is_unseen, data)))
    # Other sets are the same for every seed, and so is a classifier on them.
    drawn = all(name.startswith("synthetic") or _is_unseen(name) for name in data)
    return FigurePart(data, tuple(map(_series, names)), books=(0,), open=False, seeds=None if drawn else 1)


def _controls(*data: str) -> FigurePart:
    """One dense book: a ranking by 256 words."""
    return FigurePart(data, (_series("SQ+CQ", "one book"),), books=(1,), open=False, control=True)


def _is_unseen(data: str) -> bool:
    """Whether a classifier of the training rows knows none of its classes."""
    return data.endswith("-unseen")


def _sweep(name: str, *values: Any) -> FigurePart:
    """Other values of one setting, on Dataset 2 with 8 books; the series ICQ has the default value."""
    made = (
        _icq(f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}", **{name: value})
        for value in values
    )
    return FigurePart(("synthetic2",), tuple(made), books=(8,), open=False, sweep=True)


def _layouts(*layouts: str) -> tuple[Series, ...]:
    return tuple(_series("ICQ", f"ICQ {layout}", labels=False, settings=(("layout", layout),)) for layout in layouts)


ICQ, SQ_CQ, SQ_PQ = _series("ICQ"), _series("SQ+CQ"), _series("SQ+PQ")
EXACT_CROSS = _series("SQ+CQ", "SQ+CQ exact", settings=(("cross", "exact"),))
UNSEEN = ("mnist-unseen", "cifar10-unseen")
DATASETS = ("synthetic1", "synthetic2", "synthetic3")
#: Recipes of end-to-end training.
_ALEXNET = (("warm_up", 5), ("shape", 1), ("epochs", 6))
_LENET = (("warm_up", 5), ("shape", 2), ("epochs", 6))
#: Recipe of heads on features of a trained network.
HEAD = (("warm_up", 2), ("shape", 1), ("epochs", 4))
#: Best values on held-out rows (experiments/heads.py); the defaults are best for PQN. On wide features all dense books
#: need a smaller weight of the cross terms, and with the loss of PQN also of the error.
_QUICK = (*HEAD, ("rate_embedding", 1e-3), ("scale", 4.0))
_ICQ_HEAD = (*_QUICK, ("rate_books", 0.03), ("hard_after", 1), ("cross", 3.0))
_NETWORKS = (
    _series("ICQ", changes=_ICQ_HEAD),
    _series("PQN", changes=HEAD),
    _series("PQN+CQ", changes=(*HEAD, ("error", 0.005), ("cross", 0.75))),
)
#: ICQ with the loss of PQN.
_SAME_LOSS = (_series("ICQ", "ICQ (PQN's loss)", loss="soft_triplet", changes=HEAD),)
#: For comparison at one number of books: the books of SQ with the same loss, embedding and learning rates.
_BESIDE = (
    _series("SQ+CQ", changes=(*_QUICK, ("cross", 3.0))),
    _series("SQ+PQ", changes=(*_QUICK, ("rate_books", 0.03))),
)

#: Deep methods on the features of one network, with the recipe of heads.
_DEEP_HEADS = (
    _series("ICQ", "ICQ (CNN)", changes=_ICQ_HEAD),
    _series("DQN", "DQN (CNN)", changes=HEAD),
    _series("DPQ", "DPQ (CNN)", changes=HEAD),
)
#: Recipe of end-to-end training on the network of PQN's paper: of all images, and of the 5,000 of the usual protocols.
_END_TO_END = (("warm_up", 20), ("shape", 2), ("epochs", 10), ("augment", "crops"))
#: Dimensions of the embedding in that network.
END_TO_END_DIM = 500
FEW_IMAGES = (("warm_up", 60), ("shape", 4), ("epochs", 20), ("augment", "crops"), ("batch_size", 100))


def _deep(changes: tuple[tuple[str, Any], ...]) -> tuple[Series, ...]:
    names = ("ICQ", "DQN", "DPQ", "PQN")
    return tuple(_series(name, f"{name} (CNN)", embedding="cnn3", changes=changes) for name in names)


_TRIPLETS = _series(
    "PQN", "PQN (400K triplets)", embedding="cnn3", changes=(*_END_TO_END, ("triplets", 400_000), ("batch_size", 600))
)
_WITHOUT_LABELS = _series("SQ", "SQ (codes without labels)", settings=(("codes", "rows"),))

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(
            "synthetic-pq",
            "ICQ and SQ+PQ on Datasets 1-3",
            "against_ops",
            (FigurePart(DATASETS, (ICQ, SQ_PQ, SQ_CQ)), _controls(*DATASETS), _baselines(*DATASETS)),
            seeds=5,
        ),
        Figure(
            "synthetic-cq",
            "ICQ and SQ+CQ on Datasets 1-3",
            "against_ops",
            (
                FigurePart(DATASETS, (ICQ, SQ_CQ)),
                # SQ+CQ is behind with many books because it uses one constant for all cross terms.
                FigurePart(DATASETS, (EXACT_CROSS,), books=(16,), open=False, seeds=3),
                _controls(*DATASETS),
                _baselines(*DATASETS),
            ),
            seeds=5,
        ),
        Figure(
            "real-sq",
            "ICQ and SQ+CQ on MNIST and CIFAR-10 (GIST)",
            "against_books",
            (
                FigurePart(("mnist", "cifar10-gist"), (ICQ, SQ_CQ)),
                _controls("mnist", "cifar10-gist"),
                _baselines("mnist", "cifar10-gist"),
            ),
            seeds=5,
        ),
        Figure(
            "effective",
            "MAP against effective code length on CIFAR-10",
            "against_length",
            (
                FigurePart(("cifar10-gist",), (ICQ, SQ_CQ, _series("DQN"), _series("DPQ"))),
                # As in the paper, linear ICQ is compared with deep methods; and with itself on their network.
                FigurePart(("cifar10-cnn3",), _DEEP_HEADS, dim=500, open=False, seeds=3),
                _controls("cifar10-gist"),
                _baselines("cifar10-gist", "cifar10-cnn3"),
            ),
            seeds=5,
        ),
        Figure(
            "pqn",
            "ICQ and PQN with a CNN as embedding",
            "against_books",
            (
                FigurePart(("mnist-lenet",), _NETWORKS, dim=512),
                FigurePart(("cifar10-alexnet",), _NETWORKS, dim=1024),
                FigurePart(("cifar10-alexnet",), _SAME_LOSS, books=(8,), dim=1024, open=False),
                FigurePart(("mnist-lenet",), _BESIDE, books=(8,), dim=512, open=False),
                FigurePart(("cifar10-alexnet",), _BESIDE, books=(8,), dim=1024, open=False),
                _baselines("mnist-lenet", "cifar10-alexnet"),
                FigurePart(
                    ("mnist-images",),
                    (_series("ICQ", "ICQ end to end", embedding="lenet", changes=_LENET),),
                    books=(8,),
                    dim=512,
                    open=False,
                    seeds=1,
                ),
                FigurePart(
                    ("cifar10-images",),
                    (_series("ICQ", "ICQ end to end", embedding="alexnet", changes=_ALEXNET),),
                    books=(8,),
                    dim=1024,
                    open=False,
                    seeds=1,
                ),
            ),
            seeds=3,
        ),
        Figure(
            "unseen",
            "ICQ and SQ+CQ on classes that were not in the training data",
            "against_books",
            (
                FigurePart(("mnist-unseen", "cifar10-unseen"), (ICQ, SQ_CQ)),
                _controls("mnist-unseen", "cifar10-unseen"),
                _baselines("mnist-unseen", "cifar10-unseen"),
            ),
            seeds=10,
        ),
        Figure(
            "published",
            "Baselines in the protocols of their own papers",
            "against_reported",
            (
                FigurePart(("mnist", "mnist-kernel"), (_series("SQ"), _WITHOUT_LABELS), books=(4, 8), open=False),
                _baselines("mnist", "mnist-kernel"),
                FigurePart(
                    ("cifar10-images",),
                    (*_deep(_END_TO_END), _TRIPLETS),
                    (6,),
                    END_TO_END_DIM,
                    1,
                    open=False,
                    control=True,
                ),
                FigurePart(
                    ("cifar10-54k", "cifar10-59k"), _deep(FEW_IMAGES), (6,), END_TO_END_DIM, 1, open=False, control=True
                ),
            ),
            seeds=3,
        ),
        Figure(
            "text",
            "Text vectors of 58 classes: codes learned with and without labels",
            "against_books",
            (
                FigurePart(("text",), (ICQ, SQ_CQ), books=(4, 8, 16)),
                FigurePart(
                    ("text",),
                    tuple(_series(name, labels=False) for name in ("PQ", "OPQ")) + _layouts("residual"),
                    books=(4, 8, 16),
                    open=False,
                ),
                _controls("text"),
                _baselines("text"),
            ),
            seeds=3,
        ),
        Figure(
            "ablation",
            "What each part of ICQ does",
            "variants",
            (
                FigurePart(
                    DATASETS,
                    (
                        ICQ,
                        _icq("as written", "paper"),
                        _icq("as written, standardised", "paper", standardize=True, raw_variances=False),
                        _icq("as written, principal axes", "paper", standardize=True, rotate=True),
                        _icq("as written, split start", "paper", split_start=True, hard_end=True, crude="energy"),
                        _icq("as written, pi2 = 0.4", "paper", pi2=0.4),
                        _icq("no L_P", gamma1=0.0),
                        _icq("no L_ICQ", gamma2=0.0),
                        _icq("no error in L_C", error=0.0),
                        _icq("no cross term in L_C", cross=0.0),
                        _icq("no robustness term", robustness=0.0),
                        _icq("soft groups to the end", hard_end=False),
                        _icq("soft groups, no L_ICQ", hard_end=False, gamma2=0.0),
                        _icq("axes not levelled", level=False),
                        _icq("axes not levelled, no L_P", level=False, gamma1=0.0),
                        _icq("no cap at classes - 1", cap=False),
                        _icq("prior by EM", theta="em"),
                        _series("ICQ", "in turns", settings=(("optimize", "alternate"),)),
                        SQ_CQ,
                        SQ_PQ,
                    ),
                    books=(8,),
                    open=False,
                ),
                _sweep("alpha2", -1.0, -3.0, -30.0),
                _sweep("pi2", 0.1, 0.2, 0.3, 0.5, 0.6),
                _sweep("gamma1", 0.0005, 0.05, 0.5),
                _sweep("gamma2", 2.0, 200.0),
                _sweep("sigma", 0.25, 0.5, 2.0, 4.0),
                _sweep("robustness", 0.5, 2.0, 5.0),
                FigurePart(("vectors",), _layouts("subspace", "hybrid", "residual"), books=(8,), open=False),
                _baselines(*DATASETS),
            ),
        ),
        Figure(
            "codes",
            "Books learned without labels, at equal bytes",
            "codes",
            (
                FigurePart(
                    ("vectors",),
                    tuple(_series(name, labels=False) for name in ("PQ", "OPQ", "CKMeans", "LOPQ", "CQ"))
                    + _layouts("subspace", "hybrid", "residual"),
                ),
                # MSQ uses one byte for the cell and one for the scale, so 2 bytes leave none for the direction.
                FigurePart(("vectors",), (_series("MSQ", labels=False),), books=(4, 8, 16), open=False),
                FigurePart(("vectors",), (_series(RANDOM, labels=False),), books=(0,), open=False),
            ),
            seeds=1,
        ),
    )
}


def figure_of(name: str) -> Figure:
    """The figure of that name; the error lists all names."""
    if name not in FIGURES:
        raise InputError(f"NAME must be one of {', '.join(FIGURES)}, 'all' and 'report', got {name!r}")
    return FIGURES[name]


def named_methods() -> set[str]:
    """Methods that appear in a figure."""
    return {series.method for figure in FIGURES.values() for part in figure.parts for series in part.series}


def joining(labels: bool) -> list[str]:
    """Registered methods that no figure names; they are added to all figures whose labels they need."""
    return [name for name in methods(None if labels else False) if name not in named_methods()]


def _joined(part: FigurePart, name: str) -> Series:
    """A method added to a part, with the changes to the recipe that all its series share.

    A method without labels learns from the rows themselves.
    """
    labels = method(name).labels
    shared = (change for change in part.series[0].changes if all(change in one.changes for one in part.series))
    return _series(name, labels=labels, changes=tuple(shared) if labels else ())


def runs_of(figure: Figure, size: Size, seeds: int | None = None) -> list[Run]:
    """Every run of a figure, seed by seed, so that a whole figure is available early."""
    wanted = seeds or min(figure.seeds, size.seeds or figure.seeds)
    found = [run for seed in range(wanted) for part in figure.parts for run in _runs_of_part(figure, part, size, seed)]
    seen: dict[str, Run] = {}
    for run in found:
        if run.method not in BASELINES:
            method(run.method)  # raises for an unknown method before hours of work
        if seen.setdefault(run.name, run) != run:
            raise InputError(f"two runs of {figure.name} have the file {run.name}.json: rename {run.label!r}")
    return list(seen.values())


def _runs_of_part(figure: Figure, part: FigurePart, size: Size, seed: int) -> Iterator[Run]:
    if part.seeds is not None and seed >= part.seeds:
        return
    series = part.series
    if part.sweep and size.sweep is not None and size.sweep < len(series):
        series = (series[0], series[-1])[: size.sweep]
    if part.open:
        series += tuple(_joined(part, name) for name in joining(part.series[0].labels))
    books = size.books if part.books is None else part.books
    limit = size.limit(figure.name)
    if books != (0,) and not part.control:
        books = tuple(k for k in books if k in size.books) or size.books[-1:]
        books = tuple(k for k in books if limit.books is None or k in limit.books)
    for data in (name for name in part.data[: size.data] if limit.data is None or name in limit.data):
        for n_books in books:
            for one in series:
                dim = min(part.dim, size.dim or part.dim) if part.dim and one.labels else None
                yield Run(**asdict(one), figure=figure.name, data=data, n_books=n_books, seed=seed, dim=dim)
