"""``interlace create``: a store from an index, a model or codebooks."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import InputError
from .options import add_json

HELP = "make a store, a directory whose rows come and go"
DESCRIPTION = """\
Makes a store: a directory that rows are added to and removed from, durably, while others search it.
From an index (`interlace build`) it takes rows, ids and calibration; from a model (`interlace fit`) or
codebooks it is empty at first, and codes rows by them.

Rows may have columns, to filter searches by: their types are those of Arrow (int64, float32, string,
bool, date32, timestamp[us], ...; pip install 'interlace[io]'). Kept originals let searches compare the
best rows with the vectors themselves (--rerank, --recall), and books be learned anew.
"""
EPILOG = """\
examples:
  interlace create my.store --from my.index
  interlace create my.store --from model.icq --originals float16
  interlace create my.store --from model.icq --column price:float32 --column tag:string
  interlace create my.store --from my.index --column price:float32 --payload prices.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace create``."""
    parser.add_argument("store", metavar="STORE", help="directory to make, new or empty")
    source = "index, model or codebooks file to make it from"
    parser.add_argument("--from", dest="source", metavar="FILE", required=True, help=source)
    column = "a column that rows have, and its type of Arrow, such as price:float32; once for each"
    parser.add_argument("--column", dest="columns", metavar="NAME:TYPE", action="append", help=column, type=_column)
    payload = "values of the columns for the rows of an index: .parquet, .arrow, .csv, .tsv, .jsonl"
    parser.add_argument("--payload", metavar="FILE", help=payload)
    originals = "keep vectors beside their codes, in two bytes a dimension or in one (default: not at all)"
    parser.add_argument("--originals", choices=("float16", "int8"), help=originals)
    parser.add_argument("--empty", action="store_true", help="take the books of an index, and none of its rows")
    add_json(parser)


def _column(text: str) -> tuple[str, str]:
    name, _, kind = text.rpartition(":")
    if not name or not kind:
        raise argparse.ArgumentTypeError(f"NAME:TYPE is needed, such as price:float32, got {text!r}")
    return name, kind


def run(args: argparse.Namespace) -> int:
    """Create and tell."""
    from .. import Index, create
    from .output import print_json
    from .stores import extras_of

    source, columns = _source(args.source, args.empty), _columns(args.columns)
    if args.originals is not None and isinstance(source, Index) and len(source):
        raise InputError(
            f"{args.source!r} holds codes of its rows, no originals: --empty takes its books alone, and "
            "`interlace add` adds the vectors"
        )
    with create(
        args.store, source, columns=columns, payload=_payload(args, columns), originals=args.originals
    ) as store:
        rows, codebooks = len(store), store.codebooks
        if args.json:
            facts = {"rows": rows, "dim": store.dim, "metric": store.metric, "n_bytes": codebooks.n_bytes}
            print_json({"store": args.store, "from": args.source, **facts, **extras_of(store)})
            return 0
        extras = extras_of(store)
    print(f"{args.store}: a store of {rows:,} rows")
    print(codebooks)
    if extras["columns"]:
        print("columns: " + ", ".join(f"{name} ({kind})" for name, kind in extras["columns"].items()))
    if extras["originals"]:
        print(f"originals: {extras['originals']}")
    return 0


def _columns(given: list[tuple[str, str]] | None) -> dict[str, str] | None:
    if given is None:
        return None
    names = [name for name, _ in given]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--column {name} is given more than once")
    return dict(given)


def _payload(args: argparse.Namespace, columns: dict[str, str] | None) -> Any:
    """Read in the types that the columns are to have."""
    if args.payload is None:
        return None
    from ..inputs.payload import read_payload
    from ..store.columns import Columns

    if columns is None:
        raise InputError("--payload needs columns: --column NAME:TYPE")
    return read_payload(args.payload, Columns.of(columns).schema)


def _source(path: str, empty: bool) -> Any:
    from .. import Codebooks, Index
    from ..files.storage import read
    from .inputs import load_model

    kind = read(path).meta.get("kind")
    if kind == "index":
        index = Index.open(path)
        return Index(index.codebooks, index.embedding) if empty else index
    return Codebooks.load(path) if kind == "codebooks" else load_model(path)
