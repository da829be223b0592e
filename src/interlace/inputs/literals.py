"""Words that arguments take, as types, so that a type checker finds a misspelled one.

``tests/test_typing.py`` compares them with the names that the code accepts.
"""

from __future__ import annotations

from typing import Literal

Layout = Literal["auto", "subspace", "hybrid", "residual"]
Rotation = Literal["auto", "principal", "learned", "none"]
Cross = Literal["auto", "none", "exact", "byte"]
CrossWithLabels = Literal["auto", "constant", "byte", "exact"]
PriorFit = Literal["em", "gradient"]
Metric = Literal["l2", "ip", "cosine"]
Effort = Literal["fastest", "fast", "balanced", "best"]
Auto = Literal["auto"]
#: A number is a target agreement below 1, or inf.
Margin = float | Literal["exact", "paper"]
#: What a search ran by: ``stats.rule``.
RuleKind = Literal["exact", "calibrated", "paper", "exhaustive"]
Loss = Literal[
    "contrastive",
    "cross_entropy",
    "regression",
    "triplet",
    "asymmetric_triplet",
    "pairwise",
    "soft_hard",
    "soft_triplet",
]
Optimize = Literal["joint", "alternate"]
IdKind = Literal["default", "int64", "string"]
OriginalsKind = Literal["float16", "int8"]
Missing = Literal["raise", "ignore"]
Relearn = Literal["auto", "manual"]
