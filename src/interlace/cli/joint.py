"""Options of learning with labels, and what they become: labels, a recipe, the parameters of an estimator."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..learn.recipe import LOSSES, OPTIMIZERS, Recipe
from .options import natural, positive

if TYPE_CHECKING:
    from ..estimators.baselines.registry import Method


class _Methods:
    """Names of the registered methods that learn from labels, in lower case; imported when one is asked for."""

    def __iter__(self) -> Iterator[str]:
        from ..estimators.baselines.registry import methods

        return (name.lower() for name in methods(labels=True))

    def __contains__(self, name: object) -> bool:
        return name in tuple(self)


METHODS = _Methods()


def method_named(name: str) -> Method:
    """The one of that name in lower case."""
    from ..estimators.baselines.registry import methods

    return next(one for one in methods(labels=True).values() if one.name.lower() == name)


#: Without --labels they would say nothing; those of LEARNING that labels leave no choice of.
WITH_LABELS = (
    *("labels_key", "method", "embedding", "dim", "hidden", "loss", "optimize", "recipe", "set", "epochs"),
    *("validation", "checkpoint", "device"),
)
WITHOUT_LABELS = ("layout", "metric", "rotation", "effort", "iterations", "max_train_rows", "max_memory")

FIELDS = {field.name: str(field.type) for field in dataclasses.fields(Recipe) if field.name != "name"}
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def add_joint(parser: argparse.ArgumentParser) -> None:
    """Options of learning with labels."""
    group = parser.add_argument_group("learning with labels (pip install 'interlace[train]')")

    def add(*names: str, **settings: Any) -> None:
        group.add_argument(*names, default=argparse.SUPPRESS, **settings)

    add("--labels", metavar="LABELS", help="file with a label for each row, or a name inside DATA; see below")
    add("--labels-key", metavar="KEY", help="which column or array of the labels' file")
    what = "ICQ, or one to compare with: %(choices)s (icq)"
    add("--method", choices=METHODS, metavar="NAME", help=what)
    names = ("identity", "linear", "mlp", "lenet", "alexnet")
    add("--embedding", choices=names, help="what makes vectors of the inputs, learned with the books (linear)")
    add("--dim", type=positive, metavar="N", help="dimensions of these vectors (16, or as many as classes)")
    add("--hidden", type=widths, metavar="N,N", help="widths of the hidden layers of mlp (256)")
    add("--loss", choices=LOSSES, metavar="NAME", help="what makes rows of a class alike: %(choices)s (contrastive)")
    add("--optimize", choices=OPTIMIZERS, help="all at once by gradient, or in turns (joint)")
    add("--recipe", choices=("default", "paper"), help="weights and rates: ours, or the paper as written (default)")
    add("--set", action="append", type=setting, metavar="NAME=VALUE", help="change a value of the recipe; repeatable")
    add("--epochs", type=natural, metavar="N", help="of the last phase, in which all is learned; as --set epochs=N")
    add("--validation", type=share, metavar="SHARE", help="of the rows, held out to choose the best epoch (0.1)")
    add("--checkpoint", metavar="FILE", help="written after each epoch; a run that was killed goes on from it")
    add("--device", metavar="NAME", help="cpu, cuda, ...; auto takes a GPU if there is one (auto)")


def widths(text: str) -> tuple[int, ...]:
    """``256`` or ``256,128``."""
    return tuple(positive(part) for part in text.split(","))


def share(text: str) -> float:
    """From 0 to below 1."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"a number from 0 to below 1 is needed, got {text!r}")
    return value


def setting(text: str) -> tuple[str, Any]:
    """``pi2=0.3``: a field of the recipe and its value, in the type of the field; the recipe checks its range."""
    name, equals, given = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals:
        raise argparse.ArgumentTypeError(f"NAME=VALUE is needed, such as pi2=0.3, got {text!r}")
    if name not in FIELDS:
        raise argparse.ArgumentTypeError(f"a recipe has no {name!r}; it has {', '.join(FIELDS)}")
    try:
        value = _typed(FIELDS[name], given.strip())
        Recipe(**{name: value})
    except (ValueError, KeyError) as error:  # InputError is a ValueError and says more
        if isinstance(error, InputError):
            raise argparse.ArgumentTypeError(str(error)) from error
        kinds = {"int": "an integer", "float": "a number", "bool": "true or false", "str": "a word"}
        raise argparse.ArgumentTypeError(f"{name} is {kinds[FIELDS[name]]}, got {given!r}") from error
    return name, value


def _typed(kind: str, text: str) -> Any:
    if kind == "bool":
        return _WORDS[text.lower()]
    return {"int": int, "float": float, "str": str}[kind](text)


def check_options(args: argparse.Namespace) -> None:
    """Options that mean nothing with, or without, labels are refused."""
    if "labels" in args:
        for name in WITHOUT_LABELS:
            if name in args:
                raise InputError(f"--{name.replace('_', '-')} belongs to learning without labels: leave it out")
        if "loss" in args and not _takes_loss(chosen := getattr(args, "method", "icq")):
            able = ", ".join(name for name in METHODS if _takes_loss(name))
            raise InputError(f"--method {chosen} has its own loss, --loss belongs to {able}")
        return
    for name in WITH_LABELS:
        if name in args:
            raise InputError(f"--{name.replace('_', '-')} belongs to learning with labels: give --labels, too")


def _takes_loss(name: str) -> bool:
    """Whether a method takes any loss; the others are made for one. One whose class is unknown says so itself."""
    model = method_named(name).model
    return model is None or "loss" in model.parameter_defaults()


def recipe_of(args: argparse.Namespace) -> Recipe:
    """The named recipe with what --set and --epochs change."""
    changes = dict(getattr(args, "set", ()))
    if "epochs" in args:
        changes["epochs"] = args.epochs
    return Recipe.paper(**changes) if getattr(args, "recipe", "default") == "paper" else Recipe(**changes)


def labels_of(labels: str, key: str | None, data: str, vectors: Any) -> Any:
    """Labels of the rows of a file: LABELS is a file if its name ends like one, else a name inside the data's file."""
    from ..inputs.label_files import LABEL_EXTENSIONS, read_labels

    inside = Path(labels).suffix.lower() not in LABEL_EXTENSIONS
    if inside and Path(data).suffix.lower() not in (".npz", ".parquet", ".h5", ".hdf5"):
        known = ", ".join(LABEL_EXTENSIONS)
        raise InputError(f"labels are a file ({known}) or a name inside {data!r}, which has none; got {labels!r}")
    if inside and key is not None:
        raise InputError(f"labels {labels!r} are inside {data!r} and have no key of their own; leave {key!r} out")
    found = read_labels(data, labels) if inside else read_labels(labels, key)
    where = f"{labels!r} of {data!r}" if inside else repr(labels)
    if inside and labels in getattr(vectors, "titles", ()):
        raise InputError(f"column {where} would be learned from as well: choose the columns of the vectors with --key")
    if len(found) != len(vectors):
        header = len(found) == len(vectors) + 1 and Path(labels).suffix.lower() in (".txt", ".csv")
        hint = "; if its first line is a header, name it by --labels-key" if header else ""
        raise InputError(f"{where} has {len(found):,} labels, {data!r} has {len(vectors):,} rows{hint}")
    return found
