"""The terms of L_E + L_C + gamma1 L_P + gamma2 L_ICQ, one file each.

L_E, the accuracy of the embedding, is one of `CrossEntropy`, `ridge_regression` (SQ), `triplet`, `asymmetric_triplet`
(PQN), `pairwise` (DQN), `soft_hard` (DPQ) and `supervised_contrastive`; L_C is in `quantization` and `norm_byte`, L_P
in `prior`, L_ICQ in `interleave`. Each returns a 0-d tensor with a graph, even if the batch has nothing to learn from.
"""

from .asymmetric_triplet import asymmetric_triplet
from .classification import CrossEntropy
from .contrastive import supervised_contrastive
from .interleave import interleaving
from .norm_byte import norm_byte_error, norm_byte_values
from .pairwise import pairwise
from .prior import PriorLoss
from .quantization import cross_penalty, cross_terms, quantization_error
from .regression import ridge_regression
from .soft_hard import gini, joint_central, soft_hard
from .triplet import triplet

__all__ = [
    "CrossEntropy",
    "PriorLoss",
    "asymmetric_triplet",
    "cross_penalty",
    "cross_terms",
    "gini",
    "interleaving",
    "joint_central",
    "norm_byte_error",
    "norm_byte_values",
    "pairwise",
    "quantization_error",
    "ridge_regression",
    "soft_hard",
    "supervised_contrastive",
    "triplet",
]
