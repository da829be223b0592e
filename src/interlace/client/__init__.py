"""Stores of a server: ``il.connect(url)`` (docs/serve.md).

connecting.py      connect, and the collections of a server
store.py           the calls of a store
asynchronous.py    the same as coroutines
arguments.py       arguments of calls -> JSON and arrays
transport.py       requests over kept connections
wire.py            arguments and arrays as the bytes of a request or an answer
answers.py         results of the library <-> arguments and arrays
codes.py           exceptions of the library <-> codes of errors
"""

from .asynchronous import AsyncRemoteStore
from .connecting import Server, connect
from .store import RemoteStore

__all__ = ["AsyncRemoteStore", "RemoteStore", "Server", "connect"]
