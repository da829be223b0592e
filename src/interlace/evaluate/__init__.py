"""Measures with one definition each (docs/measures.md): recall and agreement (``answers``), MAP of rankings by labels
(``ranking``), quantization error, operations and time (``measures``).
"""

from .answers import agreement, as_ids, distances_of, exact_neighbours, recall
from .measures import QuantizationError, TimeRatio, effective_length, ops_per_vector, quantization_error, time_ratio
from .ranking import average_precision, map_of_ranking, mean_average_precision, precision_at, rank_all

__all__ = [
    "QuantizationError",
    "TimeRatio",
    "agreement",
    "as_ids",
    "average_precision",
    "distances_of",
    "effective_length",
    "exact_neighbours",
    "map_of_ranking",
    "mean_average_precision",
    "ops_per_vector",
    "precision_at",
    "quantization_error",
    "rank_all",
    "recall",
    "time_ratio",
]
