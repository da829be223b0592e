"""Learners: vectors -> `Codebooks`. NumPy and native kernels only."""

from .layouts import LAYOUTS

__all__ = ["LAYOUTS"]
