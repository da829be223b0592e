"""Learning with labels: embedding, books and prior together. The only package that imports torch."""
