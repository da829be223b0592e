"""Check every byte of all shards, on all nodes."""

from __future__ import annotations

from os import PathLike

from . import runtime
from .manifest import ShardManifest


def verify(manifest: str | PathLike[str] | ShardManifest, *, address: str | None = None) -> ShardManifest:
    """Raise :class:`interlace.FileError`, which names the shard, unless every byte is as it was written."""
    found = manifest if isinstance(manifest, ShardManifest) else ShardManifest.read(manifest)
    runtime.connect(address)
    runtime.values_of([runtime.task(found.verify_shard, shard.number) for shard in found.shards])
    return found
