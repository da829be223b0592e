"""Public names of :mod:`interlace.index.parts`: codebooks in parts, and an index of them."""

from ..index.parts import Parts, PartsIndex

__all__ = [
    "Parts",
    "PartsIndex",
]
