"""A service under a web server, from the first run of the network to the last answer after SIGTERM."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from framework.errors import DataError
from suites.engine.command_line import INTERRUPTED
from suites.engine.inference import Model
from suites.engine.serving.app import make_app
from suites.engine.serving.service import Service, Settings

_SWITCH_SECONDS = 0.0005  # the interpreter's default lets a worker that has its results wait 5 ms for the HTTP thread


@dataclass(frozen=True)
class Place:
    """Where to listen, and how to end.

    Args:
        host: address; 127.0.0.1 is seen by this machine only.
        port: 0 takes a free one.
        max_connections: connections and requests at a time; more are answered with 503.
        drain: seconds in which requests are finished once the server is told to end.
        token: what clients must show, as `Authorization: Bearer TOKEN`; None lets everybody in.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    max_connections: int = 1024
    drain: float = 30.0
    token: str | None = None


class Server:
    """One model on one address.

    Attributes:
        url: where it answers once `run` was called.
        service: the model.
    """

    def __init__(
        self, model: Model, settings: Settings, place: Place, *, say: Callable[[str], None] | None = None
    ) -> None:
        """Runs the network once and takes the address; raises OSError if that is not to be had."""
        self._say = say or (lambda text: print(text, file=sys.stderr, flush=True))
        self._drain = place.drain
        self._failed = False
        self.service = Service(model, settings, on_death=self._worker_died)
        self.service.warm_up()
        self._socket = _listen(place.host, place.port)
        host = f"[{place.host}]" if ":" in place.host else place.host
        self.url = f"http://{host}:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(
            uvicorn.Config(
                make_app(self.service, token=place.token, say=self._say),
                log_level="warning",
                access_log=False,
                limit_concurrency=place.max_connections,
                timeout_graceful_shutdown=max(1, round(place.drain)),
                lifespan="off",
            )
        )

    def run(self) -> int:
        """Serve until SIGTERM, Ctrl-C or `stop`; finish what was taken; return the exit status.

        0 after SIGTERM or `stop`, 130 after Ctrl-C, 1 if workers kept dying or could not finish.
        """
        before = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            with _noting_signals() as received:
                self.service.start()
                self._server.run(sockets=[self._socket])
                finished = self.service.close(self._drain)
        finally:
            sys.setswitchinterval(before)
            self._socket.close()
        if not finished:
            self._say(f"a worker did not end within {self._drain:.0f} s")
        if self._failed or not finished:
            return 1
        return INTERRUPTED if signal.SIGINT in received else 0

    def stop(self) -> None:
        """Make `run` end; from any thread."""
        self._server.should_exit = True

    def _worker_died(self, error: BaseException, given_up: bool) -> None:
        self._say(
            f"a worker died ({type(error).__name__}: {error}); {'the server ends' if given_up else 'it is replaced'}"
        )
        if given_up:
            self._failed = True
            self.stop()


def read_token(file: Path) -> str:
    """Return the token in a file; raise DataError for one that no client could send."""
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: the token cannot be read ({error})") from error
    if not token or any(not "!" <= letter <= "~" for letter in token):
        raise DataError(f"{file}: a token is one word of ASCII letters, digits and signs")
    return token


def _listen(host: str, port: int) -> socket.socket:
    # asyncio switches off the delay of small packets (40 ms an answer) only for sockets that say they are TCP.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(1024)
    except BaseException:
        listening.close()
        raise
    return listening


@contextlib.contextmanager
def _noting_signals() -> Iterator[list[int]]:
    """Inside, SIGTERM and SIGINT, which the web server raises again after its end, end nothing and are noted."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # where Python sets no handlers
        yield received
        return
    before = {
        number: signal.signal(number, lambda n, _: received.append(n)) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
