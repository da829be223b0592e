"""Other quantizers, to compare with: one class each, with ``fit``, ``encode`` and ``index``, on the same search.

torch is imported only when a method that learns with labels is fitted.
"""

from .sq import SQ

__all__ = ["SQ"]
