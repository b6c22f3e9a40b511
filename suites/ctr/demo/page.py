"""The demo's page: one HTML file, and its figures as JSON; nothing is loaded from elsewhere."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

from suites.ctr.demo.board import Board

_HTML = Path(__file__).with_name("page.html")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:"


class Page:
    """Serves a board on this machine while the block runs.

    Args:
        board: its figures.
        port: 0 takes a free one.

    Attributes:
        url: its address.

    Raises OSError where the port is taken.
    """

    def __init__(self, board: Board, port: int) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(board))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Page:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(board: Board) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/":
                self._answer("text/html; charset=utf-8", _HTML.read_bytes())
            elif self.path == "/figures":
                self._answer("application/json", json.dumps(board.state()).encode())
            else:
                self.send_error(404)

        def _answer(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Content-Security-Policy": _POLICY}
            for name, value in {**headers, "Cache-Control": "no-store"}.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # the browser has left
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler
