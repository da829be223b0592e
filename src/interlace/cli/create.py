"""``interlace create``: creates a store from an index, a model or codebooks, or one that learns its own."""

from __future__ import annotations

import argparse
from typing import Any, get_args

from ..errors import InputError
from ..inputs.literals import Relearn
from .options import add_json, add_learning, learning, positive

HELP = "create a store, a crash-safe directory that you can add to and delete from"
DESCRIPTION = """\
Creates a store: a crash-safe directory that you can add to and delete from while other processes
search it. From an index (`interlace build`) it takes rows, ids and calibration. From a model
(`interlace fit`) or codebooks it starts empty and encodes new rows with them.

With --dim it needs none of these: it keeps the vectors themselves and searches them exactly until there
are enough of them to learn codebooks from. `interlace add` then learns, and learns again when rows change
or there are many more of them; with --relearn manual only `interlace relearn` does.

Rows may have columns to filter searches by. Column types are those of Arrow (int64, float32, string,
bool, date32, timestamp[us], ...; pip install 'interlace[io]'). A store that keeps originals can re-rank
search results by exact distances (--rerank, --recall) and learn new codebooks (`interlace relearn`).
"""
EPILOG = """\
examples:
  interlace create my.store --dim 384 --metric cosine --bytes 32
  interlace create my.store --from my.index
  interlace create my.store --from model.icq --originals float16
  interlace create my.store --from model.icq --column price:float32 --column tag:string
  interlace create my.store --from my.index --column price:float32 --payload prices.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace create``."""
    parser.add_argument("store", metavar="STORE", help="directory to create; may exist if it is empty")
    origin = parser.add_mutually_exclusive_group(required=True)
    source = "index, model or codebooks file"
    origin.add_argument("--from", dest="source", metavar="FILE", help=source)
    dim = "dimensions of the vectors of a store that learns its own codebooks"
    origin.add_argument("--dim", type=positive, metavar="N", help=dim)
    column = "a column and its Arrow type, such as price:float32; repeat for several columns"
    parser.add_argument("--column", dest="columns", metavar="NAME:TYPE", action="append", help=column, type=_column)
    payload = "values of the columns for the rows of an index: .parquet, .arrow, .csv, .tsv, .jsonl"
    parser.add_argument("--payload", metavar="FILE", help=payload)
    originals = "also keep the vectors, with two bytes or one per dimension (float16 with --dim, else none)"
    parser.add_argument("--originals", choices=("float16", "int8", "none"), help=originals)
    parser.add_argument("--empty", action="store_true", help="take only the codebooks of an index, not its rows")
    relearn = "with --dim: learn codebooks automatically, or only by `interlace relearn` (auto)"
    parser.add_argument("--relearn", choices=get_args(Relearn), help=relearn)
    learn_at = "with --dim: rows at which codebooks are learned for the first time (40 per word: 10240)"
    parser.add_argument("--learn-at", type=positive, metavar="N", help=learn_at)
    add_learning(parser)
    add_json(parser)


def _column(text: str) -> tuple[str, str]:
    name, _, kind = text.rpartition(":")
    if not name or not kind:
        raise argparse.ArgumentTypeError(f"expected NAME:TYPE, such as price:float32, got {text!r}")
    return name, kind


def run(args: argparse.Namespace) -> int:
    """Create and print a summary."""
    from .. import Index, create
    from .output import print_json
    from .stores import extras_of

    source, columns = None if args.source is None else _source(args.source, args.empty), _columns(args.columns)
    originals = {None: "auto", "none": None}.get(args.originals, args.originals)
    settings = {"dim": args.dim, "relearn": args.relearn, "learn_at": args.learn_at, **learning(args)}
    if args.originals is not None and isinstance(source, Index) and len(source) and source.originals is None:
        raise InputError(
            f"--originals needs the vectors, {args.source!r} holds only their codes: use --empty, then add the vectors "
            "with `interlace add`"
        )
    with create(
        args.store, source, columns=columns, payload=_payload(args, columns), originals=originals, **settings
    ) as store:
        rows, codebooks, extras = len(store), store.codebooks, extras_of(store)
        facts = {"rows": rows, "dim": store.dim, "metric": store.metric, "n_bytes": codebooks.n_bytes}
        plan = store.snapshot.plan
    if plan is not None:
        facts |= {"n_bytes": plan.code_bytes, "learn_at": plan.learn_at, "relearn": plan.relearn}
    if args.json:
        print_json({"store": args.store, "from": args.source, **facts, **extras})
        return 0
    print(f"{args.store}: a store of {rows:,} rows")
    if plan is None:
        print(codebooks)
    else:
        how = "" if plan.relearn == "auto" else " by `interlace relearn`"
        print(
            f"{facts['dim']} dimensions, {facts['metric']}; vectors are kept until codebooks of {plan.code_bytes} "
            f"bytes are learned{how} from {plan.learn_at:,} rows or more"
        )
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
            raise InputError(f"--column {name} is given {names.count(name)} times; column names must be unique")
    return dict(given)


def _payload(args: argparse.Namespace, columns: dict[str, str] | None) -> Any:
    """The table of --payload, read with the types of the columns."""
    if args.payload is None:
        return None
    from ..data import read_payload
    from ..store.columns import Columns

    if columns is None:
        raise InputError("--payload needs --column NAME:TYPE for each column")
    return read_payload(args.payload, Columns.of(columns).schema)


def _source(path: str, empty: bool) -> Any:
    from .. import Codebooks, Index
    from .inputs import file_kind, load_model

    kind = file_kind(path)
    if kind == "index":
        index = Index.open(path)
        return Index(index.codebooks, index.embedding) if empty else index
    return Codebooks.load(path) if kind == "codebooks" else load_model(path)
