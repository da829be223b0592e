"""``interlace info``: describes a file from its header and its small sections."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..files.versions import VERSION
from .options import add_json

if TYPE_CHECKING:
    from .. import Codebooks

HELP = "describe an index file or a store"
DESCRIPTION = """\
Describes an index, model or codebooks file: rows, ids, codebooks, calibration, and every section with
its type, shape and size. For a store, describes its files. Reads only headers and small sections, so
it is fast for any size; `interlace verify` reads every byte.
"""
EPILOG = """\
examples:
  interlace info my.index
  interlace info my.index --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace info``."""
    parser.add_argument("file", metavar="FILE", help="index, model or codebooks file, or the directory of a store")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Describe a file."""
    from .output import print_json

    found = describe(args.file)
    if args.json:
        print_json(found)
    else:
        print(_text(found))
    return 0


def describe(path: str) -> dict[str, Any]:
    """Everything that the command prints, as JSON types."""
    from .. import Codebooks, Index
    from ..codec.embedding import embedding_in
    from ..files.storage import read

    if os.path.isdir(path):
        return _store(path)
    file = read(path)
    kind = file.meta.get("kind")
    sections = [
        dict(zip(("name", "dtype", "shape", "bytes"), (name, *file.entry(name)), strict=True)) for name in file.names
    ]
    found: dict[str, Any] = {"file": path, "file_bytes": file.n_bytes, "kind": kind, "version": VERSION}
    index = Index.open(path) if kind == "index" else None
    if index is not None:
        report = index.report()
        found |= {"rows": len(index), "ids": file.meta["ids"], "calibration": _calibration(file)}
        found["report"] = asdict(report) | {"code_bytes_per_vector": report.code_bytes_per_vector, "text": str(report)}
    if "codebooks" in file.meta:
        found |= _codebooks(Codebooks.load(path) if index is None else index.codebooks)
    if (embedding := embedding_in(file)) is not None:
        found["embedding"] = repr(embedding)
    if kind == "model":
        choice = file.meta["choice"]
        found |= {"choice": None if choice is None else choice["why"], "card": file.meta.get("card")}
    return found | {"sections": sections}


def _codebooks(codebooks: Codebooks) -> dict[str, Any]:
    names = ("dim", "metric", "layout", "n_books", "n_crude", "n_bytes")
    return {name: getattr(codebooks, name) for name in names} | {"codebooks": repr(codebooks)}


def _store(path: str) -> dict[str, Any]:
    """The same for a store, with files instead of sections."""
    from .stores import extras_of, open_store

    store = open_store(path)
    state, report = store.snapshot, store.report()
    files = [
        {"name": part.name, "rows": part.ids.n, "removed": dead.count, "bytes": part.file.n_bytes}
        for part, dead in zip(state.rows.parts, state.rows.removed, strict=False)
    ]
    made = state.books.calibration
    found: dict[str, Any] = {"file": path, "file_bytes": report.file, "kind": "store", "version": VERSION}
    found |= {"rows": len(store), "ids": state.rows.kind or "none yet", "generation": store.generation}
    found["state"] = "collecting" if state.collecting else "learned"
    found["calibration"] = (
        None if made is None else {name: made.to_arrays()[1][name] for name in ("n", "ks", "targets")}
    )
    found["report"] = asdict(report) | {"code_bytes_per_vector": report.code_bytes_per_vector, "text": str(report)}
    found |= _codebooks(store.codebooks)
    if store.embedding is not None:
        found["embedding"] = repr(store.embedding)
    return found | extras_of(store) | {"segments": files, "log_rows": state.rows.tail.n}


def _calibration(file: Any) -> dict[str, Any] | None:
    made = file.meta.get("calibration")
    if made is None:
        return None
    return {**made, "shares": file.array("calibration.shares").tolist()}


def _text(found: dict[str, Any]) -> str:
    from .output import aligned

    facts: list[tuple[str, ...]] = [("file", f"{found['file']} ({found['file_bytes']:,} bytes)")]
    facts.append(("kind", f"{found['kind']}, format version {found['version']}"))
    if "rows" in found:
        facts += [("rows", f"{found['rows']:,}"), ("ids", found["ids"])]
    if found.get("state") == "collecting":
        facts += [("metric", found["metric"]), ("dim", str(found["dim"]))]
    elif "codebooks" in found:
        facts += [("layout", found["layout"]), ("metric", found["metric"]), ("codebooks", found["codebooks"])]
    if "embedding" in found:
        facts.append(("embedding", found["embedding"]))
    if found.get("choice") is not None:
        facts.append(("choice", found["choice"]))
    if "rows" in found and found.get("state") != "collecting":
        made = found["calibration"]
        text = "none: a margin below 1 runs exactly"
        if made is not None:
            text = f"for {made['n']:,} rows, k up to {max(made['ks'])}"
        facts.append(("calibration", text))
    if found.get("state") == "collecting":
        facts.append(("state", "collecting: rows are kept as vectors until codebooks are learned"))
    if found["kind"] == "store":
        columns = ", ".join(f"{name} ({kind})" for name, kind in (found["columns"] or {}).items())
        facts += [("columns", columns or "none"), ("originals", found["originals"] or "not kept")]
        facts.append(("log", f"{found['log_rows']:,} rows that are not in a segment yet"))
        rows: list[tuple[str, ...]] = [("segment", "rows", "removed", "bytes")]
        rows += [(s["name"], *(f"{s[name]:,}" for name in rows[0][1:])) for s in found["segments"]]
    else:
        rows = [("section", "dtype", "shape", "bytes")]
        rows += [
            (s["name"], s["dtype"], " x ".join(map(str, s["shape"])), f"{s['bytes']:,}") for s in found["sections"]
        ]
    parts = [aligned(facts, ""), aligned(rows, "")]
    if "report" in found:
        parts.append(found["report"]["text"])
    if found.get("card") is not None:
        parts.append(found["card"].rstrip())
    return "\n\n".join(parts)
