"""Several processes for one directory: one writes, the others read and answer."""
