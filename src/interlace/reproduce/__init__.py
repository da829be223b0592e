"""The paper's figures, from one command: ``interlace reproduce``.

A figure is data (``figures``): a list of runs (``runs``), each a method, a data set (``sources``) and a seed.
``runner`` fits and measures (``measure``) those that have no JSON yet (``results``); ``report`` looks at the JSON and
at nothing else (``summary``, ``claims``, ``drawing``).
"""

from .figures import FIGURES, Figure, figure_of, runs_of
from .plugins import load_plugin
from .report import write_report
from .results import Store
from .runner import Outcome, run_all
from .runs import Run
from .sizes import SIZES, Size, size_of

__all__ = [
    "FIGURES",
    "SIZES",
    "Figure",
    "Outcome",
    "Run",
    "Size",
    "Store",
    "figure_of",
    "load_plugin",
    "run_all",
    "runs_of",
    "size_of",
    "write_report",
]
