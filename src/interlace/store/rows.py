"""All rows of one state of a store: segments and log, with columns and originals, removed rows included.

Part i is the i-th segment, the last part is the log (``tail``). Row numbers continue from one part to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import cached_property
from ..codec.codebooks import Codes
from ..codec.originals import Bytes, Loss, in_parts
from ..engine.engine import Engine
from ..engine.filters import Allowed
from ..engine.originals import KeptVectors
from ..engine.tombstones import Tombstones
from ..errors import DamagedFileError
from ..files import storage
from ..index.ids import Ids
from ..inputs.payload_table import arrow
from .columns import Columns, Table, check_text, taken
from .extras import Extras
from .filter_cache import FilterCache
from .filters import as_expression, columns_of, is_expression, qualifying
from .ids import JoinedIds, joined
from .parts import Part
from .payload_sizes import stored_bytes
from .tail import Tail

FILTERS = 4  # expressions whose rows are cached


@dataclass(frozen=True, eq=False)
class StoredRows:
    """The rows of a snapshot, without codebooks."""

    parts: tuple[Part, ...]
    removed: tuple[Tombstones, ...]  #: of each part, and of the tail
    tail: Tail
    kind: str  #: of ids: "int64", "string", or "" as long as there are none
    extras: Extras
    loss: Loss  #: of the originals, when they were converted

    @cached_property
    def _filters(self) -> FilterCache:
        return FilterCache(FILTERS)

    @cached_property
    def ids(self) -> JoinedIds:
        """Row numbers <-> ids, through all parts."""
        each = [*(part.ids for part in self.parts), self.tail.ids]
        return JoinedIds(list(zip(each, self.removed, strict=True)), self.kind)

    # --- originals

    @cached_property
    def vectors(self) -> KeptVectors:
        """Originals of all rows, removed ones included. Only for stores that keep originals."""
        assert self.extras.originals is not None
        files = [part.originals_file for part in self.parts if part.originals_file is not None]
        parts = [*(part.originals for part in self.parts), self.tail.originals]
        return KeptVectors(self.extras.originals, parts, files, self.loss)

    # --- columns

    @property
    def _columns(self) -> Columns:
        assert self.extras.columns is not None
        return self.extras.columns

    @cached_property
    def _tail_columns(self) -> tuple[Table, frozenset[str]]:
        """Columns of the rows of the log, and the names of unsound ones."""
        return self.tail.table(self._columns)

    @property
    def tail_table(self) -> Table:
        """Columns of the rows of the log."""
        return self._tail_columns[0]

    def _check_tail_text(self, names: Sequence[str]) -> None:
        """Raise DamagedFileError if a row of the log has a string in these columns that is not UTF-8."""
        table, unsound = self._tail_columns
        check_text(table, unsound.intersection(names), lambda row: self.tail.ids.take(np.array([row]))[0])

    def table(self, names: Sequence[str], rows: NDArray[np.int64]) -> Table:
        """Columns of some rows, in the given order."""
        table = taken([*(part.table(names) for part in self.parts), self.tail_table.select(names)], rows)
        unsound = self._tail_columns[1].intersection(names).union(*(part.unsound(names) for part in self.parts))
        check_text(table, unsound, lambda row: self.ids.take(rows[row : row + 1])[0])
        return table

    def table_bytes(self, names: Sequence[str], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes of the columns of each of some rows; their values are not read."""
        return stored_bytes([*(part.table(names) for part in self.parts), self.tail_table.select(names)], rows)

    def allowed(self, filter: Any, engine: Engine) -> Allowed | None:
        """The rows that a filter expression selects; None for other filters. The last few expressions are cached."""
        if not is_expression(filter):
            return None
        found: Allowed | None = self._filters.get(filter)
        if found is None or found.segments is not engine.segments:
            mask = self._qualifying(as_expression(filter, self.extras.columns)).view(np.uint8)
            found = engine.allow(mask)
            self._filters.put(filter, found)
        return found

    def _qualifying(self, expression: Any) -> NDArray[np.bool_]:
        """A mask over all rows, part by part; segments cache theirs."""
        masks = [part.qualifying(expression) for part in self.parts]
        if self.tail.n:
            self._check_tail_text(columns_of(expression, self._columns))
            masks.append(qualifying(expression, self.tail_table))
        masks = [mask & dead.kept() if dead.count else mask for mask, dead in zip(masks, self.removed, strict=False)]
        return np.concatenate(masks) if masks else np.zeros(0, np.bool_)

    def verify_tail(self) -> None:
        """Raise DamagedFileError unless columns and originals of the rows of the log are valid."""
        if self.extras.columns is not None:
            self._check_tail_text(self.extras.columns.checked(None))
        if self.extras.originals is not None:
            try:
                self.extras.originals.verify(self.tail.originals)
            except ValueError as error:
                raise DamagedFileError(f"an original in the log of a store has {error}") from error

    # --- copies of the kept rows of consecutive parts, in insertion order

    def merged(self, first: int, stop: int, codes_of: Callable[[int], Codes] | None = None) -> tuple[Codes, Ids]:
        """Codes and ids. ``codes_of(part)`` returns the codes of a part, by default the stored ones."""
        for part in self.parts[first:stop]:
            part.file.verify()  # damaged data must not get a valid checksum
        codes_of = codes_of or self._stored_codes
        ids = [*(part.ids for part in self.parts), self.tail.ids]
        masks = {i: self.removed[i].kept() for i in range(first, stop)}
        masks = {i: mask for i, mask in masks.items() if mask.any()}
        codes = np.concatenate([codes_of(i)[mask] for i, mask in masks.items()])
        return codes, joined([(ids[i], np.flatnonzero(mask)) for i, mask in masks.items()], self.kind)

    def _stored_codes(self, part: int) -> Codes:
        if part == len(self.parts):
            return self.tail.codes
        return self.parts[part].segment.unpack()

    def merged_payload(self, first: int, stop: int) -> Table:
        """Columns."""
        tables = []
        for i in range(first, stop):
            in_log = i == len(self.parts)
            table = self.tail_table if in_log else self.parts[i].whole_table()
            unsound = self._tail_columns[1] if in_log else self.parts[i].unsound()
            kept, ids = self.removed[i].kept(), self.tail.ids if in_log else self.parts[i].ids
            table = table.filter(kept) if self.removed[i].count else table
            check_text(table, unsound, _id_of(ids, kept))
            tables.append(table)
        return arrow().concat_tables(tables)

    def merged_originals(self, first: int, stop: int) -> storage.Blocks:
        """Originals, in blocks, because they may be larger than memory."""
        for part in self.parts[first:stop]:
            if part.originals_file is not None:
                part.originals_file.verify()  # damaged data must not get a valid checksum

        def blocks() -> Iterator[Bytes]:
            for i in range(first, stop):
                rows = self.parts[i].originals if i < len(self.parts) else self.tail.originals
                yield from in_parts(rows, np.flatnonzero(self.removed[i].kept()) if self.removed[i].count else None)

        n = sum(self.removed[i].n - self.removed[i].count for i in range(first, stop))
        return storage.Blocks(np.dtype(np.uint8), (n, self.extras.width), blocks)


def _id_of(ids: Ids, kept: NDArray[np.bool_]) -> Callable[[int], Any]:
    """The id of a row, numbered among the kept ones."""
    return lambda row: ids.take(np.flatnonzero(kept)[row : row + 1])[0]
