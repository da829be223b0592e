"""Similarity search in a few bytes per vector: interleaved composite quantization, searched in two steps."""

from __future__ import annotations

import importlib
import typing

from ._native import simd_level
from ._version import __version__
from .codec.codebooks import Book, Codebooks, Norm
from .codec.embedding.torch_runner import TorchRunner as _TorchRunner
from .codec.embedding.torch_runner import register_torch_runner as _register_torch_runner
from .engine.explaining import Explanation
from .engine.hits import SearchStats
from .errors import (
    CalibrationWarning,
    DamagedFileError,
    DegeneratePsiWarning,
    DuplicateIdError,
    EmbeddingCollapsedWarning,
    FewRowsWarning,
    FileError,
    FitInterruptedWarning,
    InputError,
    InterlaceError,
    NewerFormatError,
    NotAnIndexError,
    NotFittedError,
    OlderFormatError,
    PartlyAddedError,
    PriorCollapsedWarning,
    RelearnWarning,
    RemoteError,
    StoreError,
    StoreLockedError,
    UnknownIdError,
    UnlikeQueriesWarning,
)
from .index.evaluation import Evaluation
from .index.health import IndexHealth
from .index.index import Index
from .index.matches import Matches, RangeMatches
from .index.planning import Plan, plan
from .index.report import Report
from .index.stores import provide as _provide_stores
from .integrations.faiss import from_faiss, to_faiss
from .learn import registry as _learners

if typing.TYPE_CHECKING:
    from .client import connect
    from .estimators.icq import ICQ
    from .estimators.neighbors import Neighbors
    from .estimators.supervised_icq import SupervisedICQ
    from .estimators.unsupervised_icq import UnsupervisedICQ
    from .index.recall_planning import RecallPlan, RecallPoint, plan_recall
    from .index.tables import search_table
    from .learn.recipe import Recipe
    from .store import Store, create, open, restore

__all__ = [
    "ICQ",
    "Book",
    "CalibrationWarning",
    "Codebooks",
    "DamagedFileError",
    "DegeneratePsiWarning",
    "DuplicateIdError",
    "EmbeddingCollapsedWarning",
    "Evaluation",
    "Explanation",
    "FewRowsWarning",
    "FileError",
    "FitInterruptedWarning",
    "Index",
    "IndexHealth",
    "InputError",
    "InterlaceError",
    "Matches",
    "Neighbors",
    "NewerFormatError",
    "Norm",
    "NotAnIndexError",
    "NotFittedError",
    "OlderFormatError",
    "PartlyAddedError",
    "Plan",
    "PriorCollapsedWarning",
    "RangeMatches",
    "RecallPlan",
    "RecallPoint",
    "Recipe",
    "RelearnWarning",
    "RemoteError",
    "Report",
    "SearchStats",
    "Store",
    "StoreError",
    "StoreLockedError",
    "SupervisedICQ",
    "UnknownIdError",
    "UnlikeQueriesWarning",
    "UnsupervisedICQ",
    "__version__",
    "connect",
    "create",
    "from_faiss",
    "open",
    "plan",
    "plan_recall",
    "restore",
    "search_table",
    "simd_level",
    "to_faiss",
]


_LATER = {
    "ICQ": ".estimators.icq",
    "Neighbors": ".estimators.neighbors",
    "RecallPlan": ".index.recall_planning",
    "RecallPoint": ".index.recall_planning",
    "Recipe": ".learn.recipe",
    "Store": ".store",
    "SupervisedICQ": ".estimators.supervised_icq",
    "UnsupervisedICQ": ".estimators.unsupervised_icq",
    "connect": ".client",
    "create": ".store",
    "open": ".store",
    "plan_recall": ".index.recall_planning",
    "restore": ".store",
    "search_table": ".index.tables",
}
_PACKAGES = ("client", "data", "embedding", "judge", "parts", "plot", "quantizers", "ray", "store")


def _torch_runner() -> _TorchRunner:
    from .learn.joint import serving  # imports torch

    return serving


_register_torch_runner(_torch_runner)


def __getattr__(name: str) -> typing.Any:
    """Sub-packages, stores and the estimators, imported when they are first used: searching does without them."""
    if name in _PACKAGES:
        return importlib.import_module(f".{name}", __name__)
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _make_store(*args: typing.Any, **settings: typing.Any) -> typing.Any:
    return importlib.import_module(".store", __name__).create(*args, **settings)


_provide_stores(_make_store)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_PACKAGES})


# Stores relearn the codebooks of any quantizer, but only those that need it load the quantizers.
_learners.load_before_lookup(lambda: importlib.import_module(".estimators.baselines", __name__))
