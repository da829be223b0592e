"""What scikit-learn expects of an estimator, without scikit-learn: parameters, names of columns, tags, pickling.

scikit-learn calls these by name and needs no common base class; its own types are looked up when it asks for them.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, not_fitted, warn_user
from ..inputs.arrays import describe, to_matrix
from ..inputs.spool import yields_blocks
from ..inputs.tables import arrow_rows, is_frame

Self = TypeVar("Self", bound="Estimator")

CONTAINERS = ("default", "pandas", "polars")


class NotNumbersError(InputError, TypeError):
    """Values of a type that is no number; scikit-learn makes this a TypeError."""


class Estimator:
    """Parameters are the arguments of ``__init__``, which stores them unchanged; ``fit`` checks them.

    What ``fit`` learns are attributes whose names end in an underscore: set them last, so that a fit that fails leaves
    the estimator as it was, and call :meth:`_remember` with them.
    """

    @classmethod
    def _parameters(cls) -> dict[str, Any]:
        """Names and defaults."""
        signature = inspect.signature(cls.__init__)
        return {name: p.default for name, p in signature.parameters.items() if name != "self"}

    def _inside(self, name: str) -> Any:
        """What ``name__theirs`` reaches into."""
        return getattr(self, name)

    def _changed(self) -> dict[str, Any]:
        """Parameters that are not the default, by text: values may be arrays, or NaN."""
        known = self._parameters().items()
        return {n: value for n, default in known if repr(value := getattr(self, n)) != repr(default)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; ``deep`` adds those of parameters that have some of their own, as ``name__theirs``."""
        params: dict[str, Any] = {}
        for name in self._parameters():
            params[name], inside = getattr(self, name), self._inside(name)
            if deep and hasattr(inside, "get_params") and not isinstance(inside, type):
                params |= {f"{name}__{inner}": v for inner, v in inside.get_params().items()}
        return params

    def set_params(self: Self, **params: Any) -> Self:
        """Change parameters by name, all of them or, after an error, none."""
        known = self._parameters()
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, parted, inner = key.partition("__")
            if name not in known:
                raise InputError(f"Invalid parameter {key!r} for estimator {self}. Valid parameters are: {[*known]}")
            if parted:
                nested.setdefault(name, {})[inner] = value
        before = {name: getattr(self, name) for name in known}
        changed: list[tuple[Any, dict[str, Any]]] = []
        try:
            for name in params.keys() & known.keys():  # an estimator before what is set inside it
                setattr(self, name, params[name])
            for name, changes in nested.items():
                inside = self._inside(name)
                if hasattr(inside, "with_params"):  # it is frozen
                    setattr(self, name, inside.with_params(**changes))
                elif hasattr(inside, "set_params"):
                    changed.append((inside, inside.get_params()))
                    inside.set_params(**changes)
                else:
                    raise InputError(f"{name} has no parameters to set ({', '.join(changes)}), it is {inside!r:.60}")
        except Exception:
            for inside, params_before in changed:
                inside.set_params(**params_before)
            for name, value in before.items():
                setattr(self, name, value)
            raise
        return self

    def __repr__(self) -> str:
        changed = (f"{name}={value!r}" for name, value in self._changed().items())
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        return any(name.endswith("_") and not name.startswith("__") for name in vars(self))

    def __sklearn_tags__(self) -> Any:
        """No y, dense rows without NaN, the same answer for the same seed."""
        utils = importlib.import_module("sklearn.utils")
        return utils.Tags(
            estimator_type=None, target_tags=utils.TargetTags(required=False), input_tags=utils.InputTags()
        )

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise not_fitted(f"This {type(self).__name__} is not fitted yet: call fit before")

    def _remember(self, n_features: int, names: NDArray[Any] | None) -> None:
        """What the rows given to fit were like, for :meth:`_like_fit`."""
        self.n_features_in_ = n_features
        vars(self).pop("feature_names_in_", None)  # of a fit before
        if names is not None:
            self.feature_names_in_ = names

    def _like_fit(self, x: Any) -> Any:
        """As :func:`readable`, for rows that come after fit: of the same width, with the same names."""
        self._check_fitted()
        rows, names = readable(x)
        self._compare_names(names)
        shape = getattr(rows, "shape", None)
        if shape is not None and shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input"
            )
        return rows

    def _compare_names(self, names: NDArray[Any] | None) -> None:
        fitted, own = getattr(self, "feature_names_in_", None), type(self).__name__
        if fitted is None or names is None:
            if names is not None:
                warn_user(f"X has feature names, but {own} was fitted without feature names")
            if fitted is not None:
                warn_user(f"X does not have valid feature names, but {own} was fitted with feature names")
            return
        if not np.array_equal(fitted, names):
            unseen, missing = sorted({*names} - {*fitted}), sorted({*fitted} - {*names})
            text = "The feature names should match those that were passed during fit.\n"
            text += _listed("Feature names unseen at fit time:\n", unseen)
            text += _listed("Feature names seen at fit time, yet now missing:\n", missing)
            if not unseen and not missing:
                text += "Feature names must be in the same order as they were in fit.\n"
            raise InputError(text)


