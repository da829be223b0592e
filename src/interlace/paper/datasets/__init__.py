"""Data sets of the paper: found on disk, checked, cut into splits; features that take minutes are cached."""
