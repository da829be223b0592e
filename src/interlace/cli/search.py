"""``interlace search``: finds the nearest rows of an index or a store for a file of queries."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from .options import add_embedded, add_json, add_threads, margin, natural, positive, share

if TYPE_CHECKING:
    from .. import Index, Matches, Store
    from ..progress import Progress

HELP = "find the nearest vectors of each query"
DESCRIPTION = """\
Finds the k nearest vectors of each query and prints the cost of the search: rows scanned, survivors
of the crude step (rows whose full distance was computed), and time. Searches of a store can be
filtered by columns, and re-ranked by exact distances if the store keeps the original vectors.
"""
EPILOG = """\
margins:
  0.999   99.9 % of the hits agree with the full scan on average (any number below 1)
  exact   always the same result as the full scan
  paper   the rule of the ICQ paper
  inf     the full scan
Without --margin, --rerank and --recall: --recall 0.95 where originals are kept, else --margin 0.999.

examples:
  interlace search my.index queries.npy -k 10
  interlace search my.index queries.fvecs -k 100 --margin exact --truth groundtruth.ivecs
  interlace search my.index queries.npy --output hits.npz --json
  interlace search my.store queries.npy --filter "price < 10 and tag in ('a', 'b')" --payload
  interlace search my.store queries.npy --recall 0.95
