"""Estimators with scikit-learn's interface: `ICQ`, `Neighbors`, model files; ``baselines`` has other quantizers."""
