"""What a store keeps for each row in addition to id and code, chosen when it is created."""

from __future__ import annotations

from dataclasses import dataclass

from ..codec.originals import WHOLE, OriginalsFormat, WholeVectors
from ..errors import DamagedFileError
from .columns import Columns
from .manifest import Manifest


@dataclass(frozen=True, eq=False)
class Extras:
    """None: not kept."""

    columns: Columns | None = None
    originals: OriginalsFormat | None = None

    @classmethod
    def of(cls, manifest: Manifest, dim: int, beside_books: OriginalsFormat | None) -> Extras:
        """What a manifest names; the format of originals is stored beside the codebooks."""
        columns, originals = manifest.columns, manifest.originals
        kept = WholeVectors(dim) if originals == WHOLE else beside_books
        if originals != (None if kept is None else kept.kind):
            raise DamagedFileError(f"the manifest says that originals are {originals}, but {manifest.books!r} does not")
        return cls(None if columns is None else Columns(columns), kept)

    @property
    def width(self) -> int:
        """Bytes of an original; 0 if none are kept."""
        return 0 if self.originals is None else self.originals.width
