"""Plots of a model and of its search: variances and their prior, losses, cost of margins, recall by bytes.

Every function draws into ``ax``, or into a new pyplot figure, and returns the axes; nothing is displayed or saved. Use
``layout="constrained"`` for your own figures, because legends are below the axes. matplotlib (extra ``plot``) is
imported on first use.
"""

from .history import losses
from .margins import MarginPoint, margin_points, ops_against_agreement
from .recalls import recall_by_bytes
from .spectrum import variance_spectrum

__all__ = ["MarginPoint", "losses", "margin_points", "ops_against_agreement", "recall_by_bytes", "variance_spectrum"]
