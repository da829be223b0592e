"""The checksummed file that everything is stored in (docs/format.md)."""
