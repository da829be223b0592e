"""The interface that scikit-learn expects of an estimator, written without scikit-learn.

scikit-learn finds these methods by name, so no common base class is needed. Its mixins are not used, because the
estimators must work where scikit-learn is not installed (`pip install interlace` installs NumPy only), and using one
must not import scikit-learn, which takes longer than importing interlace. ``tests/estimators`` runs scikit-learn's own
estimator checks.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, not_fitted
from ..inputs.tables import is_frame
from .features import compare_names, read_features

Self = TypeVar("Self", bound="Estimator")

CONTAINERS = ("default", "pandas", "polars")


class Estimator:
    """Base of all estimators. Parameters are the arguments of ``__init__``, which stores them unchanged.

    ``fit`` validates the parameters. Names of fitted attributes end with an underscore. ``fit`` sets them at its end,
    so that a fit that fails leaves the estimator unchanged, and then calls :meth:`_record_features`.
    """

    @classmethod
    def parameter_defaults(cls) -> dict[str, Any]:
        """Default values of the parameters, by name."""
        signature = inspect.signature(cls.__init__)
        return {name: p.default for name, p in signature.parameters.items() if name != "self"}

    def changed_parameters(self) -> dict[str, Any]:
        """Parameters that differ from their default; compared by ``repr``, as values may be arrays or NaN."""
        known = self.parameter_defaults().items()
        return {n: value for n, default in known if repr(value := getattr(self, n)) != repr(default)}

    def _nested(self, name: str) -> Any:
        """The object whose parameters ``name__inner`` refers to."""
        return getattr(self, name)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name. With ``deep``, also those of parameters that are estimators, as ``name__inner``."""
        params: dict[str, Any] = {}
        for name in self.parameter_defaults():
            params[name], nested = getattr(self, name), self._nested(name)
            if deep and hasattr(nested, "get_params") and not isinstance(nested, type):
                params |= {f"{name}__{inner}": v for inner, v in nested.get_params().items()}
        return params

    def set_params(self: Self, **params: Any) -> Self:
        """Sets parameters by name. If one of them is invalid, none is changed."""
        known = self.parameter_defaults()
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, separator, inner = key.partition("__")
            if name not in known:
                raise InputError(f"Invalid parameter {key!r} for estimator {self}. Valid parameters are: {[*known]}")
            if separator:
                nested.setdefault(name, {})[inner] = value
        before = {name: getattr(self, name) for name in known}
        changed: list[tuple[Any, dict[str, Any]]] = []
        try:
            for name in params.keys() & known.keys():  # replace an estimator before setting its parameters
                setattr(self, name, params[name])
            for name, changes in nested.items():
                inside = self._nested(name)
                if hasattr(inside, "with_params"):  # immutable
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
        changed = (f"{name}={value!r}" for name, value in self.changed_parameters().items())
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        return any(name.endswith("_") and not name.startswith("__") for name in vars(self))

    def __sklearn_tags__(self) -> Any:
        """y is optional; X is dense, without NaN; the same seed gives the same result."""
        utils = importlib.import_module("sklearn.utils")
        return utils.Tags(
            estimator_type=None, target_tags=utils.TargetTags(required=False), input_tags=utils.InputTags()
        )

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise not_fitted(f"This {type(self).__name__} is not fitted yet: call fit first")

    def _record_features(self, n_features: int, names: NDArray[Any] | None) -> None:
        """Sets ``n_features_in_`` and, if the columns have names, ``feature_names_in_``."""
        self.n_features_in_ = n_features
        vars(self).pop("feature_names_in_", None)  # of an earlier fit
        if names is not None:
            self.feature_names_in_ = names

    def _read_like_fit(self, x: Any) -> Any:
        """Rows of X after fit: the same number of columns as in fit, with the same names."""
        self._check_fitted()
        rows, names = read_features(x)
        compare_names(getattr(self, "feature_names_in_", None), names, type(self).__name__)
        shape = getattr(rows, "shape", None)
        if shape is not None and shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input"
            )
        return rows


class Transformer(Estimator):
    """An estimator with ``transform``. Subclasses pass the result of ``transform`` through :meth:`_wrap_output`."""

    #: dtypes that ``transform`` preserves.
    _preserves_dtype: ClassVar[tuple[str, ...]] = ("float64",)

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Learn from rows X."""
        raise NotImplementedError

    def transform(self, X: Any) -> Any:
        """Transform rows X."""
        raise NotImplementedError

    def _n_features_out(self) -> int:
        """Number of columns that ``transform`` returns."""
        raise NotImplementedError

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """``fit`` followed by ``transform`` of the same rows."""
        return self.fit(X, y).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns that ``transform`` returns: the lower-case class name and a number."""
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
        """Container of ``transform``: ``"default"`` (arrays), ``"pandas"`` or ``"polars"``; None changes nothing."""
        if transform is not None:
            if transform not in CONTAINERS:
                raise InputError(f"transform must be one of {', '.join(CONTAINERS)} or None, got {transform!r}")
            self._sklearn_output_config = {"transform": transform}  # sklearn.base.clone copies this attribute
        return self

    def _wrap_output(self, result: Any, x: Any) -> Any:
        """The result in the container that :meth:`set_output` or the configuration of scikit-learn selects."""
        container = getattr(self, "_sklearn_output_config", {}).get("transform")
        if container is None and "sklearn" in sys.modules:
            container = sys.modules["sklearn"].get_config()["transform_output"]
        if container is None or container == "default":
            return result
        if not isinstance(result, np.ndarray):
            raise InputError(
                f"the output of {type(self).__name__} is sparse, which a {container} frame cannot hold; "
                "call set_output(transform='default') to get the sparse matrix"
            )
        library = import_optional(container, f"set_output(transform={container!r})", container)
        names = self.get_feature_names_out()
        if container == "polars":
            return library.DataFrame(result, schema=[*names], orient="row")
        return library.DataFrame(result, columns=names, index=x.index if is_frame(x) else None, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        utils = importlib.import_module("sklearn.utils")
        tags.transformer_tags = utils.TransformerTags(preserves_dtype=[*self._preserves_dtype])
        return tags


def import_optional(module: str, feature: str, package: str) -> Any:
    """Imports a module that only some features need; the error names the feature and the package to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"{feature} needs {module.partition('.')[0]}: pip install {package!r}") from error
