"""Other quantizers, to compare with: one class each, with ``fit``, ``encode`` and ``index``, on the same search.

torch is imported only when a method that learns with labels is fitted.
"""

from functools import partial

from ..icq import ICQ
from .dpq import DPQ
from .dqn import DQN
from .pqn import PQN
from .registry import Method, method, methods, register, unregister
from .sq import SQ

__all__ = ["DPQ", "DQN", "PQN", "SQ", "Method", "method", "methods", "register", "unregister"]

register("ICQ", ICQ, labels=True)
register("SQ+CQ", partial(SQ, "cq"), labels=True)
register("SQ+PQ", partial(SQ, "pq"), labels=True)

register("DQN", DQN, labels=True)
register("DPQ", DPQ, labels=True)
register("PQN", PQN, labels=True)
register("PQN+CQ", partial(PQN, "cq"), labels=True)
