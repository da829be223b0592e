"""Data sets of the paper: files, checksums, splits, and cached features."""
