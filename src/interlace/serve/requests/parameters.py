"""Parameters in the URL of a request that every route of Qdrant's API may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, Strict

from .types import Positive

FROM_TEXT = Strict(False)


class Parameters(BaseModel):
    """Checked as Qdrant checks them. Only ``wait`` has an effect, where a route says so."""

    wait: bool = True
    timeout: Annotated[Positive, FROM_TEXT] | None = None  #: seconds
    ordering: Literal["weak", "medium", "strong"] | None = None
    consistency: Annotated[Positive, FROM_TEXT] | Literal["majority", "quorum", "all"] | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Parameters:
        """From all parameters of a request."""
        return cls.model_validate({name: given[name] for name in cls.model_fields if name in given})
