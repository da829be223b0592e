"""Deep quantization network: cosines that tell classes apart, and product codes that err little."""

from __future__ import annotations

from .supervised import Supervised


class DQN(Supervised):
    """Deep quantization network (Cao, Long, Wang, Zhu, Wen: Deep Quantization Network for Efficient Image Retrieval,
    2016).

    Product books; L_E asks for a cosine of 1 between rows of a class and of -1 between others, squared, and L_C is the
    quantization error. L_E looks at the embedding alone, so the books learn from the error, as in the paper. Parameters
    and their defaults are those of :class:`interlace.quantizers.SQ`, the trainer and its phases too, so that the two
    differ only in L_E. ``ICQ(loss="pairwise")`` has ICQ's books on the same embedding.

    Left out: the tanh before the books (a small term keeps the lengths of rows alike in its place; the embedding is
    centred and scaled to total variance 1), AlexNet with weights of ImageNet (``embedding=`` takes any module), k-means
    for the books in turns with the network (here they move by gradient; ``optimize="alternate"`` takes turns), pairs
    that are similar without sharing a label.
    """

    _estimator = "DQN"
    loss = "pairwise"
