"""The same library on several machines: an index in shards, built, searched, written and served on Ray."""

from __future__ import annotations

try:
    import ray.exceptions as _ray  # noqa: F401
except ModuleNotFoundError as error:
    if str(error.name).partition(".")[0] != "ray":
        raise
    raise ModuleNotFoundError("il.ray needs Ray: pip install 'interlace[ray]'", name="ray") from error

import importlib
import typing

from ..errors import BuildError, ClusterError, ShardUnavailableError
from .building import build
from .cluster import Cluster
from .manifest import Shard, ShardManifest
from .merging import ClusterMatches, ClusterRangeMatches
from .opening import open
from .rebuilding import rebuild
from .scaling import Scaling
from .sharded import ShardedStore, create, open_store
from .verifying import verify

if typing.TYPE_CHECKING:
    from .serving import deployment

__all__ = [
    "BuildError",
    "Cluster",
    "ClusterError",
    "ClusterMatches",
    "ClusterRangeMatches",
    "Scaling",
    "Shard",
    "ShardManifest",
    "ShardUnavailableError",
    "ShardedStore",
    "build",
    "create",
    "deployment",
    "open",
    "open_store",
    "rebuild",
    "verify",
]


def __getattr__(name: str) -> typing.Any:
    """The deployment, which needs the serve extra too."""
    if name == "deployment":
        return importlib.import_module(".serving", __name__).deployment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
