"""What a store keeps for each row in addition to id and code, chosen when it is created."""

from __future__ import annotations

from dataclasses import dataclass

from ..codec.originals import OriginalsFormat, stored_format
from .columns import Columns
from .manifest import Manifest


@dataclass(frozen=True, eq=False)
class Extras:
    """None: not kept."""

    columns: Columns | None = None
    originals: OriginalsFormat | None = None

    @classmethod
    def of(cls, manifest: Manifest, dim: int) -> Extras:
        """From a manifest."""
        columns, originals = manifest.columns, manifest.originals
        return cls(
            None if columns is None else Columns(columns),
            None if originals is None else stored_format(originals, dim),
        )

    @property
    def any(self) -> bool:
        """Whether there is more than ids and codes."""
        return self.columns is not None or self.originals is not None

    @property
    def width(self) -> int:
        """Bytes of an original; 0 if none are kept."""
        return 0 if self.originals is None else self.originals.width
