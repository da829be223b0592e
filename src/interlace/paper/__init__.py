"""The paper's figures, from one command (``interlace reproduce``), its data sets and how models are judged.

A figure is data (``figures``): a list of runs (``runs``), each a method, a data set (``sources``) and a seed.
``runner`` fits and measures (``measure``) those that have no JSON yet (``results``); ``report`` looks at the JSON and
at nothing else (``summary``, ``claims``, ``drawing``). ``judge`` measures one fitted model beside baselines.
"""
