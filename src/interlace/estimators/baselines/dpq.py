"""Deep product quantization: soft and hard codes through one classifier."""

from __future__ import annotations

from .supervised import Supervised


class DPQ(Supervised):
    """Deep product quantization (Klein, Wolf: End-To-End Supervised Product Quantization for Image Search and
    Retrieval, 2019).

    Product books; each row has a soft code (all words, weighted) and a hard one (its word), and L_E is the sum of the
    cross-entropies of both through one linear classifier, the joint central loss (both near the centre of their class)
    and the Gini terms (all words in use, every row sure of its own); ``softness``, ``central`` and ``gini`` are in the
    recipe. Parameters and their defaults are those of :class:`interlace.quantizers.SQ`. ``ICQ(loss="soft_hard")`` has
    ICQ's books on the same embedding.

    Left out: the fully connected layers that choose the words (a softmax of distances to them does, so that codes are
    those of the nearest words, as search needs), learned centres (means of the batch), soft codes for queries (queries
    are float here, as for every method), the search by symmetric distances, and its network. The quantization error may
    be added (``soft_error`` of the recipe), which has not helped.
    """

    _estimator = "DPQ"
    loss = "soft_hard"
