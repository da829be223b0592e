"""Vectors -> `Codebooks`, with NumPy and native kernels; ``joint`` learns from labels and alone imports torch."""
