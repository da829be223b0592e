"""``interlace fit``: learns a model that encodes vectors; with labels also an embedding."""

from __future__ import annotations

import argparse
import os
import shlex
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .joint import add_joint, check_options, labels_of, method_named, recipe_of
from .options import add_json, add_learning, add_threads, learning

if TYPE_CHECKING:
    from ..estimators.models import Model

HELP = "learn a model from a file of vectors, for build --model and encode"
DESCRIPTION = """\
Learns codebooks from a sample of the vectors and writes them to one model
file. All indexes built with it (`interlace build --model`) and all codes
(`interlace encode`) share these codebooks. DATA is any file that `interlace
build` reads.

With --labels, an embedding is learned together with the codebooks, so that
rows of the same class get similar codes. Inputs are then flat rows or images
[rows, channels, height, width].

Ctrl-C stops learning early: the best model so far is written, and the exit
code is 130. Nothing is written before the first codebooks exist.
"""
EPILOG = """\
labels:
  y.npy, y.txt, y.csv       one label per row, integers or strings
  y.csv --labels-key class  the column of that name in the header
  set.npz --labels-key y    an array, column or data set (.npz, .parquet, .h5)
  class                     any other name: the array or column of that name in DATA

examples:
  interlace fit vectors.npy -o model.icq
  interlace fit set.npz --key train --n-bytes 16 --layout residual -o model.icq
  interlace fit vectors.npy --max-train-rows 20000 --max-memory 1GB -o model.icq
  interlace fit x.npy --labels y.npy --dim 16 --plot fit.png -o model.icq
  interlace fit x.npy --labels y.npy --embedding mlp --hidden 256,128 -o m.icq
  interlace fit items.parquet --key 'f*' --labels class --json -o model.icq
  interlace fit i.npy --labels y.txt --embedding lenet --checkpoint c -o m.icq
  interlace fit x.npy --labels y.npy --recipe paper --set pi2=0.3 -o model.icq
"""
PLOTS = (".png", ".pdf", ".svg")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace fit``."""
    parser.add_argument("data", metavar="DATA", help="file of vectors, one per row")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="model file to write; replaces an existing one"
    )
    parser.add_argument("--key", help="which array (.npz), column (.parquet) or data set (.h5) of DATA")
    plot = "draw the variances with psi and the prior, with labels also the losses (.png, .pdf, .svg)"
    parser.add_argument("--plot", metavar="FILE", help=plot)
    add_joint(parser)
    add_learning(parser)
    add_threads(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Learn, save, print a summary."""
    from ..data import read_inputs, read_vectors
    from ..errors import FitInterruptedWarning, InputError
    from .output import progress_bar, warnings_in_a_line
    from .targets import check_interlace_target

    check_options(args)
    labelled = "labels" in args
    check_interlace_target(args.output, "a model", args.data, args.labels if labelled else None)
    if "checkpoint" in args:
        if os.path.realpath(args.checkpoint) == os.path.realpath(args.output):
            raise InputError(f"--output and --checkpoint are the same file, {args.output!r}: choose different names")
        check_interlace_target(args.checkpoint, "a checkpoint", args.data, args.labels)
    if args.plot is not None:
        _check_plot(args)
    vectors = (read_inputs if labelled else read_vectors)(args.data, args.key)
    labels = labels_of(args.labels, getattr(args, "labels_key", None), args.data, vectors) if labelled else None
    started = time.perf_counter()
    with warnings_in_a_line() as printed, progress_bar() as progress:
        model = _estimator(args, labelled).set_params(progress=progress)
        model.fit(vectors, labels)
    interrupted = any(isinstance(warning, FitInterruptedWarning) for warning in printed)
    model.set_params(threads=None, progress=False)  # the number of threads of this machine is not stored
    if labelled:
        model.set_params(checkpoint=None)
    model.save(args.output)
    if args.plot is not None:
        _draw(model, args.plot)
    _print_summary(args, model, len(vectors), time.perf_counter() - started, interrupted)
    return 130 if interrupted else 0


