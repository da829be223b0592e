"""What an operator sets: where the stores are, who may use them, and the limits of requests."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field

from ..errors import InputError


@dataclass(frozen=True)
class RequestLimits:
    """Limits of requests; an answer beyond one names it (docs/serve.md)."""

    body_bytes: int = 64 << 20  #: of a request: 413
    batch: int = 100_000  #: queries or points in a request: 422
    k: int = 10_000  #: hits of a query, offset included: 422
    hits: int = 5_000_000  #: hits of all queries of a request: 422
    answer_bytes: int = 256 << 20  #: of an answer, estimated from above before it is made: 422
    seconds: float = 60.0  #: for a request, from its last byte to its answer: 503
    read_seconds: float = 30.0  #: between two parts of a body, and for the header of a request: 408
    concurrent: int = 256  #: requests at once: 429
    queue: int = 1_024  #: searches that wait for a thread: 503
    connections: int = 1_024  #: open connections: 503
    filter_terms: int = 250  #: conditions in a filter: 422

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise InputError(f"the limit {name} must be positive, got {value!r}")


@dataclass(frozen=True)
class Keys:
    """API keys; without any, everybody who reaches the port may do everything."""

    full: str | None = field(default=None, repr=False)
    read_only: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for key in (self.full, self.read_only):
            if key is not None and (len(key) < 8 or not key.isascii() or not key.isprintable() or " " in key):
                raise InputError("an API key must have at least 8 printable ASCII characters and no spaces")
        if self.full is not None and self.full == self.read_only:
            raise InputError("the read-only API key must differ from the full one")

    def __bool__(self) -> bool:
        return self.full is not None or self.read_only is not None


@dataclass(frozen=True)
class ServerSettings:
    """All of them."""

    folder: str
    host: str = "127.0.0.1"
    port: int = 6333
    keys: Keys = Keys()
    limits: RequestLimits = RequestLimits()
    threads: int = 0  #: that search; 0: one for each CPU
    n_bytes: int = 32  #: code bytes of new collections, unless they say otherwise
    insecure: bool = False  #: allow to listen beyond the loopback interface without a key
    hosts: tuple[str, ...] = ()  #: further names in the Host header that are accepted without a key

    def __post_init__(self) -> None:
        if not os.path.isdir(self.folder):
            raise InputError(f"{self.folder!r} is not a directory: create it, or pass the directory with your stores")
        if not self.keys and not self.insecure and not is_loopback(self.host):
            raise InputError(
                f"without an API key the server listens on the loopback interface alone, got host {self.host!r}: set "
                "INTERLACE_API_KEY, pass --api-key-file, or confirm with --insecure that everybody may read and write"
            )
        if not 0 <= self.port <= 65535:
            raise InputError(f"port must be between 0 and 65535, got {self.port}")

    @property
    def n_threads(self) -> int:
        """Threads that search."""
        return self.threads or len(os.sched_getaffinity(0))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
