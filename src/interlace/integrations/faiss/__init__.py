"""Conversion to and from faiss: same words, same codes, same ids; nothing is learned or encoded again.

- books on disjoint dimensions: ``IndexPQ``
- cells over all dimensions, then books on disjoint ones: ``IndexIVFPQ`` on residuals with every list visited
- other books that share dimensions: ``IndexResidualQuantizer`` (and ``IndexLocalSearchQuantizer`` from faiss)
- rotation and mean: ``LinearTransform``, ``CenteringTransform``; the cosine metric: ``NormalizationTransform``
- int64 ids: an ``IndexIDMap2`` around the index
"""

from .exporting import to_faiss
from .importing import from_faiss

__all__ = ["from_faiss", "to_faiss"]
