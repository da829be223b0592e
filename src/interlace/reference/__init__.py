"""Encode and search in plain NumPy: slow, readable, and the oracle of all native tests.

Read these files to learn what the library computes, and cpp/core to learn how it is computed fast.

- ``terms``: inner products, and the cross terms 2 v.w between words of different books
- ``lookup``: the tables of a query, one per cell and column; a distance is a sum of table entries
- ``scan``: search; a row's crude distance uses the crude columns, its full distance all columns and the cross term
- ``coding``: encoding of a vector by beam search over the books
- ``rerank``: the best rows by code compared with their originals

Results equal those of the native code to the last bit: floats are float32 and are added in the same order, and terms
that native code stores as integers (multiples of a step) are integers here as well.
"""

from ..codec.terms import dense_words, squares
from .coding import encode
from .lookup import Tables, tables
from .rerank import rerank, stored_sum
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
    "rerank",
    "search",
    "spread_of",
    "squares",
    "stored_sum",
    "tables",
]
