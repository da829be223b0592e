"""``interlace encode``: writes the codes of a file of vectors."""

from __future__ import annotations

import argparse
import time
from typing import get_args

from ..inputs.literals import Effort
from .options import add_json, add_threads

HELP = "encode a file of vectors with a model of `interlace fit`"
DESCRIPTION = """\
Writes the codes of vectors as a uint8 array with one row per vector: the number of its cell, then one
byte per column. In Python, `Index.from_codes(ICQ.load(model).codebooks_, codes)` makes an index of them.
"""
EPILOG = """\
examples:
  interlace encode vectors.npy --model model.icq -o codes.npy
  interlace encode items.parquet --key embedding --model model.icq --effort best -o codes.npy
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace encode``."""
    parser.add_argument("data", metavar="DATA", help="file of vectors, one per row")
    parser.add_argument("--model", metavar="FILE", required=True, help="model written by `interlace fit`")
    parser.add_argument("-o", "--output", metavar="CODES.npy", required=True, help="uint8 [vectors, n_bytes]")
    parser.add_argument("--key", help="which array (.npz), column (.parquet) or data set (.h5) of DATA")
    parser.add_argument(
        "--effort", choices=get_args(Effort), help="encoding time against accuracy (default: that of the model)"
    )
    add_threads(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Encode and save."""
    from ..data import read_vectors
    from ..errors import InputError
    from .inputs import load_model
    from .output import print_json, save_npy
    from .targets import check_folder

    if not args.output.endswith(".npy"):
        raise InputError(f"--output must end with .npy, got {args.output!r}")
    check_folder(args.output, "codes", args.data, args.model)
    model = load_model(args.model)
    model.set_params(threads=args.threads)
    shape = None if model.embedding_ is None else model.embedding_.input_shape
    vectors = read_vectors(args.data, args.key, input_shape=shape)
    started = time.perf_counter()
    codes = model.encode(vectors, effort=args.effort)
    seconds = time.perf_counter() - started
    save_npy(args.output, codes)
    if args.json:
        print_json({"file": args.output, "rows": len(codes), "n_bytes": codes.shape[1], "seconds": seconds})
    else:
        print(f"{args.output}: {len(codes):,} rows of {codes.shape[1]} bytes, encoded in {seconds:.1f} s")
    return 0
