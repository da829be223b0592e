"""scikit-learn's calls: `ICQ`, `Neighbors`, their model files; ``baselines`` has other quantizers to compare with."""