"""
QUERIES_PER_BLOCK = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace search``."""
    parser.add_argument("index", metavar="FILE", help="index written by `interlace build`, or a store")
    parser.add_argument(
        "queries", metavar="QUERIES", help="file of query vectors, one per row, in any format that build reads"
    )
    parser.add_argument("-k", type=positive, default=10, metavar="K", help="neighbours per query (default: 10)")
    parser.add_argument("--margin", type=margin, help="target agreement with the full scan, see below")
    parser.add_argument("--offset", type=natural, default=0, metavar="N", help="skip the N nearest (default: 0)")
    parser.add_argument("--key", help="which array, column or data set of QUERIES")
    parser.add_argument(
        "--truth", metavar="FILE", help="ids of the true neighbours (.ivecs, .npy, ...), to print recall@k"
    )
    parser.add_argument("--truth-key", metavar="KEY", help="which array, column or data set of the file of --truth")
    parser.add_argument("--output", metavar="HITS.npz", help="write ids, distances and counts for all queries")
    parser.add_argument(
        "--show", type=natural, default=5, metavar="N", help="print the hits of the first N queries (default: 5)"
    )
    of_stores = parser.add_argument_group("stores")
    of_stores.add_argument("--filter", metavar="TEXT", help="condition on columns that hits must meet (docs/store.md)")
    of_stores.add_argument("--payload", action="store_true", help="also print the columns of hits")
    depth = parser.add_argument_group("kept originals").add_mutually_exclusive_group()
    depth.add_argument("--rerank", type=positive, metavar="N", help="re-rank the N best rows by exact distances")
    depth.add_argument(
        "--recall", type=share, metavar="R", help="re-rank as many rows as this recall needs (calibrated)"
    )
    add_embedded(parser)
    add_threads(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Search, save, print."""
    from .. import InputError, evaluate
    from .. import open as open_index
    from ..data import read_vectors
    from .inputs import read_truth
    from .output import aligned, print_json, progress_bar

    if args.output is not None and not args.output.endswith(".npz"):
        raise InputError(f"--output must end with .npz, got {args.output!r}")
    index = open_index(args.index)
    options = _search_options(args, index)
    queries = read_vectors(args.queries, args.key, input_shape=None if args.embedded else index.input_shape)
    truth = None if args.truth is None else read_truth(args.truth, args.truth_key)
    with progress_bar() as progress:
        matches = search(index, queries, args.k, progress, **options)
    recall = None if truth is None else evaluate.recall(matches.ids, truth, args.k)
    if args.output is not None:
        _save(args.output, matches)
    if args.json:
        hits = [
            {"ids": matches.ids[i, :count].tolist(), "distances": matches.distances[i, :count]}
            | ({"payload": _payload(index, matches.ids[i, :count])} if args.payload else {})
            for i, count in enumerate(matches.counts[: args.show].tolist())
        ]
        stats = asdict(matches.stats) | {"ops_per_vector": matches.stats.ops_per_vector}
        print_json({"k": args.k, "recall": recall, "stats": stats, "hits": hits, "output": args.output})
        return 0
    for i, count in enumerate(matches.counts[: args.show].tolist()):
        best = [f"{matches.ids[i, j]} ({matches.distances[i, j]:.4g})" for j in range(min(count, 5))]
        if args.payload and best:
            print(f"query {i}:")
            rows = [
                (hit, *values)
                for hit, values in zip(best, _payload_text(index, matches.ids[i, : len(best)]), strict=True)
            ]
            print(aligned(rows) + ("\n  ..." if count > 5 else ""))
        else:
            print(f"query {i}: " + ("  ".join(best) + ("  ..." if count > 5 else "") if best else "no hits"))
    if len(matches) > args.show:
        print(
            f"... and {len(matches) - args.show} more queries"
            + ("" if args.output else "; write all of them with --output HITS.npz")
        )
    print(matches.stats)
    if matches.stats.queries:
        print(f"{matches.stats.seconds / matches.stats.queries * 1e6:.1f} microseconds per query")
    if recall is not None:
        print(f"recall@{args.k}: {recall:.4f}")
    if args.output is not None:
        print(f"wrote {args.output}")
    return 0


def _search_options(args: argparse.Namespace, index: Index | Store) -> dict[str, Any]:
    """Keywords of ``search``; options that only stores have are refused for an index."""
    from .. import InputError, Store

    options: dict[str, Any] = {name: getattr(args, name) for name in ("margin", "offset", "threads", "embedded")}
    deeper = {name: getattr(args, name) for name in ("rerank", "recall")}
    options |= {name: value for name, value in deeper.items() if value is not None}
    given = {name: getattr(args, name) for name in ("filter", "payload")}
    given = {name: value for name, value in given.items() if value is not None and value is not False}
    if given and not isinstance(index, Store):
        raise InputError(
            f"--{min(given)} needs a store, {args.index!r} is an index: create one with `interlace create`"
        )
    if given.pop("payload", False) and isinstance(index, Store) and index.columns is None:
        raise InputError(f"{args.index!r} has no columns: do not pass --payload")
    return options | given


def _payload(store: Any, ids: Any) -> list[dict[str, Any]]:
    """Columns of hits."""
    found: list[dict[str, Any]] = store.payload(ids).to_pylist()
    return found


def _payload_text(store: Any, ids: Any) -> list[tuple[str, ...]]:
    """Columns of hits as text, floats with six digits."""
    return [
        tuple(f"{name}={f'{value:.6g}' if isinstance(value, float) else value}" for name, value in row.items())
        for row in _payload(store, ids)
    ]


def search(index: Index | Store, queries: Any, k: int, progress: Progress, **options: Any) -> Matches:
    """``index.search`` in blocks, for the progress bar and to read queries as they are needed; same result."""
    import numpy as np

    from .. import SearchStats

    n, parts = len(queries), []
    for start in range(0, max(n, 1), QUERIES_PER_BLOCK):
        progress("searching", start / max(n, 1))
        block = queries[start : start + QUERIES_PER_BLOCK]
        parts.append(index.search(block, k, **options))
    progress("done", 1.0)
    if len(parts) == 1:
        return parts[0]
    return replace(
        parts[0],
        ids=np.concatenate([part.ids for part in parts]),
        distances=np.concatenate([part.distances for part in parts]),
        counts=np.concatenate([part.counts for part in parts]),
        stats=SearchStats.summed([part.stats for part in parts]),
    )


def _save(path: str, matches: Matches) -> None:
    """Write all hits atomically; string ids as fixed-width text, because an object array would be a pickle."""
    import numpy as np

    ids = matches.ids
    if ids.dtype == object:
        ids = np.array([["" if v is None else v for v in row] for row in ids.tolist()], dtype=np.str_).reshape(
            ids.shape
        )
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            np.savez(file, ids=ids, distances=matches.distances, counts=matches.counts)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
