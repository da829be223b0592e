"""What a store may keep of a row beside its id and its code: chosen when it is made, the same for all rows."""

from __future__ import annotations

from dataclasses import dataclass

from .columns import Columns
from .manifest import Manifest
from .originals import Originals


@dataclass(frozen=True, eq=False)
class Extras:
    """None of them: nothing is kept."""

    columns: Columns | None = None
    originals: Originals | None = None

    @classmethod
    def of(cls, manifest: Manifest, dim: int) -> Extras:
        """As a manifest has them."""
        columns, originals = manifest.columns, manifest.originals
        return cls(
            None if columns is None else Columns(columns), None if originals is None else Originals(originals, dim)
        )

    @property
    def width(self) -> int:
        """Bytes of an original."""
        return 0 if self.originals is None else self.originals.width
