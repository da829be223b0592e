"""uvicorn's protocol with limits that it does not have itself, and with an express path for plain queries.

A connection is closed if it does not send a whole header in time, if a header has too many bytes, or if it does not
read its answer in time. Slow bodies are a matter of :mod:`.guard`, which can still answer.

A request that :class:`.express.Express` takes never reaches uvicorn. Its bytes are kept until it is answered: if it is
declined, uvicorn reads them as if nothing had happened. Requests that follow on the same connection wait meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from .express import Express
from .heads import START

HEADER_BYTES = 1 << 17
HOLD_SECONDS = 0.2  # for the body of a query after its header; then uvicorn waits for it
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"  # and no more
)


_Base: Any = AutoHTTPProtocol


class _Ends:
    """The end of a header: what uvicorn adds to each, which changes once in a second."""

    def __init__(self) -> None:
        self._made_of: list[tuple[bytes, bytes]] | None = None
        self._end = b""

    def of(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        if headers is not self._made_of:
            self._end = b"".join(b"\r\n%b: %b" % header for header in headers) + b"\r\n\r\n"
            self._made_of = headers
        return self._end


class Patience(_Base):  # type: ignore[misc]
    """One connection."""

    read_seconds: float
    write_seconds: float
    express: Express | None
    ends: _Ends
    _idle_since = 0.0  # when the express path last wrote an answer

    def connection_made(self, transport: Any) -> None:
        """Wait for the first header."""
        super().connection_made(transport)
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None
        self._header = 0  # bytes of a header that is not complete
        self._inside = False  # uvicorn has a part of a message
        self._held = b""  # a query whose body is not complete
        self._holding: asyncio.TimerHandle | None = None
        self._taken = b""  # a query that is being answered on the express path
        self._next = bytearray()  # what came after it
        self._last = False  # close the connection after the answer
        self._await_header()

    def data_received(self, data: bytes) -> None:
        """Take plain queries; leave everything else to uvicorn."""
        if self._taken:
            self._next += data
            self.flow.pause_reading()
            return
        if self._held:
            data = self._held + data
            self._release()
        if self.express is None or self._inside or self._header or not data.startswith(START) or not self._take(data):
            self._read(data)

    def _take(self, data: bytes) -> bool:
        """Whether the express path answers this request, or waits for its body."""
        assert self.express is not None
        end = data.find(b"\r\n\r\n")
        if end < 0 or not self._waits_for_header() or self.flow.write_paused or self._is_crowded():
            return False
        head = self.express.head(data, end)
        if head is None or len(data) > end + 4 + head.length:
            return False
        if len(data) < end + 4 + head.length:
            self._held = data
            self._holding = self.loop.call_later(HOLD_SECONDS, self._give_up)
            return True
        self._taken = data
        if not self.express.take(head, data[end + 4 :], self, self.client[0] if self.client else ""):
            self._taken = b""
            return False
        self._stop_reading()
        return True

    def _is_crowded(self) -> bool:
        """uvicorn answers if there are too many connections or tasks."""
        limit = self.limit_concurrency
        return limit is not None and max(len(self.connections), len(self.tasks)) >= limit

    def _release(self) -> None:
        self._held = b""
        if self._holding is not None:
            self._holding.cancel()
            self._holding = None

    def _give_up(self) -> None:
        """The body takes its time."""
        data = self._held
        self._release()
        self._read(data)

    def answer(self, head: bytes, body: bytes) -> bool:
        """Write the answer of a query that was taken; whether the client is there."""
        if not self._taken or self.transport.is_closing():
            return False
        self._taken = b""
        end = self.ends.of(self.server_state.default_headers)
        self.transport.write(head + (b"\r\nconnection: close" if self._last else b"") + end + body)
        if self._last:
            self.transport.close()
        else:
            if self.timeout_keep_alive_task is None:
                self._keep_alive(self.timeout_keep_alive)
            self._idle_since = self.loop.time()
            self._go_on()
        return True

    def decline(self) -> None:
        """uvicorn answers it after all."""
        data, self._taken = self._taken, b""
        if data and not self.transport.is_closing():
            self._read(data)
            self._go_on()
            if self._last:
                self.shutdown()

    def _go_on(self) -> None:
        if self._next:
            data = bytes(self._next)
            self._next.clear()
            self.flow.resume_reading()
            self.data_received(data)

    def _keep_alive(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """The express path leaves the timer alone; so look at when the connection was last used."""
        self.timeout_keep_alive_task = None
        rest = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if self._taken or self._held or rest > 0:
            self._keep_alive(max(rest, 1))
        else:
            super().timeout_keep_alive_handler()

    def shutdown(self) -> None:
        """Answer first."""
        self._last = True
        if not self._taken:
            super().shutdown()

    def _read(self, data: bytes) -> None:
        """Let uvicorn read; count the bytes of headers."""
        waiting = self._waits_for_header()
        super().data_received(data)
        if not self._waits_for_header():
            self._header = 0
            self._stop_reading()
        elif waiting:
            self._header += len(data)
            self._await_header()
            if self._header > HEADER_BYTES and not self.transport.is_closing():
                self.transport.write(_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        """A message of uvicorn's parser begins."""
        self._inside = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """It has ended."""
        self._inside = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The next header may take its time to begin: uvicorn's keep-alive limits that."""
        super().on_response_complete()
        self._header = 0

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        self._stop_reading()
        self._stop_writing()
        self._release()
        self._taken = b""
        self._next.clear()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self._writing = self._writing or asyncio.get_running_loop().call_later(self.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It does."""
        super().resume_writing()
        self._stop_writing()

    def _waits_for_header(self) -> bool:
        return self.cycle is None or bool(self.cycle.response_complete)

    def _await_header(self) -> None:
        self._reading = self._reading or asyncio.get_running_loop().call_later(self.read_seconds, self.transport.abort)

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _stop_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None


def protocol(read_seconds: float, write_seconds: float, express: Express | None = None) -> type[Patience]:
    """A class for ``uvicorn.Config(http=...)``."""
    says_ends = hasattr(_Base, "on_message_complete")  # h11 does not say where a message ends

    class Limited(Patience):
        """A connection with the limits of one server."""

    Limited.read_seconds, Limited.write_seconds = read_seconds, write_seconds
    Limited.express, Limited.ends = express if says_ends else None, _Ends()
    return Limited
