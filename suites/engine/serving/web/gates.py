"""What a request must pass before its route: room, no drain, a Host and an Origin that belong here."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Protocol
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from suites.engine.serving.web.http import json_response

_PROBES = ("/health", "/metrics", "/v2/health/live", "/v2/health/ready")


class Door(Protocol):
    """What `Gate` knows of a server: whether it drains, and how many requests are inside."""

    draining: bool
    inside: int


class Gate:
    """Lets in so many requests at a time, and none once the server drains; health and metrics always."""

    def __init__(self, app: ASGIApp, door: Door, most: int) -> None:
        self._app = app
        self._door = door
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with 503."""
        if scope["type"] != "http" or is_probe(scope["path"]):
            await self._app(scope, receive, send)
        elif self._door.draining:
            await _busy("the server is shutting down; ask another one", 5)(scope, receive, send)
        elif self._door.inside >= self._most:
            await _busy(f"{self._most} requests are being answered; try again in 1 s", 1)(scope, receive, send)
        else:
            self._door.inside += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self._door.inside -= 1


def is_probe(path: str) -> bool:
    """Whether a path tells orchestrators and monitors how the server is."""
    return path in _PROBES or (path.startswith("/v2/models/") and path.endswith("/ready"))


def _busy(message: str, seconds: int) -> ASGIApp:
    return json_response({"error": message}, 503, {"Retry-After": str(seconds), "Connection": "close"})


class SameSite:
    """Refuses what a page of another site makes a browser send.

    A browser says in `Origin` whose page asks; `Host` is the name under which the page found this server, which a
    stranger's name server can make point here. Clients that are no browsers send no Origin and pass.

    Args:
        hosts: names of this server beside addresses and localhost; "*" for any.
        origins: sites whose pages may ask, such as https://example.org; "*" for any.
        any_host: whether the Host is not looked at.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: Iterable[str] = (), origins: Iterable[str] = (), any_host: bool = False
    ) -> None:
        self._app = app
        self._hosts = frozenset(name.lower() for name in hosts)
        self._origins = frozenset(origin.lower() for origin in origins)
        self._any_host = any_host or "*" in self._hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with 403."""
        problem = self._problem(scope) if scope["type"] == "http" else None
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await json_response({"error": problem}, 403)(scope, receive, send)

    def _problem(self, scope: Scope) -> str | None:
        headers = [(name, value.decode("latin-1").lower()) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        for host in hosts:
            if not self._any_host and not self._is_own(host):
                return f"Host {host[:100]!r} is not this server; --allow-host NAME adds a name"
        for origin in (value for name, value in headers if name == b"origin"):
            if not self._may_ask(origin, hosts):
                return f"pages of {origin[:100]!r} may not ask this server; --allow-origin SITE lets them"
        return None

    def _may_ask(self, origin: str, hosts: list[str]) -> bool:
        if "*" in self._origins or origin in self._origins:
            return True
        return any(origin in (f"http://{host}", f"https://{host}") and self._is_own(host) for host in hosts)

    def _is_own(self, host: str) -> bool:
        """Whether a Host is an address, localhost or an allowed name; no name server decides about these."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name == "localhost" or name in self._hosts or bool(ipaddress.ip_address(name))
        except ValueError:
            return False


class Heads:
    """Answers HEAD as GET, without the body, which the connection leaves out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)
