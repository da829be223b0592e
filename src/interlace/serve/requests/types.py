"""Types of the fields of bodies, with their limits: for pydantic in :mod:`.models`, for msgspec in :mod:`.frequent`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from . import paths
from .ids import LARGEST

LIMIT = 10  # hits, points or groups of an answer, unless the request says otherwise
MOST_BYTES = 128  # of a code
#: Names of collections that are served, and of those that are created, which aliases have as well.
SERVED, CREATED = "[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}", "[A-Za-z0-9_-]{1,128}"


def _only_null(value: Any) -> None:
    if value not in (None, [], {}):
        raise PydanticCustomError("unsupported", "this is not supported by this server (docs/qdrant.md lists what is)")


def _is_path(value: str) -> str:
    paths.parsed(value)
    return value


#: Known to Qdrant's clients, which send null; any other value is refused.
Unsupported = Annotated[None, BeforeValidator(_only_null)]
#: A key of a payload, or a path such as ``a.b`` or ``a[].b``.
Path = Annotated[str, AfterValidator(_is_path)]
#: Tunes the inside of Qdrant and changes no answer.
Ignored = Any
PointId = Annotated[int, Field(strict=True, ge=0, le=LARGEST)] | Annotated[str, Field(strict=True)]
Vector = list[float]
#: One vector; an object is for vectors with names, of which only the empty one is known.
VectorInput = Annotated[Vector | dict[str, Vector], Field(union_mode="left_to_right")]
Payload = dict[str, Any]
Positive = Annotated[int, Field(ge=1, strict=True), msgspec.Meta(ge=1)]
NonZero = Annotated[int, Field(gt=0, strict=True)]  #: to Qdrant zero is of another type, not out of range
Natural = Annotated[int, Field(ge=0, strict=True), msgspec.Meta(ge=0)]
Factor = Annotated[float, Field(ge=1), msgspec.Meta(ge=1)]
NewName = Annotated[str, Field(pattern=f"^{CREATED}$")]
