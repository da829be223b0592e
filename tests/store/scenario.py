"""Writes to a store that can be told to another process, repeated on a model, and cut short at any call to the disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
from store_helpers import Model, put, vectors

import interlace as il

Op = dict[str, Any]  # JSON: what, ids, seed of the vectors, steps of a batch


def next_op(
    rng: np.random.Generator, present: list[int], next_id: int, *, inside: bool = False, learns: bool = False
) -> Op:
    """A write that makes sense for a store with these ids; whole stores neither vanish nor grow without end."""
    kinds = ["add", "upsert", "remove", "large", "batch", "compact", *(["relearn"] if learns else [])]
    weights = np.array([4, 5, 4 if present else 0, 1, 0 if inside else 2, 0 if inside else 1], float)
    if learns:
        weights = np.append(weights, 0 if inside or len(present) < 4 else 2)
    if len(present) > 150:
        weights[[0, 3]] = 0.2
    what = str(rng.choice(kinds, p=weights / weights.sum()))
    op: Op = {"what": what, "seed": int(rng.integers(2**30))}
    some = rng.permutation(present).tolist()
    if what in ("add", "large"):
        n = int(rng.integers(1, 6) if what == "add" else rng.integers(12, 40))
        op["ids"] = list(range(next_id, next_id + n))
    elif what == "upsert":
        new = list(range(next_id, next_id + int(rng.integers(0, 3))))
        op["ids"] = [int(i) for i in some[: int(rng.integers(1, 4))]] + new or [next_id]
    elif what == "remove":
        most = max(1, len(some) // 3 if len(some) > 150 else 6)
        op["ids"] = [int(i) for i in some[: int(rng.integers(1, most + 1))]]
    elif what == "batch":
        op["steps"], model = [], _Numbers(present, next_id)
        for _ in range(int(rng.integers(0, 6))):
            step = next_op(rng, model.present, model.next_id, inside=True)
            model.apply(step)
            op["steps"].append(step)
    return op


class _Numbers:
    def __init__(self, present: list[int], next_id: int) -> None:
        self.present, self.next_id = list(present), next_id

    def apply(self, step: Op) -> None:
        if step["what"] == "remove":
            self.present = [i for i in self.present if i not in step["ids"]]
        else:
            self.present += [i for i in step["ids"] if i not in self.present]
            self.next_id = max(self.next_id, *(i + 1 for i in step["ids"]))


def run(store: il.Store, op: Op) -> None:
    """Do it."""
    what = op["what"]
    if what == "compact":
        store.compact()
    elif what == "relearn":
        store.relearn(progress=False)
    elif what == "remove":
        assert store.remove(op["ids"]) == len(op["ids"])
    elif what == "batch":
        with store.batch():
            for step in op["steps"]:
                run(store, step)
    elif what == "upsert":
        put(store, "upsert", vectors(len(op["ids"]), op["seed"]), op["ids"], threads=1)
    else:
        given = op["ids"] if op["seed"] % 2 else None  # the same ids, given or by default
        assert put(store, "add", vectors(len(op["ids"]), op["seed"]), given, threads=1).tolist() == op["ids"]


def applied(model: Model, op: Op) -> Model:
    """What it makes of a model."""
    after = model.copy()
    for step in op.get("steps", [op]):
        if step["what"] == "remove":
            after.remove(step["ids"])
        elif "ids" in step:
            after.put(vectors(len(step["ids"]), step["seed"]), step["ids"])
    return after


def holds(store: il.Store, model: Model) -> bool:
    """Whether a store has these rows, in this order, with these vectors; and their columns and originals, if any.

    What codes of a store that learns stand for is not known here; it has originals.
    """
    ids = list(model.rows)
    if store.ids.tolist() != ids:
        return False
    coded = model.exact and not store.snapshot.collecting
    if ids and not coded and not np.array_equal(store.get(ids), np.array(list(model.rows.values()))):
        return False
    if store.columns is None:
        return True
    originals = np.array([model.originals[i] for i in ids], np.float32).reshape(-1, 4)
    return store.payload().to_pylist() == model.payload and np.array_equal(store.get(ids, originals=True), originals)


class Faults:
    """Stands in for ``files.call``: the system as it is, but for some calls."""

    def __init__(self, fail: range = range(0), error: int = errno.ENOSPC, short: bool = False) -> None:
        self.n = 0
        self.fail, self.error, self.short = fail, error, short

    def __call__(self, name: str, *arguments: Any, **where: int) -> Any:
        self.n += 1
        if self.n in self.fail and name != "close":  # which frees the descriptor even where it fails
            if name == "write" and self.short:
                return os.write(arguments[0], bytes(arguments[1])[: max(1, len(arguments[1]) // 2)])
            raise OSError(self.error, os.strerror(self.error))
        return getattr(os, name)(*arguments, **where)


class PowerCut:
    """Stands in for ``files.call`` and knows what each moment would leave on disk if the power went.

    A file keeps what was synced and, of what came later, any part, maybe followed by zeros. A folder keeps its names as
    they were synced and, of the changes since, any of them: harsher than file systems are.
    """

    def __init__(self, folder: Path, rng: np.random.Generator) -> None:
        self.rng = rng
        self.names: dict[str, int] = {}
        self.synced_names: dict[str, int] = {}
        self.changes: list[tuple[str, str, int]] = []  # name, new name or nothing, file
        self.content: dict[int, bytes] = {}
        self.synced: dict[int, bytes] = {}
        self.open: dict[int, int | None] = {}
        for number, path in enumerate(folder.iterdir(), 1):
            self.names[path.name] = number
            self.content[number] = self.synced[number] = path.read_bytes()
        self.synced_names = dict(self.names)

    def __call__(self, name: str, *arguments: Any, **where: int) -> Any:
        first = arguments[0]
        if isinstance(first, int) and first not in self.open:  # opened before this began
            path = os.readlink(f"/proc/self/fd/{first}")
            self.open[first] = None if os.path.isdir(path) else self.names[os.path.basename(path)]
        result = getattr(os, name)(*arguments, **where)
        base = os.path.basename(first) if isinstance(first, str) else ""
        if name == "open":
            if os.path.isdir(first):
                self.open[result] = None
            else:
                if base not in self.names:
                    number = len(self.content) + 1
                    self.content[number], self.synced[number] = b"", b""
                    self._rename("", base, number)
                self.open[result] = self.names[base]
        elif name == "write":
            self.content[self.open[first]] += bytes(arguments[1])[:result]
        elif name == "ftruncate":
            self.content[self.open[first]] = self.content[self.open[first]][: arguments[1]]
        elif name in ("fsync", "fdatasync"):
            number = self.open[first]
            if number is None:
                self.synced_names, self.changes = dict(self.names), []
            else:
                self.synced[number] = self.content[number]
        elif name == "replace":
            self._rename(base, os.path.basename(arguments[1]), self.names[base])
        elif name == "close":
            del self.open[first]
        elif name == "unlink":
            self._rename(base, "", self.names[base])
        return result

    def _rename(self, old: str, new: str, number: int) -> None:
        self.changes.append((old, new, number))
        self._apply(self.names, old, new, number)

    @staticmethod
    def _apply(names: dict[str, int], old: str, new: str, number: int) -> None:
        names.pop(old, None)
        if new:
            names[new] = number

    def image(self) -> dict[str, bytes]:
        """What could be found afterwards."""
        names = dict(self.synced_names)
        for change in self.changes:
            if self.rng.random() < 0.5:
                self._apply(names, *change)
        return {name: self._left(number) for name, number in names.items()}

    def _left(self, number: int) -> bytes:
        synced, now = self.synced[number], self.content[number]
        if not now.startswith(synced):  # it was cut
            return now if self.rng.random() < 0.5 else synced
        more = now[len(synced) :]
        kept = int(self.rng.integers(len(more) + 1))
        zeros = int(self.rng.integers(len(more) - kept + 1)) if self.rng.random() < 0.3 else 0
        return synced + more[:kept] + bytes(zeros)
