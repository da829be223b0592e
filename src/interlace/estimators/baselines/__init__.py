"""Quantizers to compare ICQ with, one class each, on the same encoder and search (docs/quantizers.md).

torch is imported only when a method that learns with labels is fitted.
"""

from functools import partial

from ..fitted import Fitted
from ..icq import ICQ
from ..models import Model
from ..supervised import SupervisedModel
from ..supervised_icq import SupervisedICQ
from ..unsupervised_icq import UnsupervisedICQ
from .ckmeans import CKMeans
from .cq import CQ
from .dpq import DPQ
from .dqn import DQN
from .lopq import LOPQ
from .msq import MSQ
from .opq import OPQ
from .pq import PQ
from .pqn import PQN
from .registry import Method, load, method, methods, register, unregister
from .sq import SQ
from .sq_closed import ClosedFormSQ
from .vectors import FitRun, VectorModel

__all__ = [
    "CQ",
    "DPQ",
    "DQN",
    "LOPQ",
    "MSQ",
    "OPQ",
    "PQ",
    "PQN",
    "SQ",
    "CKMeans",
    "ClosedFormSQ",
    "FitRun",
    "Fitted",
    "Method",
    "Model",
    "SupervisedModel",
    "VectorModel",
    "load",
    "method",
    "methods",
    "register",
    "unregister",
]

register("ICQ", ICQ, labels=True)
register("SupervisedICQ", SupervisedICQ, labels=True, compare=False)
register("UnsupervisedICQ", UnsupervisedICQ, compare=False)
register("SQ+CQ", partial(SQ, "cq"), labels=True)
register("SQ+PQ", partial(SQ, "pq"), labels=True)
register("SQ", ClosedFormSQ, labels=True)
register("PQ", PQ)
register("OPQ", OPQ)
register("CKMeans", CKMeans)
register("LOPQ", LOPQ)
register("CQ", CQ)
register("MSQ", MSQ)

register("DQN", DQN, labels=True)
register("DPQ", DPQ, labels=True)
register("PQN", PQN, labels=True)
register("PQN+CQ", partial(PQN, "cq"), labels=True)
