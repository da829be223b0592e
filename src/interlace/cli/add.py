"""``interlace add``: adds rows from a file or stdin to a store."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any, get_args

from ..errors import FileError, InputError, PartlyAddedError
from ..inputs.literals import Effort
from .options import add_embedded, add_json, add_row_ids, add_threads
from .stores import add_store

if TYPE_CHECKING:
    from .. import Store
    from ..progress import Progress
    from .blocks import Block

HELP = "add rows to a store, from a file or from stdin"
DESCRIPTION = """\
Encodes rows and adds them to a store, block by block. Each block is on disk before the next one is
read. The command stops at a row that it cannot read or when the disk is full; the error says how
many rows were added. A store that learns by itself (`interlace create --dim`) then learns its
codebooks, if there are rows enough or if the rows have changed.

DATA is a file that `interlace build` reads, or text with one row per line (.jsonl, .csv, ...), or -
for stdin, which may be a .npy array or such text:
  [0.1, 0.2, 0.3]                           JSON, ids are assigned
  {"id": "a", "vector": [0.1, 0.2, 0.3]}    JSON with ids; "price": 9.5 if the store has a column price
  0.1,0.2,0.3                               CSV; the header, if there is one, may name a column id
"""
EPILOG = """\
examples:
  interlace add my.store more.npy
  interlace add my.store items.parquet --key embedding --ids names.txt --payload items.parquet
  interlace add my.store changed.jsonl --upsert
  interlace add my.store - < rows.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace add``."""
    add_store(parser)
    parser.add_argument("data", metavar="DATA", help="file of vectors, one per row, or - for stdin")
    parser.add_argument("--key", help="which array (.npz), column (.parquet) or data set (.h5) of DATA")
    add_row_ids(parser, "the next integers")
    payload = "values of the store's columns, one row per row of DATA: .parquet, .arrow, .csv, .tsv, .jsonl"
    parser.add_argument("--payload", metavar="FILE", help=payload)
    parser.add_argument("--upsert", action="store_true", help="replace rows with the same ids (default: refuse them)")
    parser.add_argument(
        "--effort", choices=get_args(Effort), help="encoding time against accuracy (default: that of the books)"
    )
    add_embedded(parser)
    add_threads(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Add and print how many."""
    from .output import print_json, progress_bar
    from .stores import open_store

    started = time.perf_counter()
    with open_store(args.store, "a") as store:
        adding = _Adding(args, store)
        try:
            with progress_bar() as progress:
                adding.run(progress)
        except (InputError, FileError) as error:
            if args.json:
                print_json({"store": args.store, "added": adding.n, "rows": len(store), "error": str(error)})
            raise
        seconds, rows = time.perf_counter() - started, len(store)
        learning = store.health().state == "learning"
        store.wait_until_learned()  # else a store that learns by itself would begin, and never end
        health = store.health()
    if args.json:
        facts = {"added": adding.n, "rows": rows, "seconds": seconds}
        print_json({"store": args.store, **facts, "state": health.state, "learning_error": health.learning_error})
        return 0
    print(f"{args.store}: {adding.n:,} row{'s' * (adding.n != 1)} added in {seconds:.1f} s; {rows:,} in the store")
    if adding.column is not None:
        print(f"ids are those of column {adding.column!r}")
    if health.learning_error is not None:
        print(f"learning codebooks failed, the rows stay as they are: {health.learning_error}")
    elif learning:
        print(f"learned codebooks in {time.perf_counter() - started - seconds:.1f} s")
    return 0


class _Adding:
    def __init__(self, args: argparse.Namespace, store: Store) -> None:
        from ..data import read_payload

        self._args, self._store = args, store
        self._ids: list[Any] | None = None
        self.column: str | None = None  # of the data, which holds the ids
        self._table = None if args.payload is None else read_payload(args.payload, store.columns)
        self.n = 0  # rows added so far

    def run(self, progress: Progress) -> None:
        """Add all blocks, or raise an error that says how many rows were added."""
        from .blocks import blocks_of
        from .inputs import ids_for
        from .stores import as_store_ids

        store, args = self._store, self._args
        columns = () if store.columns is None else store.columns.names
        blocks, total, rows = blocks_of(args.data, args.key, self._shape(), columns)
        ids, self.column = ids_for(args.data, rows, args.ids)
        self._ids = None if ids is None else as_store_ids(ids if isinstance(ids, list) else ids.tolist(), store)
        files = [(args.ids, self._ids, "ids"), (args.payload, self._table, "rows")]
        for name, given, what in files:
            if given is not None and total is not None and len(given) != total:
                raise InputError(f"{name!r} has {len(given):,} {what}, {args.data!r} has {total:,} rows")
        try:
            progress("adding", 0.0 if total else float("nan"))
            for block in blocks:
                self._put(block)
                self.n += len(block.x)
                progress(f"{self.n:,} rows added", block.done)
            for name, given, what in files:
                if given is not None and len(given) > self.n:
                    raise InputError(f"{name!r} has {len(given):,} {what}, {args.data!r} only {self.n:,} rows")
        except InputError as error:
            raise PartlyAddedError(f"{error}; {self._progress_text()}", self.n) if self.n else error from error
        except FileError as error:
            if not self.n:
                raise
            raise type(error)(error.errno, f"{error.strerror or error}; {self._progress_text()}", store.path) from error
        except KeyboardInterrupt:
            print(f"interlace: {self._progress_text()}", file=sys.stderr)
            raise

    def _progress_text(self) -> str:
        return "1 earlier row was added" if self.n == 1 else f"{self.n:,} earlier rows were added"

    def _shape(self) -> tuple[int, ...]:
        return (self._store.dim,) if self._args.embedded else self._store.input_shape

    def _put(self, block: Block) -> None:
        from .stores import as_store_ids

        args, ids = self._args, None
        if self._ids is not None:
            if block.ids is not None:
                raise InputError(f"the rows of {args.data!r} contain ids: do not pass --ids")
            ids = self._ids[self.n : self.n + len(block.x)]
        elif block.ids is not None:
            ids = as_store_ids(block.ids, self._store)
        options: dict[str, Any] = {"effort": args.effort, "threads": args.threads, "embedded": args.embedded}
        options["payload"] = self._payload(block)
        if not args.upsert:
            self._store.add(block.x, ids, **options)
        elif ids is None:
            raise InputError("--upsert needs ids: pass --ids FILE, or rows with ids")
        else:
            self._store.upsert(block.x, ids, **options)

    def _payload(self, block: Block) -> Any:
        if self._table is not None:
            if block.payload is not None:
                raise InputError(f"the rows of {self._args.data!r} contain column values: do not pass --payload")
            return self._table.slice(self.n, len(block.x))
        return block.payload
