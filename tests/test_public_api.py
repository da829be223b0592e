"""The public interface is the one in ``tests/data/public_api.json``: names, signatures, methods and properties.

After an intended change, run ``python tests/test_public_api.py`` and commit the new file together with the change.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import json
from pathlib import Path
from typing import Any

SNAPSHOT = Path(__file__).parent / "data" / "public_api.json"
MODULES = [
    "interlace",
    *(f"interlace.{name}" for name in ("quantizers", "data", "evaluate", "plot", "store", "client", "judge")),
]
#: Modules that need an extra; where it is not installed, they are left out of the comparison.
WITH_EXTRAS = {"interlace.ray": ("ray.exceptions", "fastapi")}


def importable(name: str) -> bool:
    try:
        return importlib.import_module(name) is not None
    except ImportError:
        return False


MODULES += [module for module, needed in WITH_EXTRAS.items() if all(map(importable, needed))]

#: Calls whose ``**`` stands for names that scikit-learn or the fields of a recipe define.
OPEN_SIGNATURES = {"set_params", "with_params", "Recipe.paper"}


def signature(function: Any) -> str:
    """Parameters with their kinds, annotations and defaults, and the annotation of the result."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):  # a native function
        return "native"
    parts, positional = [], True
    for name, parameter in found.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and positional:
            parts.append("*")
        positional = positional and parameter.kind not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        text = stars + name + ("/" if parameter.kind is parameter.POSITIONAL_ONLY else "")
        if parameter.annotation is not parameter.empty:
            text += f": {annotation(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            text += f" = {default(parameter.default)}"
        parts.append(text)
    returned = found.return_annotation
    return f"({', '.join(parts)})" + ("" if returned is found.empty else f" -> {annotation(returned)}")


def annotation(value: Any) -> str:
    return value if isinstance(value, str) else value.__name__ if isinstance(value, type) else str(value)


def default(value: Any) -> str:
    """A text without memory addresses."""
    if inspect.isroutine(value) or isinstance(value, type):
        return str(value.__qualname__)
    return type(value).__name__ if " at 0x" in repr(value) else repr(value)


def members(kind: type, listed: set[type]) -> dict[str, str]:
    """Public methods, properties and attributes, with those of bases that are not listed themselves."""
    found: dict[str, str] = {}
    inherited = {base for parent in kind.__mro__[1:] if parent in listed for base in parent.__mro__}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("interlace") or base in inherited:
            continue
        for name, text in inspect.get_annotations(base).items():
            found[name] = f"attribute: {annotation(text)}"
        for name, value in vars(base).items():
            if isinstance(value, property | functools.cached_property):
                found[name] = "property"
            elif isinstance(value, classmethod | staticmethod):
                found[name] = f"{type(value).__name__} {signature(value.__func__)}"
            elif inspect.isfunction(value):
                found[name] = signature(value)
            else:
                found.setdefault(name, "attribute")
    return {name: found[name] for name in sorted(found) if not name.startswith("_")}


def describe(value: Any, listed: set[type]) -> Any:
    if isinstance(value, type):
        described: dict[str, Any] = {"bases": [base.__name__ for base in value.__bases__ if base is not object]}
        if not issubclass(value, Exception):
            described["constructor"] = signature(value)
        return described | members(value, listed)
    return signature(value) if callable(value) else type(value).__name__


def public_api() -> dict[str, Any]:
    names = {
        module: {name: getattr(found, name) for name in sorted(found.__all__) if not name.startswith("_")}
        for module in MODULES
        for found in [importlib.import_module(module)]
    }
    listed = {value for values in names.values() for value in values.values() if isinstance(value, type)}
    return {
        module: {name: describe(value, listed) for name, value in values.items()} for module, values in names.items()
    }


def as_text(api: dict[str, Any]) -> str:
    return json.dumps(api, indent=1, ensure_ascii=False) + "\n"


def test_the_public_interface_is_as_committed() -> None:
    committed = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    expected = as_text({module: names for module, names in committed.items() if module in MODULES})
    found = as_text(public_api())
    changes = [*difflib.unified_diff(expected.splitlines(), found.splitlines(), "committed", "found", lineterm="")]
    assert not changes, "\n".join(
        ["the public interface changed; if this is intended, run: python tests/test_public_api.py", *changes]
    )


def test_public_signatures_list_their_parameters() -> None:
    hidden = set()
    for names in public_api().values():
        for name, described in names.items():
            calls = described if isinstance(described, dict) else {"": described}
            hidden |= {f"{name}.{call}".rstrip(".") for call, text in calls.items() if "**" in text}
    allowed = OPEN_SIGNATURES
    assert {name for name in hidden if not name.endswith(tuple(allowed))} == set()


if __name__ == "__main__":
    SNAPSHOT.write_text(as_text(public_api()), encoding="utf-8")
