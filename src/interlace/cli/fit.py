"""``interlace fit``: vectors in, a model out, which codes any vectors like them."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict

from .options import add_json, add_learning, add_threads, learning

HELP = "learn a model from a file of vectors, for build --model and encode"
DESCRIPTION = """\
Learns books from a sample of the vectors and writes them to one model file. Indexes that are
built with it (`interlace build --model`) and codes (`interlace encode`) can be compared with each
other. Vectors: the files that `interlace build` reads. Ctrl-C during the refits of overlapping
books ends learning early and keeps what was learned.
"""
EPILOG = """\
examples:
  interlace fit vectors.npy -o model.icq
  interlace fit features.npz --key train --n-bytes 16 --layout residual -o model.icq
  interlace fit vectors.npy --max-train-rows 20000 --max-memory 1GB --json -o model.icq
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace fit``."""
    parser.add_argument("data", metavar="DATA", help="file of vectors, one per row")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="model file to write; an old one is replaced"
    )
    parser.add_argument("--key", help="which array (.npz), column (.parquet) or data set (.h5) of DATA")
    add_learning(parser)
    add_threads(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Learn, save, tell."""
    from .. import ICQ
    from ..data import read_vectors
    from .output import print_json, progress_bar
    from .targets import check_interlace_target

    check_interlace_target(args.output, "a model", args.data)
    vectors = read_vectors(args.data, args.key)
    started = time.perf_counter()
    with progress_bar() as progress:
        model = ICQ(**learning(args), threads=args.threads, progress=progress).fit(vectors)
    model.set_params(threads=None)  # those of this machine, not of the next
    model.save(args.output)
    seconds, books = time.perf_counter() - started, model.codebooks_
    if args.json:
        found = {"file": args.output, "file_bytes": os.path.getsize(args.output), "rows": len(vectors)}
        found |= {name: getattr(books, name) for name in ("dim", "metric", "layout", "n_books", "n_crude", "n_bytes")}
        print_json(found | {"choice": asdict(model.choice_), "seconds": seconds})
        return 0
    print(f"{args.output}: {os.path.getsize(args.output):,} bytes, learned in {seconds:.1f} s")
    print(books)
    print(model.choice_)
    return 0
