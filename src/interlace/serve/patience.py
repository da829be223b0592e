"""uvicorn's protocol with limits that it does not have itself.

A connection is closed if it does not send a whole header in time, if a header has too many bytes, or if it does not
read its answer in time. Slow bodies are a matter of :mod:`.guard`, which can still answer.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEADER_BYTES = 1 << 17
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"  # and no more
)


def protocol(read_seconds: float, write_seconds: float) -> Any:
    """A class for ``uvicorn.Config(http=...)``."""
    base: Any = AutoHTTPProtocol

    class Patience(base):  # type: ignore[misc]
        """One connection."""

        def connection_made(self, transport: Any) -> None:
            """Wait for the first header."""
            super().connection_made(transport)
            self._reading: asyncio.TimerHandle | None = None
            self._writing: asyncio.TimerHandle | None = None
            self._header = 0  # bytes of a header that is not complete
            self._await_header()

        def data_received(self, data: bytes) -> None:
            """Count the bytes of headers."""
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

        def on_response_complete(self) -> None:
            """The next header may take its time to begin: uvicorn's keep-alive limits that."""
            super().on_response_complete()
            self._header = 0

        def connection_lost(self, exc: Exception | None) -> None:
            """Forget the timers."""
            self._stop_reading()
            self._stop_writing()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            """The client does not read."""
            super().pause_writing()
            self._writing = self._writing or asyncio.get_running_loop().call_later(write_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            """It does."""
            super().resume_writing()
            self._stop_writing()

        def _waits_for_header(self) -> bool:
            return self.cycle is None or bool(self.cycle.response_complete)

        def _await_header(self) -> None:
            self._reading = self._reading or asyncio.get_running_loop().call_later(read_seconds, self.transport.abort)

        def _stop_reading(self) -> None:
            if self._reading is not None:
                self._reading.cancel()
                self._reading = None

        def _stop_writing(self) -> None:
            if self._writing is not None:
                self._writing.cancel()
                self._writing = None

    return Patience
