"""``interlace ray``: builds, searches, describes and verifies an index in shards on a Ray cluster."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from typing import Any

from ..errors import InputError
from .options import add_json, add_learning, add_margin, add_threads, learning, natural, positive

HELP = "build and search an index in shards on a Ray cluster"
DESCRIPTION = """\
Works with an index in shards (docs/distributed.md). Needs the ray extra: pip install 'interlace[ray]'.
Without --address or RAY_ADDRESS, a cluster is started on this machine for as long as the command runs.
"""
CALIBRATE: dict[str, Any] = {"auto": "auto", "all": "all", "shards": "shards", "both": True, "none": False}
EPILOG = """\
examples:
  interlace ray build part-*.npy -o shards --shards 8 --address 10.0.0.1:6379
  interlace ray build s3://bucket/vectors/ -o s3://bucket/index --shards 64 --key embedding --ids id
  interlace ray search shards queries.npy -k 10 --replicas 2
  interlace ray info shards
  interlace ray verify shards
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace ray`` and of its sub-commands."""
    calls = parser.add_subparsers(dest="call", metavar="CALL", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--address", help="address of the cluster, such as 10.0.0.1:6379, or auto")
    common.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    add_json(common)
    build = calls.add_parser("build", parents=[common], help="build shards from files of vectors")
    build.add_argument("data", metavar="DATA", nargs="+", help="files or URLs of vectors, or folders of them")
    build.add_argument("-o", "--output", metavar="DIR", required=True, help="folder or URL for shards and manifest")
    build.add_argument("--shards", type=positive, required=True, metavar="N", help="number of shards")
    build.add_argument("--key", help="column of vectors in parquet files")
    build.add_argument("--ids", metavar="COLUMN", help="column of ids (default: id, or else row numbers)")
    build.add_argument("--originals", choices=("float16", "int8"), help="keep the vectors for re-ranking")
    build.add_argument(
        "--calibrate",
        choices=tuple(CALIBRATE),
        default="auto",
        help="searches that margins are calibrated for: of all shards by one actor, of single shards, both, or none",
    )
    build.add_argument("--model", metavar="FILE", help="encode with this model; nothing is learned")
    add_learning(build)
    add_threads(build)
    search = calls.add_parser("search", parents=[common], help="find the nearest vectors of each query")
    search.add_argument("index", metavar="DIR", help="folder, URL or manifest.json of an index in shards")
    search.add_argument("queries", metavar="QUERIES", help="file of query vectors, one per row")
    search.add_argument("-k", type=positive, default=10, metavar="K", help="neighbours per query (default: 10)")
    add_margin(search)
    search.add_argument("--rerank", type=positive, metavar="N", help="re-rank the N best rows by exact distances")
    search.add_argument("--recall", type=float, metavar="R", help="re-rank as many rows as this recall needs")
    search.add_argument("--replicas", type=positive, default=1, metavar="N", help="actors that hold each shard")
    search.add_argument("--groups", type=positive, metavar="N", help="actors that hold all shards together")
    search.add_argument("--timeout", type=float, default=30.0, metavar="S", help="seconds to wait for lost shards")
    search.add_argument("--partial", action="store_true", help="print what there is if shards do not answer")
    search.add_argument("--show", type=natural, default=5, metavar="N", help="print the hits of N queries (default: 5)")
    add_threads(search)
    for name, what in (("info", "describe an index in shards"), ("verify", "check every byte of all shards")):
        sub = calls.add_parser(name, parents=[common], help=what)
        sub.add_argument("index", metavar="DIR", help="folder, URL or manifest.json of an index in shards")


def run(args: argparse.Namespace) -> int:
    """Run one of the sub-commands."""
    try:
        from .. import ray
    except ModuleNotFoundError as error:
        raise InputError(str(error)) from error
    calls = {"build": _build, "search": _search, "info": _info, "verify": _verify}
    return calls[args.call](args, ray)


def _build(args: argparse.Namespace, ray: Any) -> int:
    from .output import print_json, progress_bar

    settings = learning(args)
    if args.model is not None and settings:
        raise InputError(f"--model and --{next(iter(settings)).replace('_', '-')} cannot be combined")
    started = time.perf_counter()
    with progress_bar() as progress:
        made = ray.build(
            args.data,
            args.model if args.model is not None else settings,
            args.output,
            shards=args.shards,
            ids=args.ids,
            key=args.key,
            originals=args.originals,
            calibrate=CALIBRATE[args.calibrate],
            threads=args.threads,
            address=args.address,
            progress=progress,
        )
    seconds = time.perf_counter() - started
    if args.json:
        print_json(asdict(made) | {"seconds": seconds})
    else:
        print(made)
        print(f"built in {seconds:.1f} s")
    return 0


def _search(args: argparse.Namespace, ray: Any) -> int:
    from ..data import read_vectors
    from .output import print_json

    queries = read_vectors(args.queries)
    names = ("replicas", "groups", "threads", "timeout", "address")
    with ray.open(args.index, **{name: getattr(args, name) for name in names}) as cluster:
        found = cluster.search(
            queries, args.k, margin=args.margin, rerank=args.rerank, recall=args.recall, partial=args.partial
        )
    if args.json:
        hits = [
            {"ids": found.ids[i, :count].tolist(), "distances": found.distances[i, :count]}
            for i, count in enumerate(found.counts[: args.show].tolist())
        ]
        groups = [asdict(group) for group in found.groups]
        print_json(
            {"k": args.k, "stats": asdict(found.stats), "groups": groups, "missing": found.missing, "hits": hits}
        )
        return 0
    for i, count in enumerate(found.counts[: args.show].tolist()):
        best = [f"{found.ids[i, j]} ({found.distances[i, j]:.4g})" for j in range(min(count, 5))]
        print(f"query {i}: " + ("  ".join(best) + ("  ..." if count > 5 else "") if best else "no hits"))
    print(found.stats)
    if found.missing:
        print(f"not searched: shards {', '.join(map(str, found.missing))}")
    return 0


def _info(args: argparse.Namespace, ray: Any) -> int:
    from .output import print_json

    manifest = ray.ShardManifest.read(args.index)
    if args.json:
        print_json(asdict(manifest))
        return 0
    print(manifest)
    for shard in manifest.shards:
        print(f"  {shard}: {shard.n_bytes:,} bytes, sha256 {shard.sha256[:16]}")
    return 0


def _verify(args: argparse.Namespace, ray: Any) -> int:
    from .output import print_json

    started = time.perf_counter()
    manifest = ray.verify(args.index, address=args.address)
    seconds = time.perf_counter() - started
    if args.json:
        print_json({"index": args.index, "ok": True, "shards": len(manifest.shards), "seconds": seconds})
    else:
        print(
            f"{args.index}: {len(manifest.shards)} shards, {manifest.file_bytes:,} bytes, no damage ({seconds:.1f} s)"
        )
    return 0
