"""Connections under limits: silent and slow ones are cut, headers are bounded, and the quiet make room for the new."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from framework.system.sockets import unsent_bytes

_RESERVE = 64  # connections beyond the most that may ask: health and metrics come through there
_CHUNK_OVERHEAD = 16  # bytes around each byte of a body that is sent in chunks of one byte, and more
_PIECE = 16 << 10  # bytes that are parsed before their kind is looked at, however they came
_SLOWEST = 1024  # bytes a second of an answer, below which its reader is cut
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@dataclass
class Bounds:
    """What a connection may take.

    Args:
        connections: that may be open; further ones replace those that are quiet longest.
        header_bytes: of a request's line and headers.
        header_seconds: in which they must have come, and that a connection may be quiet or its client leave answers
            unread. Reading them may take longer, at `_SLOWEST` bytes a second at least.
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
        self._over = False  # whether nothing more is read: what came is no request
        self._head = 0  # bytes of its line and headers as they were parsed
        self._unread = 0  # bytes of answers that the client had not taken when they were last looked at

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
        if self._over:
            return
        for start in range(0, len(data), _PIECE):
            self._read(data[start : start + _PIECE])
            if self.transport.is_closing() or self._over:
                return

    def timeout_keep_alive_handler(self) -> None:
        """Nothing: the web server's timer does not see requests that are read here; ours cuts quiet connections."""

    def _read(self, data: bytes) -> None:
        body, self._complete = self._body, False
        self._parse(data)
        self._overhead = 0 if self._complete else self._overhead + len(data) - (self._body - body)
        # Twice: of headers that do not end, blanks count that a parsed head would not have.
        if self._overhead > 2 * self._bounds.header_bytes + _CHUNK_OVERHEAD * self._body:
            self._refuse_head()

    def _parse(self, data: bytes) -> None:
        """Feed the parser. It stops where a client offers to go on in another protocol, which it need not: the request
        is then read as it is, without the offer, and its body with it.
        """
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offered:
                if self.parser.get_method() == b"CONNECT":
                    self.send_400_response("There is nothing to connect to.")
                    return
                data = self._without_offer() + data[offered.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                continue
            except httptools.HttpParserError:
                if self._head > self._bounds.header_bytes:
                    self._refuse_head()
                elif not self.transport.is_closing():
                    self._refuse()
            return

    def _without_offer(self) -> bytes:
        """The head of the request at hand, without what offers another protocol."""
        version = self.parser.get_http_version().encode()
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/" + version]
        for name, value in self.headers:
            if name == b"connection":
                kept = [word.strip() for word in value.split(b",")]
                value = b", ".join(w for w in kept if w.lower() not in (b"upgrade", b"http2-settings"))
            if name not in (b"upgrade", b"http2-settings") and (value or name != b"connection"):
                lines.append(name + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    def _refuse(self) -> None:
        """400 for what is no request; one before it gets its own answer first, and nothing comes behind that."""
        if self.is_quiet or self._reading:
            self.send_400_response("Invalid HTTP request received.")
        else:
            self._over, self.cycle.keep_alive = True, False

    @property
    def _reading(self) -> bool:
        """Whether the only request that is being answered is still coming, and its answer has not begun."""
        return self.cycle.more_body and not self.cycle.response_started and not self.pipeline

    def _refuse_head(self) -> None:
        if self.is_quiet:
            self.transport.write(_TOO_LONG)
            self.transport.close()
        else:
            self.transport.abort()

    def on_url(self, url: bytes) -> None:
        """A part of its address."""
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of its headers."""
        super().on_header(name, value)
        self._count(len(name) + len(value) + 4)

    def _count(self, size: int) -> None:
        """Count bytes of the head; ValueError, at which the parser stops, where they become too many."""
        self._head += size
        if self._head > self._bounds.header_bytes:
            raise ValueError("the head is too long")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._head = 0
        if self.is_quiet:
            self._expect_end_within(self._bounds.header_seconds)

    def on_headers_complete(self) -> None:
        """Its headers are there: it must be answered in time."""
        if self.parser.should_upgrade():  # comes again, without the offer
            return
        super().on_headers_complete()
        self._expect_next()

    def on_body(self, body: bytes) -> None:
        """A part of its body is there."""
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """It is there as a whole."""
        if self.parser.should_upgrade():
            return
        self._overhead = self._body = 0
        self._complete = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """It is answered; another one may follow on the connection."""
        super().on_response_complete()
        self._expect_next()

    def pause_writing(self) -> None:
        """The client takes its answers too slowly for the buffers: a further answer waits until it reads."""
        super().pause_writing()
        self._expect_next()

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._expect_next()

    def _expect_next(self) -> None:
        """Within what time something must happen: soon where it is the client's turn, to ask or to read."""
        soon = self.is_quiet or self.flow.write_paused
        self._expect_end_within(self._bounds.header_seconds if soon else self._bounds.request_seconds)

    def _expect_end_within(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._unread = _unread_bytes(self.transport)
        self._timer = self.loop.call_later(seconds, self._too_late, seconds)

    def _too_late(self, seconds: float) -> None:
        """Cut the connection, unless the client is still reading what was written for it."""
        left = _unread_bytes(self.transport)
        if self._unread - left > seconds * _SLOWEST or (left == 0 and self._unread > 0):
            self._expect_end_within(seconds)
        else:
            self.transport.abort()


def _unread_bytes(transport: Any) -> int:
    """Bytes that a client has not taken: of the connection's buffer, and of the system's where it says how many."""
    size: int = transport.get_write_buffer_size()
    with contextlib.suppress(AttributeError):  # it has no socket
        size += unsent_bytes(transport.get_extra_info("socket").fileno())
    return size