class Transformer(Estimator):
    """An estimator with ``transform``, which passes its result through :meth:`_contained`."""

    #: dtypes that ``transform`` gives back as it got them.
    _preserves_dtype: ClassVar[tuple[str, ...]] = ("float64",)

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Learn from rows X."""
        raise NotImplementedError

    def transform(self, X: Any) -> Any:
        """What the estimator makes of rows X."""
        raise NotImplementedError

    def _n_features_out(self) -> int:
        """Columns of what ``transform`` returns."""
        raise NotImplementedError

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """``fit``, then ``transform`` of the same rows."""
        return self.fit(X, y).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names for the columns of what ``transform`` returns: the class's name and a number."""
        self._check_fitted()
        if input_features is not None:
            given, fitted = [*input_features], getattr(self, "feature_names_in_", None)
            if len(given) != self.n_features_in_:
                raise InputError(
                    f"input_features should have length equal to number of features ({self.n_features_in_}), "
                    f"got {len(given)}"
                )
            if fitted is not None and given != [*fitted]:
                raise InputError("input_features is not equal to feature_names_in_")
        prefix = type(self).__name__.lower()
        return np.array([f"{prefix}{i}" for i in range(self._n_features_out())], dtype=object)

    def set_output(self: Self, *, transform: str | None = None) -> Self:
        """What ``transform`` returns: ``"default"`` (arrays), ``"pandas"`` or ``"polars"`` frames; None: no change."""
        if transform is not None:
            if transform not in CONTAINERS:
                raise InputError(f"transform must be one of {', '.join(CONTAINERS)} or None, got {transform!r}")
            self._sklearn_output_config = {"transform": transform}  # the name under which clone() looks for it
        return self

    def _contained(self, result: Any, x: Any) -> Any:
        """The result in the container that :meth:`set_output`, or scikit-learn's configuration, asks for."""
        how = getattr(self, "_sklearn_output_config", {}).get("transform")
        if how is None and "sklearn" in sys.modules:
            how = sys.modules["sklearn"].get_config()["transform_output"]
        if how is None or how == "default":
            return result
        if not isinstance(result, np.ndarray):
            raise InputError(
                f"the output of {type(self).__name__} is sparse, which a {how} frame cannot hold; "
                "set_output(transform='default') returns it as it is"
            )
        library, names = optional(how, f"set_output(transform={how!r})", how), self.get_feature_names_out()
        if how == "polars":
            return library.DataFrame(result, schema=[*names], orient="row")
        return library.DataFrame(result, columns=names, index=x.index if is_frame(x) else None, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        utils = importlib.import_module("sklearn.utils")
        tags.transformer_tags = utils.TransformerTags(preserves_dtype=[*self._preserves_dtype])
        return tags


def readable(x: Any) -> tuple[Any, NDArray[Any] | None]:
    """Rows X as an index reads them, unconverted where possible, and the names of their columns if they have some.

    Only what scikit-learn has words of its own for is refused here; values are looked at when they are read. Objects
    become float64, as in scikit-learn.
    """
    names: Any = None
    if is_dataset(x):
        raise InputError(f"X must be an array where no labels are learned from, got a {type(x).__name__} of torch")
    if (table := arrow_rows(x, "X")) is not None:
        x, names = table, table.titles  # of the columns of numbers, others were left out
    elif is_frame(x):
        names = [*x.columns]
    elif not hasattr(x, "shape") and not yields_blocks(x):
        x = to_matrix(x, "X")
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is not None and len(shape) != 2:
        raise InputError(
            f"Expected 2D array, got {len(shape)}D array instead: {describe(x)}. Reshape your data: X.reshape(-1, 1) "
            "if it has a single feature, X.reshape(1, -1) if it is a single sample"
        )
    if shape is not None and 0 in shape:
        what = "feature" if shape[0] else "sample"
        raise InputError(f"Found array with 0 {what}(s) (shape={tuple(shape)}) while a minimum of 1 is required.")
    if isinstance(dtype, np.dtype) and dtype.kind == "c":
        raise InputError(f"Complex data not supported: {describe(x)}")
    if isinstance(dtype, np.dtype) and dtype.kind == "O":
        try:
            x = np.asarray(x, np.float64)
        except (TypeError, ValueError) as error:
            kind = NotNumbersError if isinstance(error, TypeError) else InputError
            raise kind(f"X has values that are no numbers: {error}") from error
    return x, None if names is None or shape is None or len(names) != shape[1] else _strings(names)


def is_dataset(x: Any) -> bool:
    """Whether x is a torch Dataset or DataLoader; asking does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.utils.data.Dataset | torch.utils.data.DataLoader)


def _strings(names: list[Any]) -> NDArray[Any] | None:
    """Names that are all strings; None for numbers, which pandas counts columns by where no one named them."""
    if not any(isinstance(name, str) for name in names):
        return None
    if not all(isinstance(name, str) for name in names):
        types = sorted({type(name).__qualname__ for name in names})
        raise NotNumbersError(
            f"Feature names are only supported if all input features have string names, but X has {types}; "
            "X.columns = X.columns.astype(str) makes them so"
        )
    return np.array(names, dtype=object)


def _listed(title: str, names: list[str], most: int = 5) -> str:
    shown = [*names[:most], "..."] if len(names) > most else names
    return "".join([title, *(f"- {name}\n" for name in shown)]) if names else ""


def optional(module: str, what: str, package: str) -> Any:
    """A module that only some calls need, or an error that says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"{what} needs {module.partition('.')[0]}: pip install {package!r}") from error
