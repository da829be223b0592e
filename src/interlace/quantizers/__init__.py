"""Learners: vectors -> `Codebooks`. NumPy and native kernels only."""

from .layouts import LAYOUTS, learn

__all__ = ["LAYOUTS", "learn"]
