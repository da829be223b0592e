"""``interlace add``: rows of a file, or from stdin, into a store."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from ..errors import FileError, InputError, PartlyAddedError
from .options import add_embedded, add_json, add_threads
from .stores import add_store

if TYPE_CHECKING:
    from .. import Store
    from ..progress import Progress

HELP = "add rows to a store, from a file or from stdin"
DESCRIPTION = """\
Codes rows and adds them to a store, block by block: what a block has added is on disk. A row that
cannot be read, or a disk that is full, ends it: the error tells how many rows were added before.

DATA is any file that `interlace build` reads, or text with a row a line (.jsonl, .csv, ...), or -
for stdin, which may be a .npy array or such text:
  [0.1, 0.2, 0.3]                           JSON, the ids are made up
  {"id": "a", "vector": [0.1, 0.2, 0.3]}    JSON with ids
  0.1,0.2,0.3                               CSV; a first line of names may call a column id
"""
EPILOG = """\
examples:
  interlace add my.store more.npy
  interlace add my.store items.parquet --key embedding --ids names.txt
  interlace add my.store changed.jsonl --upsert
  interlace add my.store - < rows.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace add``."""
    add_store(parser)
    parser.add_argument("data", metavar="DATA", help="file of vectors, one per row, or - for stdin")
    parser.add_argument("--key", help="which array (.npz), column (.parquet) or data set (.h5) of DATA")
    ids = "ids of the rows: a 1-D .npy, or text with one id per line (default: the integers that follow)"
    parser.add_argument("--ids", metavar="FILE", help=ids)
    parser.add_argument("--upsert", action="store_true", help="replace rows whose ids are there; else they are refused")
    efforts = ("fastest", "fast", "balanced", "best")
    parser.add_argument("--effort", choices=efforts, help="time of coding against accuracy (as the books were learned)")
    add_embedded(parser)
    add_threads(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Add and tell."""
    from .output import print_json, progress_bar, warnings_in_a_line
    from .stores import open_store

    started = time.perf_counter()
    with open_store(args.store, "a") as store, warnings_in_a_line():
        adding = _Adding(args, store)
        try:
            with progress_bar() as progress:
                adding.run(progress)
        except (InputError, FileError) as error:
            if args.json:
                print_json({"store": args.store, "added": adding.n, "rows": len(store), "error": str(error)})
            raise
        seconds, rows = time.perf_counter() - started, len(store)
    if args.json:
        print_json({"store": args.store, "added": adding.n, "rows": rows, "seconds": seconds})
    else:
        print(f"{args.store}: {adding.n:,} rows added in {seconds:.1f} s; it has {rows:,}")
    return 0


class _Adding:
    def __init__(self, args: argparse.Namespace, store: Store) -> None:
        from .inputs import read_ids
        from .stores import as_store_ids

        self._args, self._store = args, store
        self._ids = None if args.ids is None else as_store_ids(read_ids(args.ids).tolist(), store)
        self.n = 0  # rows added so far

    def run(self, progress: Progress) -> None:
        """All blocks, or an error that says how many rows were added."""
        from .blocks import blocks_of

        store, given = self._store, self._ids
        blocks, total = blocks_of(self._args.data, self._args.key, self._shape())
        if given is not None and total is not None and len(given) != total:
            raise InputError(f"{self._args.ids!r} has {len(given):,} ids, {self._args.data!r} has {total:,} rows")
        try:
            progress("adding", 0.0 if total else float("nan"))
            for block in blocks:
                self._put(block.x, block.ids)
                self.n += len(block.x)
                progress(f"{self.n:,} rows added", block.done)
            if given is not None and len(given) > self.n:
                raise InputError(f"{self._args.ids!r} has {len(given):,} ids, there were {self.n:,} rows")
        except InputError as error:
            raise PartlyAddedError(f"{error}; {self._told()}", self.n) if self.n else error from error
        except FileError as error:
            if not self.n:
                raise
            raise type(error)(error.errno, f"{error.strerror or error}; {self._told()}", store.path) from error
        except KeyboardInterrupt:
            print(f"interlace: {self._told()}", file=sys.stderr)
            raise

    def _told(self) -> str:
        return f"{self.n:,} row{'s' * (self.n != 1)} before were added"

    def _shape(self) -> tuple[int, ...]:
        return (self._store.dim,) if self._args.embedded else self._store.input_shape

    def _put(self, x: Any, own: list[Any] | None) -> None:
        from .stores import as_store_ids

        args, ids = self._args, None
        if self._ids is not None:
            if own is not None:
                raise InputError(f"the rows of {args.data!r} have ids of their own: leave --ids out")
            ids = self._ids[self.n : self.n + len(x)]
        elif own is not None:
            ids = as_store_ids(own, self._store)
        how = {"effort": args.effort, "threads": args.threads, "embedded": args.embedded}
        if not args.upsert:
            self._store.add(x, ids, **how)
        elif ids is None:
            raise InputError("--upsert needs ids: --ids FILE, or rows that have them")
        else:
            self._store.upsert(x, ids, **how)