def _estimator(args: argparse.Namespace, labelled: bool) -> Any:
    from .. import ICQ

    if not labelled:
        return ICQ(**learning(args), threads=args.threads)
    names = ("embedding", "dim", "hidden", "loss", "optimize", "validation", "checkpoint", "device")
    given = learning(args) | {name: getattr(args, name) for name in names if name in args}
    given |= {"recipe": recipe_of(args), "threads": args.threads}
    return method_named(getattr(args, "method", "icq")).make(**given)


def _check_plot(args: argparse.Namespace) -> None:
    """Refuse a wrong --plot before minutes of learning."""
    from ..errors import InputError
    from .targets import check_folder

    if Path(args.plot).suffix.lower() not in PLOTS:
        raise InputError(f"--plot must end with {', '.join(PLOTS)}, got {args.plot!r}")
    check_folder(args.plot, "a plot", args.data, args.output)
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError("--plot needs matplotlib: pip install 'interlace[plot]'") from error


def _draw(model: Model, path: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from .. import plot

    both = bool(getattr(model, "history_", None))
    # Not pyplot, which has global state and opens windows.
    figure = Figure(figsize=(7.2, 7.4 if both else 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1 + both, 1, squeeze=False)[:, 0]
    plot.variance_spectrum(model, ax=axes[0])
    if both:
        plot.losses(model, ax=axes[1])
    figure.savefig(path, dpi=150)


def _print_summary(args: argparse.Namespace, model: Model, rows: int, seconds: float, interrupted: bool) -> None:
    from .output import aligned, print_json

    books, size = model.codebooks_, os.path.getsize(args.output)
    choice, info = getattr(model, "choice_", None), model.fit_info_
    high = float(books.variances[books.crude_dims].sum() / max(float(books.variances.sum()), 1e-300))
    if args.json:
        found: dict[str, Any] = {"file": args.output, "file_bytes": size, "rows": rows, "plot": args.plot}
        found |= {name: getattr(books, name) for name in ("dim", "metric", "layout", "n_books", "n_crude", "n_bytes")}
        found |= {"choice": None if choice is None else asdict(choice), "seconds": seconds, "interrupted": interrupted}
        if choice is None:
            found |= {"psi": books.crude_dims, "psi_variance": high, "fit": info, "history": model.history_}
        print_json(found)
        return
    ended = ", stopped by Ctrl-C" if interrupted else ""
    print(f"{args.output}: {size:,} bytes, learned in {seconds:.1f} s{ended}")
    print(books)
    if choice is not None:
        print(choice)
    else:
        print(aligned(_facts(model, rows, high)))
    if args.plot is not None:
        print(f"plot: {args.plot}")
    if choice is None:
        name = shlex.quote(args.output)
        print(f"next: interlace evaluate {name} QUERIES --labels QUERY_LABELS")
        print(f"      interlace build DATA --model {name} -o my.index")


def _facts(model: Model, rows: int, high: float) -> list[tuple[str, ...]]:
    """Results of learning with labels."""
    info, books = model.fit_info_, model.codebooks_
    score, held = info.get("validation_map"), model.n_samples_fit_ - len(model.sample_)
    text = "none: no rows were held out"
    if score is not None:
        text = f"{score:.4f} on {held:,} held-out rows, best of {info['epochs']} epochs"
    facts: list[tuple[str, ...]] = [("validation MAP", text)]
    if "ops" in info:
        cells = f"{info['ops_in_cells']:.2f} when whole cells are skipped"
        facts.append(("ops per vector", f"{info['ops']:.2f} of {books.n_books} (exact, k = {info['list']}); {cells}"))
    psi = f"{len(books.crude_dims)} of {books.dim} dimensions, {high:.1%} of the variance"
    facts.append(("psi", psi if len(books.crude_dims) else "none: these codebooks do not split the dimensions"))
    if model.embedding_ is not None:
        facts.append(("embedding", repr(model.embedding_)))
    return facts
