"""What building and searching an index cost: the only model of memory and time.

``max_memory`` bounds learning by it, ``plan`` prints it, ``layout="auto"`` compares layouts by it. ``shape`` says what
an index will consist of, ``memory`` how many bytes each phase of building takes, ``limits`` how many rows fit, ``work``
how many operations each phase takes, ``rates`` how long an operation takes on this machine. All but ``rates`` is
arithmetic on the settings and the size of the data.
"""
