"""Other names of collections, in a file of the directory. A change of several aliases is made in one step."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

from ...files.atomic import replace_file
from ..problems import FULL, ProblemDetails
from ..requests.models import AliasAction

FILE = ".aliases.json"
log = logging.getLogger("interlace.serve")


class Aliases:
    """Aliases with the collections that they stand for."""

    def __init__(self, root: Path) -> None:
        self._path = root / FILE
        self._targets: dict[str, str] = {}

    def read(self) -> None:
        """From the file, if there is one. A damaged one is reported and left as it is: no alias is known then."""
        try:
            found = json.loads(self._path.read_bytes())
            if not isinstance(found, dict) or not all(isinstance(name, str) for name in found.values()):
                raise ValueError("it must be an object of names")
            self._targets = found
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            log.error("%s cannot be read: %s", FILE, error)

    def __contains__(self, name: object) -> bool:
        return name in self._targets

    def target(self, name: str) -> str:
        """The collection of an alias; other names stay."""
        return self._targets.get(name, name)

    def listed(self, collection: str | None = None) -> list[dict[str, str]]:
        """All aliases, or those of one collection, as answers have them."""
        return [
            {"alias_name": alias, "collection_name": target}
            for alias, target in sorted(self._targets.items())
            if collection in (None, target)
        ]

    def change(self, actions: Sequence[AliasAction], collections: Container[str]) -> None:
        """Create, delete and rename aliases: all of the actions, or none if one of them is refused."""
        targets = dict(self._targets)
        for i, action in enumerate(actions):
            where = f"actions[{i}]"
            if action.create_alias is not None:
                name, target = action.create_alias.alias_name, action.create_alias.collection_name
                if target not in collections:
                    raise ProblemDetails(404, "unknown_collection", f"{where}: there is no collection {target!r:.140}")
                _check_free(name, collections, where)
                targets[name] = target
            elif action.delete_alias is not None:
                _taken(targets, action.delete_alias.alias_name, where)
            elif action.rename_alias is not None:
                target = _taken(targets, action.rename_alias.old_alias_name, where)
                _check_free(action.rename_alias.new_alias_name, collections, where)
                targets[action.rename_alias.new_alias_name] = target
        self._write(targets)

    def forget(self, collection: str) -> None:
        """Delete the aliases of a collection that is deleted."""
        left = {alias: target for alias, target in self._targets.items() if target != collection}
        if left != self._targets:
            self._write(left)

    def _write(self, targets: dict[str, str]) -> None:
        try:
            replace_file(self._path, [json.dumps(targets, indent=1, sort_keys=True).encode()])
        except OSError as error:
            full = error.errno in FULL
            why = "" if error.errno is None else os.strerror(error.errno)
            text = "the disk is full" if full else f"the file of aliases cannot be written: {why}"
            raise ProblemDetails(507 if full else 503, "full" if full else "store", text) from error
        self._targets = targets


def _check_free(name: str, collections: Container[str], where: str) -> None:
    if name in collections:
        raise ProblemDetails(409, "conflict", f"{where}: there is a collection {name!r}, so it cannot be an alias")


def _taken(targets: dict[str, str], name: str, where: str) -> Any:
    if name not in targets:
        raise ProblemDetails(404, "unknown_alias", f"{where}: there is no alias {name!r:.140}")
    return targets.pop(name)
