"""Anything a user passes -> checked float32 blocks, labels and columns: arrays, tables, iterators, files, pipes."""
