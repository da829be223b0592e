"""What the page shows of a collection. Everything is computed on demand from a sample of bounded size."""
