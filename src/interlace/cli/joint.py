"""Options for learning with labels, and their conversion to labels, a recipe and estimator parameters."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..learn.recipe import LOSSES, OPTIMIZERS, Recipe
from .options import natural, number, positive

if TYPE_CHECKING:
    from ..quantizers import Method


class _Methods:
    """Names of the registered methods that learn from labels, in lower case; the registry is imported on first use."""

    def __iter__(self) -> Iterator[str]:
        from ..quantizers import methods

        return (name.lower() for name in methods(labels=True))

    def __contains__(self, name: object) -> bool:
        return name in tuple(self)


METHODS = _Methods()


def method_named(name: str) -> Method:
    """The method with that name in lower case."""
    from ..quantizers import methods

    return next(one for one in methods(labels=True).values() if one.name.lower() == name)


#: Options that need --labels, and options of LEARNING that cannot be combined with --labels.
WITH_LABELS = (
    *("labels_key", "method", "embedding", "dim", "hidden", "loss", "optimize", "recipe", "set", "epochs"),
    *("validation", "checkpoint", "device"),
)
WITHOUT_LABELS = (
    *("layout", "metric", "rotation", "effort", "parallel_weight", "cells", "iterations"),
    *("max_train_rows", "max_memory"),
)

FIELDS = {field.name: str(field.type) for field in dataclasses.fields(Recipe) if field.name != "name"}
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def add_joint(parser: argparse.ArgumentParser) -> None:
    """Add the options for learning with labels."""
    group = parser.add_argument_group("learning with labels (pip install 'interlace[train]')")

    def add(*names: str, **settings: Any) -> None:
        group.add_argument(*names, default=argparse.SUPPRESS, **settings)

    add("--labels", metavar="LABELS", help="file with one label per row, or a name inside DATA; see below")
    add("--labels-key", metavar="KEY", help="which column or array of the file of labels")
    add("--method", choices=METHODS, metavar="NAME", help="ICQ or another method: %(choices)s (icq)")
    names = ("identity", "linear", "mlp", "lenet", "cnn3", "alexnet")
    add("--embedding", choices=names, help="network that maps inputs to vectors, learned with the codebooks (linear)")
    add("--dim", type=positive, metavar="N", help="dimensions of the vectors (16, or the number of classes if larger)")
    add("--hidden", type=widths, metavar="N,N", help="widths of the hidden layers of mlp (256)")
    add(
        "--loss",
        choices=LOSSES,
        metavar="NAME",
        help="loss that brings rows of a class together: %(choices)s (contrastive)",
    )
    add("--optimize", choices=OPTIMIZERS, help="optimize all parameters jointly by gradient, or alternately (joint)")
    add(
        "--recipe",
        choices=("default", "paper"),
        help="weights and learning rates: ours, or those of the paper (default)",
    )
    add("--set", action="append", type=setting, metavar="NAME=VALUE", help="change a value of the recipe; repeatable")
    add(
        "--epochs",
        type=natural,
        metavar="N",
        help="epochs of the last phase, which learns all parameters; same as --set epochs=N",
    )
    add("--validation", type=share, metavar="SHARE", help="share of the rows held out to choose the best epoch (0.1)")
    add("--checkpoint", metavar="FILE", help="written after each epoch; an interrupted run resumes from it")
    add("--device", metavar="NAME", help="cpu, cuda, ...; auto uses a GPU if there is one (auto)")


def widths(text: str) -> tuple[int, ...]:
    """``256`` or ``256,128``."""
    return tuple(positive(part) for part in text.split(","))


def share(text: str) -> float:
    """A number of at least 0 and below 1."""
    value = number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0 and below 1, got {text!r}")
    return value


def setting(text: str) -> tuple[str, Any]:
    """``pi2=0.3``: a field of the recipe and its value, converted to the type of the field and checked."""
    name, equals, given = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, such as pi2=0.3, got {text!r}")
    if name not in FIELDS:
        raise argparse.ArgumentTypeError(f"the recipe has no field {name!r}; its fields are {', '.join(FIELDS)}")
    try:
        value = _typed(FIELDS[name], given.strip())
        Recipe(**{name: value})
    except (ValueError, KeyError) as error:  # InputError is a ValueError and says more
        if isinstance(error, InputError):
            raise argparse.ArgumentTypeError(str(error)) from error
        kinds = {"int": "an integer", "float": "a number", "bool": "true or false", "str": "a word"}
        raise argparse.ArgumentTypeError(f"{name} must be {kinds[FIELDS[name]]}, got {given!r}") from error
    return name, value


def _typed(kind: str, text: str) -> Any:
    if kind == "bool":
        return _WORDS[text.lower()]
    return {"int": int, "float": float, "str": str}[kind](text)


def check_options(args: argparse.Namespace) -> None:
    """Refuse options that do not apply with, or without, labels."""
    if "labels" in args:
        for name in WITHOUT_LABELS:
            if name in args:
                raise InputError(f"--{name.replace('_', '-')} cannot be combined with --labels")
        if "loss" in args and not _takes_loss(chosen := getattr(args, "method", "icq")):
            able = ", ".join(name for name in METHODS if _takes_loss(name))
            raise InputError(f"--loss cannot be combined with --method {chosen}; it is for {able}")
        return
    for name in WITH_LABELS:
        if name in args:
            raise InputError(f"--{name.replace('_', '-')} needs --labels")


def _takes_loss(name: str) -> bool:
    """Whether a method has a parameter ``loss``; assumed if its class is unknown, because its constructor checks."""
    model = method_named(name).model
    return model is None or "loss" in model.parameter_defaults()


def recipe_of(args: argparse.Namespace) -> Recipe:
    """The recipe of --recipe with the changes of --set and --epochs."""
    changes = dict(getattr(args, "set", ()))
    if "epochs" in args:
        changes["epochs"] = args.epochs
    return Recipe.paper(**changes) if getattr(args, "recipe", "default") == "paper" else Recipe(**changes)


def labels_of(labels: str, key: str | None, data: str, vectors: Any) -> Any:
    """Labels of the rows of ``data``: LABELS is a file if it has a known extension, else a name inside ``data``."""
    from ..data import LABEL_EXTENSIONS, read_labels

    inside = Path(labels).suffix.lower() not in LABEL_EXTENSIONS
    if inside and Path(data).suffix.lower() not in (".npz", ".parquet", ".h5", ".hdf5"):
        known = ", ".join(LABEL_EXTENSIONS)
        raise InputError(f"--labels must be a file ({known}), because {data!r} holds no named arrays; got {labels!r}")
    if inside and key is not None:
        raise InputError(f"--labels {labels!r} is a name inside {data!r}: do not pass a key ({key!r})")
    found = read_labels(data, labels) if inside else read_labels(labels, key)
    where = f"{labels!r} of {data!r}" if inside else repr(labels)
    if inside and labels in getattr(vectors, "titles", ()):
        raise InputError(
            f"column {where} is also a column of the vectors: choose the columns of the vectors with --key"
        )
    if len(found) != len(vectors):
        header = len(found) == len(vectors) + 1 and Path(labels).suffix.lower() in (".txt", ".csv")
        hint = "; if its first line is a header, pass the column's name as --labels-key" if header else ""
        raise InputError(f"{where} has {len(found):,} labels, {data!r} has {len(vectors):,} rows{hint}")
    return found
