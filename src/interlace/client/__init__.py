"""Stores of a server: ``il.connect(url)`` (docs/serve.md).

wire.py     arrays and arguments as the bytes of a request or an answer
codes.py    exceptions of the library <-> codes of problem details
"""
