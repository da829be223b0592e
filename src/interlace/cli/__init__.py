"""The ``interlace`` command. Each sub-command is a module; it imports what it needs when it runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from ..errors import InterlaceError
from . import (
    add,
    build,
    calibrate,
    compact,
    create,
    demo,
    encode,
    evaluate,
    export,
    fit,
    get,
    health,
    info,
    plan,
    ray,
    relearn,
    remove,
    reproduce,
    search,
    serve,
    verify,
)
from .help import Help

COMMANDS = (
    *(demo, plan, build, search, evaluate, fit, encode, info, verify),
    *(create, add, remove, get, compact, health, calibrate, relearn, export),  # of stores
    serve,
    ray,
    reproduce,
)
EPILOG = """\
start here:
  interlace demo                          compare it with exact search and faiss
  interlace build vectors.npy -o my.index
  interlace search my.index queries.npy -k 10
  interlace create my.store --from my.index    a crash-safe store: add, remove, get, ...
  interlace serve my-stores                    an HTTP server for the stores of a directory
  interlace ray build parts/ -o shards --shards 8    on a Ray cluster
"""


class Parser(argparse.ArgumentParser):
    """Prints errors in one line, like the other errors of the command."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2 for wrong usage."""
        self.exit(2, f"interlace: error: {message} (see {self.prog} --help)\n")


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    common = Parser(add_help=False)
    # SUPPRESS: otherwise the default of the sub-command would reset `interlace --debug build`.
    common.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error"
    )
    top = Parser(
        prog="interlace",
        description="Similarity search in a few bytes per vector.",
        epilog=EPILOG,
        formatter_class=Help,
        parents=[common],
    )
    top.add_argument("--version", action="store_true", help="print the version and the SIMD level in use, then exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for module in COMMANDS:
        sub = commands.add_parser(
            module.__name__.rpartition(".")[2],
            help=module.HELP,
            description=module.DESCRIPTION,
            epilog=module.EPILOG,
            formatter_class=Help,
            parents=[common],
        )
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 success, 1 failure, 2 wrong usage."""
    top = parser()
    try:
        args = top.parse_args(argv)
        if args.version:
            return _version()
        if args.command is None:
            top.print_help(sys.stderr)
            return 2
    except SystemExit as stop:  # argparse exits after --help and after wrong usage
        return int(stop.code or 0)
    from .output import warnings_in_a_line

    try:
        with warnings_in_a_line():
            code: int = args.run(args)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BrokenPipeError:  # the reader closed the pipe, as in `interlace info FILE | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except Exception as error:
        if getattr(args, "debug", False):
            raise
        return _fail(_one_line(error), 1)


def _version() -> int:
    from .. import __version__, simd_level

    print(f"interlace {__version__} ({simd_level()})")
    return 0


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        text = f"{error.filename!r}: {error.strerror}"
    elif isinstance(error, InterlaceError | OSError):
        text = str(error)
    elif isinstance(error, MemoryError):
        text = f"not enough memory ({error})"
    else:  # unexpected: a bug here or in a dependency
        text = f"unexpected {type(error).__name__}: {error}; --debug shows where"
    return " ".join(text.split())


def _fail(message: str, code: int) -> int:
    print(f"interlace: error: {message}", file=sys.stderr)
    return code
