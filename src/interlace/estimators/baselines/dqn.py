"""Deep quantization network: a pairwise cosine loss and the error of product codes."""

from __future__ import annotations

from ..supervised import SupervisedModel


class DQN(SupervisedModel):
    """Deep quantization network (Cao, Long, Wang, Zhu, Wen: Deep Quantization Network for Efficient Image Retrieval,
    2016).

    Product books. The embedding loss is the squared difference of the cosine from 1 for rows of one class and from -1
    for others; the books learn from the quantization error alone, as in the paper. Parameters, defaults and training
    are those of :class:`interlace.quantizers.SQ`, so that the two differ only in the embedding loss.
    ``SupervisedICQ(loss="pairwise")`` learns ICQ's books with the same loss.

    Not implemented: the tanh before the books (a small term keeps the lengths of rows similar instead; the embedding is
    centred and scaled to total variance 1), AlexNet with ImageNet weights (``embedding=`` accepts any module), k-means
    for the books in turns with the network (books are learned by gradient; ``optimize="alternate"`` takes turns), and
    similar pairs without a common label.
    """

    name_in_files = "DQN"
    loss = "pairwise"
