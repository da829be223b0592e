"""``interlace build``: builds an index file from a file of vectors."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from .options import add_json, add_learning, add_row_ids, add_threads, learning

if TYPE_CHECKING:
    from ..estimators.models import Model

HELP = "learn codebooks from a file of vectors and write an index"
DESCRIPTION = """\
Learns codebooks from a sample of the vectors, encodes all vectors, and writes
one index file. Vectors: .npy, .npz, .fvecs, .bvecs, .ivecs, .fbin, .u8bin,
.i8bin; .parquet and .h5 with pip install 'interlace[io]'. The file is read in
blocks and may be larger than memory. The column id of a .parquet file holds
the ids of the rows. With a model that has an embedding
(--model), DATA holds raw inputs, in their shape or as flat rows.
"""
EPILOG = """\
examples:
  interlace build vectors.npy -o my.index
  interlace build set.npz --key train --n-bytes 16 --metric cosine -o my.index
  interlace build items.parquet --key embedding --ids sku -o items.index
  interlace build vectors.npy --effort best --max-memory 2GB -o my.index
  interlace build more.npy --model model.icq -o more.index
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace build``."""
    parser.add_argument("data", metavar="DATA", help="file of vectors, one per row")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="index file to write; replaces an existing index"
    )
    parser.add_argument("--key", help="which array (.npz), column (.parquet) or data set (.h5) of DATA")
    add_row_ids(parser, "0, 1, 2, ...")
    originals = "also keep the vectors for re-ranking, with two bytes or one byte per dimension (default: not kept)"
    parser.add_argument("--originals", choices=("float16", "int8"), help=originals)
    parser.add_argument("--model", metavar="FILE", help="encode with a model of `interlace fit`; nothing is learned")
    add_learning(parser)
    add_threads(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Build, save, print a report."""
    from .. import Index
    from ..data import read_vectors
    from .inputs import ids_for
    from .output import print_json, progress_bar
    from .targets import check_interlace_target

    check_interlace_target(args.output, "an index", args.data, args.model)
    model = None if args.model is None else _model(args)
    shape = None if model is None or model.embedding_ is None else model.embedding_.input_shape
    vectors = read_vectors(args.data, args.key, input_shape=shape)
    ids, column = ids_for(args.data, vectors, args.ids)
    started = time.perf_counter()
    with progress_bar() as progress:
        if model is None:
            given = {"ids": ids, "originals": args.originals, "progress": progress, "threads": args.threads}
            index = Index.build(vectors, **given, **learning(args))
        else:
            index = model.set_params(progress=progress).index(vectors, ids, originals=args.originals)
    index.save(args.output)
    seconds = time.perf_counter() - started
    report, choice = index.report(), index.choice
    if args.json:
        print_json(
            {
                "file": args.output,
                "file_bytes": os.path.getsize(args.output),
                "rows": len(index),
                "dim": index.dim,
                "metric": index.metric,
                "layout": index.codebooks.layout,
                "n_bytes": index.codebooks.n_bytes,
                "code_bytes_per_vector": report.code_bytes_per_vector,
                "choice": None if choice is None else asdict(choice),
                "report": asdict(report),
                "seconds": seconds,
            }
        )
        return 0
    print(f"{args.output}: {os.path.getsize(args.output):,} bytes, built in {seconds:.1f} s")
    if column is not None:
        print(f"ids are those of column {column!r}")
    print(index.codebooks)
    if choice is not None:  # None for a model learned with labels
        print(choice)
    print(report)
    return 0


def _model(args: argparse.Namespace) -> Model:
    """The model of --model, which allows no other learning options."""
    from ..errors import InputError
    from .inputs import load_model

    if given := learning(args):
        name = next(iter(given)).replace("_", "-")
        raise InputError(f"--model and --{name} cannot be combined: the codebooks of a model are already learned")
    model = load_model(args.model)
    model.set_params(threads=args.threads)
    return model
