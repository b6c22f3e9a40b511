"""A service under a web server, from the first run of the network to the last answer after SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn

from framework.errors import AttributeValueError, DataError
from framework.system.signals import HANGUP
from suites.engine.command_line import INTERRUPTED
from suites.engine.predict.model import Model
from suites.engine.serving.models import Models, Offer, Share, Writes
from suites.engine.serving.service import Service, Settings
from suites.engine.serving.versions import Source
from suites.engine.serving.web.app import make_app
from suites.engine.serving.web.connections import Bounds
from suites.engine.serving.web.http import BODY_SECONDS
from suites.engine.serving.web.log import Log

if TYPE_CHECKING:
    from suites.engine.serving.web.rpc import Rpc

_MOST_PORT = 65535
_LOG_SECONDS = 1.0  # at the end, for what was said last
_SWITCH_SECONDS = 0.0005  # the interpreter's default lets a worker that has its results wait 5 ms for the HTTP thread


@dataclass(frozen=True)
class Place:
    """Where to listen, and how to end.

    Args:
        host: address; 127.0.0.1 is seen by this machine only.
        port: 0 takes a free one.
        max_connections: requests at a time, and connections; more requests are answered with 503, and further
            connections replace quiet ones. Health and metrics are always answered.
        header_seconds: in which a request's headers must have come, and before them the handshake of TLS; and that a
            connection may be quiet.
        drain: seconds in which requests are finished once the server is told to end.
        token: what clients must show, as `Authorization: Bearer TOKEN`; None lets everybody in.
        hosts: names under which it may be asked, beside addresses and localhost. Without any, an address that others
            can reach answers to every name.
        origins: sites whose pages may ask, such as https://example.org.
        certificate, key: files in PEM format, for TLS; without them it speaks plain HTTP.
        grpc_port: where it answers over gRPC too; 0 takes a free one, None answers over HTTP only.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    max_connections: int = 1024
    drain: float = 30.0
    token: str | None = None
    header_seconds: float = 10.0
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    grpc_port: int | None = None

    def __post_init__(self) -> None:
        """Raises AttributeValueError for a port, a number or seconds that cannot be."""
        for name in ("port", "grpc_port"):
            port = getattr(self, name)
            if port is not None and not 0 <= port <= _MOST_PORT:
                raise AttributeValueError(f"serving: {name} is {port}; it lies between 0 and {_MOST_PORT}")
        for name, least in (("max_connections", 1), ("drain", 0)):
            if not getattr(self, name) >= least:
                raise AttributeValueError(f"serving: {name} is {getattr(self, name):g}; it must be {least} or more")
        if not self.header_seconds > 0:
            raise AttributeValueError(f"serving: header_seconds is {self.header_seconds:g}; it must be above 0")

    @property
    def any_host(self) -> bool:
        """Whether every name is answered to."""
        return not self.hosts and self.host not in ("localhost", "::1") and not self.host.startswith("127.")


class Server:
    """Models on one address.

    Attributes:
        url: where it answers once `run` was called.
        grpc_address: where it answers over gRPC; None where it does not.
        models: the models.
    """

    def __init__(
        self,
        models: Model | Sequence[Offer],
        settings: Settings,
        place: Place,
        *,
        say: Callable[[str], None] | None = None,
        writes: Writes | None = None,
        memory: int | None = None,
        every: float = 1.0,
    ) -> None:
        """Opens the models, runs each once and takes the address.

        Args:
            models: the models; one that is open already has the name that `settings` say.
            settings: what is allowed, of each model.
            place: where to listen.
            say: gets what belongs in a log; by default standard error, which nobody waits for.
            writes: how models that write texts do; None: they do not.
            memory: bytes for all models; by default those of the machine.
            every: seconds between two looks for newer versions.

        Raises OSError if the address is not to be had, and what `Models` raises.
        """
        self._log = Log()
        self._say = say or self._log
        self._drain = place.drain
        self._failed = False
        offers = [_opened(models, settings.name)] if isinstance(models, Model) else models
        self.models = Models(
            offers,
            settings,
            writes=writes,
            memory=memory,
            on_death=self._worker_died,
            say=self._say,
            drain=place.drain,
            every=every,
        )
        self._socket = _listen(place.host, place.port)
        host = f"[{place.host}]" if ":" in place.host else place.host
        self.grpc_address = None if place.grpc_port is None else f"{host}:{_free(place.host, place.grpc_port)}"
        self.url = f"{'https' if place.certificate else 'http'}://{host}:{self._socket.getsockname()[1]}"
        make_rpc = (
            None if self.grpc_address is None else partial(_rpc, self.models, self.grpc_address, place, self._say)
        )
        self._server = _DrainingServer(_config(self.models, place, self._say), self.models, place, make_rpc)

    @property
    def service(self) -> Service:
        """What answers for the first model."""
        return self.models.versions[0].service

    def run(self) -> int:
        """Serve until SIGTERM, SIGHUP, Ctrl-C or `stop`; finish what was taken; return the exit status.

        0 after SIGTERM, SIGHUP or `stop`, 130 after Ctrl-C, 1 if workers kept dying or could not finish.
        """
        before = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            with _noting_signals(at_hangup=self.stop) as received:
                self.models.start()
                self._server.run(sockets=[self._socket])
                finished = self.models.close(self._drain)
        finally:
            sys.setswitchinterval(before)
            self._socket.close()
        if not finished:
            self._say(f"a worker did not end within {self._drain:.0f} s")
        self._log.flush(_LOG_SECONDS)
        if self._failed or not finished:
            return 1
        return INTERRUPTED if signal.SIGINT in received else 0

    def stop(self) -> None:
        """Make `run` end; from any thread."""
        self._server.begin_drain()

    def _worker_died(self, error: BaseException, given_up: bool) -> None:
        self._say(
            f"a worker died ({type(error).__name__}: {error}); {'the server ends' if given_up else 'it is replaced'}"
        )
        if given_up:
            self._failed = True
            self.stop()


