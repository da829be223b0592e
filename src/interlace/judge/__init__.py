"""Public names of :mod:`interlace.paper.judge`: what a fitted model is judged by, beside baselines."""

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
