"""Connections under limits: silent and slow ones are cut, headers are bounded, and the quiet make room for the new."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_RESERVE = 64  # connections beyond the most that may ask: health and metrics come through there
_CHUNK_OVERHEAD = 16  # bytes around each byte of a body that is sent in chunks of one byte, and more
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@dataclass
class Bounds:
    """What a connection may take.

    Args:
        connections: that may be open; further ones replace those that are quiet longest.
        header_bytes: of a request's line and headers.
        header_seconds: in which they must have come, and that a connection may be quiet.
        request_seconds: from the headers to the last byte of the answer.
    """

    connections: int
    header_bytes: int = 64 << 10
    header_seconds: float = 10.0
    request_seconds: float = 90.0
    open: dict[BoundedProtocol, None] = field(default_factory=dict)  # in the order of their arrival

    def protocol(self, *arguments: Any, **options: Any) -> asyncio.Protocol:
        """What uvicorn calls for each connection."""
        return BoundedProtocol(self, *arguments, **options)


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 on one connection."""

    def __init__(self, bounds: Bounds, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._bounds = bounds
        self._timer: asyncio.TimerHandle | None = None
        self._overhead = self._body = 0  # bytes of the request that is coming: all but its body, and its body
        self._complete = False  # whether a request ended in the bytes that came last

    @property
    def is_quiet(self) -> bool:
        """Whether no request is being answered."""
        return (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing()

    def connection_made(self, transport: Any) -> None:
        """Take the connection; where there are too many, cut the one that is quiet longest."""
        super().connection_made(transport)
        self._bounds.open[self] = None
        self._expect_end_within(self._bounds.header_seconds)
        if len(self._bounds.open) > self._bounds.connections + _RESERVE:
            next((other for other in self._bounds.open if other.is_quiet), self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._bounds.open.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read; cut a connection whose headers do not end."""
        body, self._complete = self._body, False
        super().data_received(data)
        self._overhead = 0 if self._complete else self._overhead + len(data) - (self._body - body)
        if self._overhead > self._bounds.header_bytes + _CHUNK_OVERHEAD * self._body:
            if self.is_quiet:
                self.transport.write(_TOO_LONG)
                self.transport.close()
            else:
                self.transport.abort()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        if self.is_quiet:
            self._expect_end_within(self._bounds.header_seconds)

    def on_headers_complete(self) -> None:
        """Its headers are there: it must be answered in time."""
        super().on_headers_complete()
        self._expect_end_within(self._bounds.request_seconds)

    def on_body(self, body: bytes) -> None:
        """A part of its body is there."""
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """It is there as a whole."""
        self._overhead = self._body = 0
        self._complete = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """It is answered; another one may follow on the connection."""
        super().on_response_complete()
        seconds = self._bounds.header_seconds if self.is_quiet else self._bounds.request_seconds
        self._expect_end_within(seconds)

    def _expect_end_within(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self.transport.abort)
