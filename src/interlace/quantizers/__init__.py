"""Other quantizers, to compare with: one class each, with ``fit``, ``encode`` and ``index``, on the same search.

torch is imported only when a method that learns with labels is fitted. docs/quantizers.md has a table of them.
"""

from functools import partial

from ..icq import ICQ
from .ckmeans import CKMeans
from .cq import CQ
from .lopq import LOPQ
from .msq import MSQ
from .opq import OPQ
from .pq import PQ
from .registry import Method, method, methods, register, unregister
from .sq import SQ

__all__ = [
    "CQ",
    "LOPQ",
    "MSQ",
    "OPQ",
    "PQ",
    "SQ",
    "CKMeans",
    "Method",
    "method",
    "methods",
    "register",
    "unregister",
]

register("ICQ", ICQ, labels=True)
register("SQ+CQ", partial(SQ, "cq"), labels=True)
register("SQ+PQ", partial(SQ, "pq"), labels=True)
register("PQ", PQ)
register("OPQ", OPQ)
register("CKMeans", CKMeans)
register("LOPQ", LOPQ)
register("CQ", CQ)
register("MSQ", MSQ)
