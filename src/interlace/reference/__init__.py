"""Encode and search in plain NumPy: slow, readable, and the oracle of every native test.

Floats are float32, and sums run over dimensions one by one, as the kernels do, so results agree to the last bit. Terms
that are kept as whole numbers of a step are integers here too. Read these files to learn what the library computes, and
cpp/core to learn how it does so quickly.
"""

from ..codec.terms import dense_words, squares
from .coding import encode
from .lookup import Tables, tables
from .scan import Hit, distance_to_decoded, exhaustive, range_search, search, spread_of
from .terms import cell_terms, cross_floors, cross_terms, pair_terms

__all__ = [
    "Hit",
    "Tables",
    "cell_terms",
    "cross_floors",
    "cross_terms",
    "dense_words",
    "distance_to_decoded",
    "encode",
    "exhaustive",
    "pair_terms",
    "range_search",
    "search",
    "spread_of",
    "squares",
    "tables",
]
