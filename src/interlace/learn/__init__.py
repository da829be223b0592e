"""Learning: vectors -> codebooks (``fit``), labelled rows -> embedding and codebooks (``joint``), and what it costs.

``settings`` is what a user may ask for, ``sample`` the rows to learn from, ``layouts`` which dimensions each book gets,
``books`` how its words are learned, ``auto`` the choice of a layout, ``prior`` the choice of psi, ``cost`` the model of
memory and time. ``recipe`` has the settings of ``joint``.
"""
