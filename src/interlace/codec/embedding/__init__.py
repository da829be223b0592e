"""Raw inputs -> vectors, when serving: the first step of a search where an embedding was learned with the books.

An index carries its embedding, so that queries may be raw. Identity, linear and MLP run in NumPy; named networks and a
user's module run in torch, which ``torch_runner.py`` imports for the first input.

| kind | class | in a file |
|---|---|---|
| ``identity`` | :class:`Identity` | nothing but its shape |
| ``linear``, ``mlp`` | :class:`Linear`, :class:`MLP` | all layers |
| ``network`` | :class:`Network` | its name (lenet, alexnet) and its weights |
| ``module`` | :class:`Module` | the name of its class and a fingerprint; the module itself is passed again |
"""

from .base import Embedding, Identity
from .layers import MLP, Linear
from .sections import embedding_in, embedding_of
from .torch_modules import Module, Network

__all__ = ["MLP", "Embedding", "Identity", "Linear", "Module", "Network", "embedding_in", "embedding_of"]
