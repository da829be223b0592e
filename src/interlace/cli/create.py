"""``interlace create``: a store from an index, a model or codebooks."""

from __future__ import annotations

import argparse
from typing import Any

from .options import add_json

HELP = "make a store, a directory whose rows come and go"
DESCRIPTION = """\
Makes a store: a directory that rows are added to and removed from, durably, while others search it.
From an index (`interlace build`) it takes rows, ids and calibration; from a model (`interlace fit`) or
codebooks it is empty at first, and codes rows by them.
"""
EPILOG = """\
examples:
  interlace create my.store --from my.index
  interlace create my.store --from model.icq
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace create``."""
    parser.add_argument("store", metavar="STORE", help="directory to make, new or empty")
    source = "index, model or codebooks file to make it from"
    parser.add_argument("--from", dest="source", metavar="FILE", required=True, help=source)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Create and tell."""
    from .. import create
    from .output import print_json

    with create(args.store, _source(args.source)) as store:
        rows, codebooks = len(store), store.codebooks
        if args.json:
            facts = {"rows": rows, "dim": store.dim, "metric": store.metric, "n_bytes": codebooks.n_bytes}
            print_json({"store": args.store, "from": args.source, **facts})
            return 0
    print(f"{args.store}: a store of {rows:,} rows")
    print(codebooks)
    return 0


def _source(path: str) -> Any:
    from .. import Codebooks, Index
    from ..storage import read
    from .inputs import load_model

    kind = read(path).meta.get("kind")
    if kind == "index":
        return Index.open(path)
    return Codebooks.load(path) if kind == "codebooks" else load_model(path)
