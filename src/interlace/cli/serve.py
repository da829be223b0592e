"""``interlace serve``: an HTTP server for the stores of a directory."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from .options import positive

if TYPE_CHECKING:
    from ..serve import Keys, RequestLimits

HELP = "serve the stores of a directory over HTTP"
DESCRIPTION = """\
Serves every store of a directory as a collection. The routes follow Qdrant's REST API, so that its
clients work. Needs the serve extra: pip install 'interlace[serve]'.

API keys come from the environment (INTERLACE_API_KEY, INTERLACE_READ_ONLY_API_KEY) or from files,
never from the command line. Without a key, the server only listens on the loopback interface.
"""
EPILOG = """\
examples:
  interlace serve stores
  interlace serve --demo demo-stores      then open http://127.0.0.1:6333 in a browser
  INTERLACE_API_KEY=... interlace serve stores --host 0.0.0.0
  interlace serve stores --api-key-file key.txt --tls-cert cert.pem --tls-key key.pem
  interlace serve stores --workers 4
  interlace serve stores --limit k=1000 --limit body_bytes=1000000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace serve``."""
    parser.add_argument("folder", metavar="DIR", help="directory with stores; new collections are created in it")
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="serve the index in shards in DIR on this Ray cluster (docs/distributed.md)"
    )
    parser.add_argument("--replicas", type=positive, metavar="N", help="with --ray: actors that hold each shard (1)")
    parser.add_argument(
        "--max-replicas", type=positive, metavar="N", help="with --ray: add actors while calls wait, up to this number"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=6333, help="port to listen on (default: %(default)s); 0: a free one"
    )
    parser.add_argument(
        "--demo", action="store_true", help="first create the collection 'digits' in DIR, unless it is there"
    )
    keys = parser.add_argument_group("access")
    keys.add_argument("--api-key-file", metavar="FILE", help="file with the key that may do everything")
    keys.add_argument("--read-only-api-key-file", metavar="FILE", help="file with a key that may only read")
    keys.add_argument("--insecure", action="store_true", help="listen beyond the loopback interface without a key")
    keys.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="accept requests for this name without a key, as a proxy on this machine sends them",
    )
    keys.add_argument("--tls-cert", metavar="FILE", help="certificate, for HTTPS")
    keys.add_argument("--tls-key", metavar="FILE", help="private key of the certificate")
    more = parser.add_argument_group("searches and limits")
    more.add_argument("--threads", type=int, default=0, help="threads that search (default: one per CPU)")
    more.add_argument(
        "--workers",
        type=int,
        default=0,
        metavar="N",
        help="processes that answer, beside one that writes (default: 0: one process does both)",
    )
    more.add_argument("--n-bytes", type=int, default=32, help="code bytes of new collections (default: %(default)s)")
    more.add_argument(
        "--limit", action="append", default=[], metavar="NAME=VALUE", help="change a limit of requests (docs/serve.md)"
    )
    more.add_argument("--grace", type=float, default=30.0, help="seconds for open requests at the end (default: 30)")
    more.add_argument(
        "--log-level", choices=["debug", "info", "warning", "error"], default="info", help="default: %(default)s"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    try:
        from ..serve import RequestLimits, ServerSettings
        from ..serve.processes.supervisor import Supervisor
        from ..serve.run import Tls, forget_imports, log_to_stderr, server
    except ModuleNotFoundError as error:
        raise InputError(
            f"the server needs {error.name}, which is not installed: pip install 'interlace[serve]'"
        ) from error
    if (args.tls_cert is None) != (args.tls_key is None):
        raise InputError("--tls-cert and --tls-key belong together")
    if args.ray is not None:
        return _serve_shards(args)
    if args.replicas is not None or args.max_replicas is not None:
        raise InputError("--replicas and --max-replicas belong to --ray")
    if args.demo:
        _build_demo(Path(args.folder))
    settings = ServerSettings(
        args.folder,
        host=args.host,
        port=args.port,
        keys=_keys(args),
        limits=_limits(RequestLimits(), args.limit),
        threads=args.threads,
        n_bytes=args.n_bytes,
        insecure=args.insecure,
        hosts=tuple(args.allow_host),
    )
    tls = None if args.tls_cert is None else Tls(args.tls_cert, args.tls_key)
    scheme = "http" if tls is None else "https"
    if args.workers:
        group = Supervisor(settings, args.workers, tls, grace=args.grace, log_level=args.log_level)
        log_to_stderr(args.log_level)
        address = f"{scheme}://{args.host}:{group.port}"
        print(f"serving {args.folder!r} on {address} with {args.workers} workers", file=sys.stderr, flush=True)
        return group.run()
    made = server(settings, tls, grace=args.grace)
    log_to_stderr(args.log_level)
    if args.port:
        address = f"{scheme}://{args.host}:{args.port}"
        print(f"serving {args.folder!r} on {address} (a page for browsers too)", file=sys.stderr, flush=True)
    forget_imports()
    made.run()
    return 0 if made.started else 1


def _serve_shards(args: argparse.Namespace) -> int:
    """An index in shards, whose actors run on a Ray cluster; read-only."""
    from .. import ray
    from ..ray.serving import run_server
    from ..serve import RequestLimits
    from ..serve.run import log_to_stderr

    if args.tls_cert is not None or args.demo:
        raise InputError("--ray serves an index in shards without TLS and without a demo; put a proxy before it")
    options = {
        "keys": _keys(args),
        "insecure": args.insecure,
        "hosts": tuple(args.allow_host),
        "limits": _limits(RequestLimits(), args.limit),
    }
    with ray.open(
        args.folder,
        address=args.ray,
        threads=args.threads or None,
        replicas=args.replicas or 1,
        scaling=args.max_replicas,
    ) as cluster:
        log_to_stderr(args.log_level)
        print(f"serving {cluster!r} on http://{args.host}:{args.port}", file=sys.stderr, flush=True)
        started = run_server(cluster, "shards", host=args.host, port=args.port, grace=args.grace, **options)
    return 0 if started else 1


def _build_demo(folder: Path) -> None:
    from . import demo_store
    from .output import progress_bar

    if (folder / demo_store.NAME).exists():
        return
    with progress_bar() as progress:
        path, what = demo_store.build(folder, progress=progress)
    print(f"created {str(path)!r} from {what}", file=sys.stderr)


def _keys(args: argparse.Namespace) -> Keys:
    from ..serve import Keys

    found = []
    for path, name in ((args.api_key_file, "API_KEY"), (args.read_only_api_key_file, "READ_ONLY_API_KEY")):
        key = os.environ.get(f"INTERLACE_{name}") or None
        if path is not None:
            if key is not None:
                raise InputError(f"the key is in the environment (INTERLACE_{name}) and in {path!r}: use one of them")
            with open(path, encoding="ascii", errors="replace") as file:
                key = file.read(10_000).strip()
            if os.stat(path).st_mode & (stat.S_IRGRP | stat.S_IROTH) and not path.startswith("/run/"):
                print(f"interlace: warning: other users can read {path!r}: chmod 600", file=sys.stderr)
        found.append(key)
    return Keys(*found)


def _limits(limits: RequestLimits, given: list[str]) -> RequestLimits:
    kinds = {field.name: type(getattr(limits, field.name)) for field in fields(limits)}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or name not in kinds:
            raise InputError(f"--limit takes NAME=VALUE with one of the names {', '.join(kinds)}, got {text!r}")
        try:
            limits = replace(limits, **{name: kinds[name](value)})
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"--limit {name} must be a number, got {value!r}") from None
    return limits
