"""Deep product quantization: soft and hard codes through one classifier."""

from __future__ import annotations

from ..supervised import SupervisedModel


class DPQ(SupervisedModel):
    """Deep product quantization (Klein, Wolf: End-To-End Supervised Product Quantization for Image Search and
    Retrieval, 2019).

    Product books. Each row has a soft code (a weighted sum of all words) and a hard code (its word). The loss is the
    sum of the cross-entropies of both codes with one linear classifier, the joint central loss (both codes near the
    centre of their class) and the Gini terms (all words are used, and every row is close to one word); ``softness``,
    ``central`` and ``gini`` are values of the recipe. Parameters and defaults are those of
    :class:`interlace.quantizers.SQ`. ``SupervisedICQ(loss="soft_hard")`` learns ICQ's books with the same loss.

    Not implemented: the fully connected layers that select words (a softmax of distances is used, so that codes are
    those of the nearest words, as search requires), learned centres (means of the batch are used), soft codes for
    queries (queries are not quantized, as for every method), symmetric distances, and the network of the paper. The
    quantization error can be added to the loss (``soft_error`` of the recipe); this did not help.
    """

    name_in_files = "DPQ"
    loss = "soft_hard"
