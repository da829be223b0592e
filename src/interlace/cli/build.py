"""``interlace build``: vectors in, an index file out."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict

from .options import add_json, add_threads, natural, positive

HELP = "learn codes for a file of vectors and write an index"
DESCRIPTION = """\
Learns codes from a sample of the vectors, codes all of them, and writes one index file.
Vectors: .npy, .npz, .fvecs, .bvecs, .ivecs, .fbin, .u8bin, .i8bin; .parquet and .h5 with
pip install 'interlace[io]'. The file is read in blocks and may be larger than memory.
"""
EPILOG = """\
examples:
  interlace build vectors.npy -o my.index
  interlace build features.npz --key train --n-bytes 16 --metric cosine -o my.index
  interlace build items.parquet --key embedding --ids names.txt -o items.index
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace build``."""
    parser.add_argument("data", metavar="DATA", help="file of vectors, one per row")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="index file to write; an old index is replaced"
    )
    parser.add_argument("--key", help="which array (.npz), column (.parquet) or data set (.h5) of DATA")
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--n-bytes", type=positive, metavar="N", help="bytes per vector: more is more accurate (default: 8)"
    )
    size.add_argument("--n-books", type=positive, metavar="N", help="the same in books, norm columns not counted")
    layout = ("auto", "hybrid", "subspace", "residual")
    parser.add_argument(
        "--layout", choices=layout, default="auto", help="how the books share the dimensions (default: auto)"
    )
    metric = "l2 (Euclidean), ip (inner product) or cosine (default: l2)"
    parser.add_argument("--metric", choices=("l2", "ip", "cosine"), default="l2", help=metric)
    ids = "ids of the rows: a 1-D .npy, or text with one id per line (default: 0, 1, 2, ...)"
    parser.add_argument("--ids", metavar="FILE", help=ids)
    parser.add_argument(
        "--n-crude", type=positive, metavar="N", help="books read in the first, crude step (default: by layout)"
    )
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="same seed, same index (default: 0)")
    add_threads(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Build, save, report."""
    from .. import Index
    from ..data import read_vectors
    from .inputs import read_ids
    from .output import print_json, progress_bar

    _check_target(args.output, args.data)
    vectors = read_vectors(args.data, args.key)
    ids = None if args.ids is None else read_ids(args.ids)
    started = time.perf_counter()
    with progress_bar() as progress:
        index = Index.build(
            vectors,
            n_bytes=args.n_bytes,
            n_books=args.n_books,
            layout=args.layout,
            metric=args.metric,
            ids=ids,
            n_crude=args.n_crude,
            seed=args.seed,
            threads=args.threads,
            progress=progress,
        )
    index.save(args.output)
    seconds = time.perf_counter() - started
    report = index.report()
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
                "report": asdict(report),
                "seconds": seconds,
            }
        )
        return 0
    print(f"{args.output}: {os.path.getsize(args.output):,} bytes, built in {seconds:.1f} s")
    print(index.codebooks)
    print(report)
    return 0


def _check_target(output: str, data: str) -> None:
    """What would make the save fail, or destroy something, is better told before minutes of learning."""
    from .. import FileError, InputError, NotAnIndexError
    from ..storage import read

    if os.path.isdir(output):
        raise InputError(f"cannot write an index to {output!r}: it is a directory")
    folder = os.path.dirname(os.path.realpath(output))
    if not os.path.isdir(folder):
        raise InputError(f"cannot write an index to {output!r}: there is no folder {os.path.dirname(output)!r}")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"cannot write an index to {output!r}: no permission to write in its folder")
    if not os.path.exists(output):
        return
    if os.path.exists(data) and os.path.samefile(output, data):
        raise InputError(f"the index would replace its own data: {output!r}")
    try:
        read(output)
    except NotAnIndexError as error:
        if os.path.getsize(output):
            raise InputError(
                f"not overwriting {output!r}, which is no interlace file: remove it or choose another name"
            ) from error
    except FileError:
        pass  # a damaged or newer index may be replaced
