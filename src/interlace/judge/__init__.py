"""Public names of :mod:`interlace.paper.judge`: measures of a fitted model, and baselines."""

from ..paper.judge import FLAT, LIST, MARGINS, TARGET, cascade, flat_index, float_map, judge, random_codes, topline

__all__ = [
    "FLAT",
    "LIST",
    "MARGINS",
    "TARGET",
    "cascade",
    "flat_index",
    "float_map",
    "judge",
    "random_codes",
    "topline",
]
