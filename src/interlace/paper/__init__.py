"""Reproduction of the paper (``interlace reproduce``): figures, data sets, measures and claims.

A figure is a list of runs (``figures``, ``runs``); a run is a method, a data set (``sources``) and a seed. ``runner``
fits and measures (``measure``) the runs without a JSON file (``results``). ``report`` reads only the JSON files
(``summary``, ``claims``, ``drawing``). ``judge`` measures one fitted model and baselines.
"""