def _opened(model: Model, name: str) -> Offer:
    """A model that is open already."""
    return Offer(name, (Share(Source.of_model(model), 1.0),))


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose servers give a handshake of TLS so many seconds: the web server has no option for it."""

    def __init__(self, handshake_seconds: float) -> None:
        super().__init__()
        self._handshake_seconds = handshake_seconds

    async def create_server(self, *arguments: Any, **options: Any) -> asyncio.Server:
        """Listen."""
        if options.get("ssl") is not None:
            options["ssl_handshake_timeout"] = self._handshake_seconds
        return await super().create_server(*arguments, **options)


class _DrainingServer(uvicorn.Server):
    """Once told to end it takes no requests, says so to who asks for its health, and ends when it has answered all."""

    def __init__(
        self, config: uvicorn.Config, models: Models, place: Place, make_rpc: Callable[[], Rpc] | None = None
    ) -> None:
        super().__init__(config)
        self._models = models
        self._place = place
        self._make_rpc = make_rpc
        self._until: float | None = None

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve on these sockets until it is told to end."""
        with asyncio.Runner(loop_factory=partial(_Loop, self._place.header_seconds)) as runner:
            runner.run(self.serve(sockets=sockets))

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve, over gRPC too where it is wanted."""
        rpc = None if self._make_rpc is None else self._make_rpc()
        if rpc is not None:
            await rpc.start()
        try:
            await super().serve(sockets)
        finally:
            if rpc is not None:
                await rpc.stop(0)  # what was taken is answered

    def begin_drain(self) -> None:
        """Take no requests from here on; from any thread."""
        self._until = time.monotonic() + self._place.drain
        self._models.draining = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal, end at once at the second."""
        if self._models.draining:
            self.should_exit = True
            super().handle_exit(sig, frame)
        else:
            self._captured_signals.append(sig)
            self.begin_drain()

    async def on_tick(self, counter: int) -> bool:
        """Return whether to end."""
        over = self._until is not None and (self._models.inside == 0 or time.monotonic() > self._until)
        return await super().on_tick(counter) or over


def _rpc(models: Models, address: str, place: Place, say: Callable[[str], None]) -> Rpc:
    """What answers over gRPC; only who wants it needs the library."""
    from suites.engine.serving.web.rpc import Rpc

    return Rpc(
        models,
        address,
        token=place.token,
        most=place.max_connections,
        certificate=place.certificate,
        key=place.key,
        say=say,
    )


def _free(host: str, port: int) -> int:
    """The port, or a free one for 0; raises OSError if it is taken."""
    with _listen(host, port) as found:
        return int(found.getsockname()[1])


def _config(models: Models, place: Place, say: Callable[[str], None]) -> uvicorn.Config:
    app = make_app(
        models,
        token=place.token,
        say=say,
        most=place.max_connections,
        hosts=place.hosts,
        origins=place.origins,
        any_host=place.any_host,
    )
    writing = [version.engine.limits.seconds for version in models.versions if version.engine is not None]
    answer = max(models.settings.timeout, *writing, 0.0)
    seconds = BODY_SECONDS + 2 * answer  # the last part for a client that reads slowly
    bounds = Bounds(place.max_connections, header_seconds=place.header_seconds, request_seconds=seconds)
    return uvicorn.Config(
        app,
        log_level="error",  # a warning for each damaged request would fill the log
        access_log=False,
        http=bounds.protocol,  # type: ignore[arg-type]  # a class or what makes one
        ws="none",
        timeout_graceful_shutdown=1,
        lifespan="off",
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
    )


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
def _noting_signals(at_hangup: Callable[[], None]) -> Iterator[list[int]]:
    """Inside, SIGTERM and SIGINT, which the web server raises again after its end, end nothing and are noted.

    A closed terminal's SIGHUP, which the web server leaves alone, calls `at_hangup`, unless it is ignored (nohup).
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # where Python sets no handlers
        yield received
        return
    before: dict[int, Any] = {
        number: signal.signal(number, lambda n, _: received.append(n)) for number in (signal.SIGTERM, signal.SIGINT)
    }
    if HANGUP is not None and signal.getsignal(HANGUP) != signal.SIG_IGN:
        before[HANGUP] = signal.signal(HANGUP, lambda *_: at_hangup())
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
