"""Shared by the commands on stores: opening one, and ids in the type of the store."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from .. import Store


def add_store(parser: argparse.ArgumentParser) -> None:
    """``STORE``."""
    parser.add_argument("store", metavar="STORE", help="directory of a store (see `interlace create`)")


def add_ids(parser: argparse.ArgumentParser, what: str) -> None:
    """``IDS`` and ``--id``."""
    text = f"ids of the rows to {what}: a 1-D .npy, or text with one id per line; - reads lines from stdin"
    parser.add_argument("ids", metavar="IDS", nargs="?", help=text)
    parser.add_argument(
        "--id", metavar="ID", action="append", default=[], help="an id, instead of or in addition to IDS; repeatable"
    )


def open_store(path: str, mode: str = "r") -> Store:
    """Open a store; the error names the command that creates one."""
    from .. import Store
    from .. import open as open_any

    if not os.path.isdir(path):
        if os.path.exists(path):
            raise InputError(f"{path!r} is a file, not a store: convert it with `interlace create STORE --from {path}`")
        raise InputError(f"there is no store {path!r}: create one with `interlace create`")
    store = open_any(path, mode="a") if mode == "a" else open_any(path)
    assert isinstance(store, Store)  # a directory is always a store
    return store


def extras_of(store: Store) -> dict[str, Any]:
    """Column types by name, and the type of kept originals."""
    columns = None if store.columns is None else {field.name: str(field.type) for field in store.columns}
    return {"columns": columns, "originals": store.originals}


def given_ids(args: argparse.Namespace, store: Store) -> list[Any]:
    """The ids of IDS, then those of --id."""
    from .inputs import ids_of_lines, read_ids

    found: list[Any] = []
    if args.ids == "-":
        text = sys.stdin.buffer.read()
        try:
            found += ids_of_lines(text.decode()) if text else []
        except UnicodeDecodeError as error:
            raise InputError("stdin is not UTF-8 text with one id per line") from error
    elif args.ids is not None:
        found += read_ids(args.ids).tolist()
    elif not args.id:
        raise InputError("no ids given: pass IDS (a file of ids, or - for stdin) or --id ID")
    return as_store_ids([*found, *args.id], store)


def as_store_ids(ids: Iterable[Any], store: Store) -> list[Any]:
    """Convert ids to the type of the store, whose ids are either all strings or all integers."""
    listed = list(ids)
    if store.snapshot.rows.kind == "string":
        return [str(value) for value in listed]
    if all(not isinstance(value, str) or is_integer(value) for value in listed):
        return [int(value) for value in listed]
    return [str(value) for value in listed]


def is_integer(text: str) -> bool:
    """Whether the text is the canonical form of an integer; "007" is not."""
    return text.isascii() and text.removeprefix("-").isdigit() and str(int(text)) == text
