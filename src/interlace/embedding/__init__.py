"""Public names of :mod:`interlace.codec.embedding`: raw inputs -> vectors, when serving."""

from ..codec.embedding import MLP, Embedding, Identity, Linear, Module, Network

__all__ = [
    "MLP",
    "Embedding",
    "Identity",
    "Linear",
    "Module",
    "Network",
]
