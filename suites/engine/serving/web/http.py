"""What all routes share: bodies read under a limit, clients that leave, errors as JSON, and the count of it all."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
import time
import traceback
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import quote

import pydantic
import pydantic_core
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from framework.errors import PaddockError
from suites.engine.serving.errors import Cancelled, QueueFull, RequestError, TooLarge, UnknownCoding, shown
from suites.engine.serving.metrics import Traffic
from suites.engine.serving.models import Taken

BODY_SECONDS = 30.0  # in which a body must have come
_LARGE = 1 << 16
_GZIP = 1032  # times as large as it came, at most, is what gzip unpacks to
_CHEAP_VALUES = 1 << 12
_TAKEN = "paddock.taken"  # in a request's scope
_VERSION = b"paddock-version"
_OPEN = ("/", "/health", "/v2/health/live", "/v2/health/ready")  # the page asks for the token

Schema = TypeVar("Schema", bound=pydantic.BaseModel)
T = TypeVar("T")


class Bodies:
    """Bodies of requests, bounded one by one and all together, so that many large ones cannot fill the memory.

    Args:
        limit: bytes of one.
        limit_of_all: bytes of those that are read or whose requests are being answered.
    """

    def __init__(self, limit: int, limit_of_all: int) -> None:
        self._limit = limit
        self._limit_of_all = limit_of_all
        self._held = 0

    @contextlib.asynccontextmanager
    async def of(self, request: Request) -> AsyncIterator[bytes]:
        """Give the body, which counts until the block ends.

        Raises TooLarge as soon as it is known to be too long, QueueFull where too much is held already.
        """
        told = request.headers.get("content-length", "")
        if (whole_number(told) or 0) > self._limit:
            raise TooLarge(f"the body has {told} bytes; {self._limit} are allowed (--max-body-mb), split the request")
        parts: list[bytes] = []
        try:
            await self._read_in_time(request, parts)
            body = b"".join(parts)
            coding = request.headers.get("content-encoding", "identity").strip().lower()
            if coding != "identity":
                body = await aside(min(_GZIP * len(body), self._limit), _unpacked, coding, body, self._limit)
                self._held += len(body)
                parts.append(body)
            yield body
        finally:
            self._held -= sum(map(len, parts))

    @contextlib.contextmanager
    def whole(self, body: bytes) -> Iterator[None]:
        """Count a body that has come in one piece, until the block ends.

        Raises QueueFull where too much is held already.
        """
        self._held += len(body)
        try:
            self._expect_room()
            yield
        finally:
            self._held -= len(body)

    def _expect_room(self) -> None:
        if self._held > self._limit_of_all:
            raise QueueFull(f"requests of {self._limit_of_all} bytes are being answered; try again in 1 s", 1)

    async def _read_in_time(self, request: Request, parts: list[bytes]) -> None:
        try:
            await asyncio.wait_for(self._read(request, parts), BODY_SECONDS)
        except TimeoutError:
            raise RequestError(f"the body did not come within {BODY_SECONDS:.0f} s") from None
        except ClientDisconnect:
            raise Cancelled("the client left before its body had come") from None

    async def _read(self, request: Request, parts: list[bytes]) -> None:
        size = 0
        async for part in request.stream():
            size += len(part)
            self._held += len(part)
            parts.append(part)
            if size > self._limit:
                raise TooLarge(
                    f"the body has more than the {self._limit} bytes allowed (--max-body-mb); split the request"
                )
            self._expect_room()


def _unpacked(coding: str, body: bytes, most: int) -> bytes:
    """A body that came packed, of which no more is unpacked than it may have bytes."""
    if coding not in ("gzip", "x-gzip"):
        raise UnknownCoding(f"Content-Encoding: is {coding[:100]!r}; there are gzip and identity")
    found = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        unpacked = found.decompress(body, most + 1)
    except zlib.error as error:
        raise RequestError(f"the body is no gzip ({error})") from None
    if len(unpacked) > most:
        raise TooLarge(f"the body has more than the {most} bytes allowed (--max-body-mb) once unpacked")
    if not found.eof or found.unused_data:
        raise RequestError("the body is cut off, or has bytes behind its gzip")
    return unpacked


async def aside(size: int, work: Callable[..., T], *arguments: Any) -> T:
    """Call `work`; in another thread if it has `size` bytes or numbers to go through, so that nobody else waits."""
    if size > _LARGE:
        return await asyncio.to_thread(work, *arguments)
    return work(*arguments)


def whole_number(text: str) -> int | None:
    """A header's value as a number; None where it is none that a body's length could be."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


def count_values(body: bytes) -> int:
    """Values in JSON text, or a few more: what its objects will cost, known before there are any."""
    rough = _separators(body)
    return rough if rough < _CHEAP_VALUES else _separators(_STRING.sub(b"", body))


def _separators(body: bytes) -> int:
    return 1 + sum(map(body.count, (b",", b"[", b"{")))


def parse(schema: type[Schema], body: bytes, max_values: int) -> Schema:
    """Return the body as `schema`; raise RequestError with the first thing that is wrong with it.

    Raises TooLarge for a body of more than `max_values` values: each costs many times its bytes.
    """
    values = count_values(body)
    if values > max_values:
        raise TooLarge(
            f"the body has about {values} values; {max_values} are allowed (--max-values), split it or send binary"
        )
    try:
        return schema.model_validate_json(body)
    except pydantic.ValidationError as error:
        raise RequestError(_first_problem(schema, error)) from None


def _first_problem(schema: type[pydantic.BaseModel], error: pydantic.ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False)[0]
    if problem["type"] == "json_invalid":
        return f"the body is no valid JSON: {problem['msg'].removeprefix('Invalid JSON: ')}"
    where = ".".join(map(str, problem["loc"])) or "the body"
    if problem["type"] == "extra_forbidden":
        return f"{where}: there is no such key; there are {', '.join(schema.model_fields)}"
    if problem["type"] == "missing":
        return f"{where}: is missing"
    found = repr(problem["input"])
    found = found if len(found) <= 80 else found[:80] + "..."
    return f"{where}: {problem['msg'][0].lower()}{problem['msg'][1:]}; got {found}"


class Problem(pydantic.BaseModel):
    """Why there is no answer."""

    error: str


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in {
        400: "The request is wrong, or one of its items.",
        404: "There is no such model, or the model does not give this.",
        415: "The body is packed in a way that is not known.",
        413: "The body, an item or the number of items is over its limit.",
        503: "The queue is full or the server ends; Retry-After says when to ask again.",
        504: "The answer was not there in time.",
    }.items()
}


def body_of(schema: type[pydantic.BaseModel]) -> dict[str, Any]:
    """The documentation of a route that reads its body itself."""
    found = schema.model_json_schema()
    whole = _inlined(found, found.pop("$defs", {}))
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": whole}}}}


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """A JSON schema with its references written out: OpenAPI looks for definitions elsewhere."""
    if isinstance(schema, list):
        return [_inlined(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {key: _inlined(part, definitions) for key, part in schema.items()}


async def while_connected(request: Request, work: Callable[[asyncio.Future[Any]], Awaitable[T]]) -> T:
    """Await `work`, which gets a future that is done when the client has left; the body must have been read."""
    gone = asyncio.ensure_future(request.receive())
    try:
        return await work(gone)
    finally:
        gone.cancel()


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer as JSON; NaN and infinity, which JSON lacks, become null."""
    data = pydantic_core.to_json(content, inf_nan_mode="null")
    return Response(data, status, headers, "application/json")


def install_errors(app: FastAPI) -> None:
    """Make every error an answer `{"error": "..."}` with its status."""

    async def refused(request: Request, error: Exception) -> Response:
        status = error.status if isinstance(error, RequestError) else 400
        headers = {}
        if isinstance(error, RequestError) and error.retry_after is not None:
            headers["Retry-After"] = str(error.retry_after)
        if isinstance(error, TooLarge):
            headers["Connection"] = "close"  # the rest of the body is not read
        return json_response({"error": shown(error)}, status, headers)

    async def no_route(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        where = f"{request.method} {request.scope['path'][:200]}"
        return json_response({"error": f"{where}: {error.detail}"}, error.status_code)

    app.add_exception_handler(PaddockError, refused)
    app.add_exception_handler(HTTPException, no_route)


class Guard:
    """Lets in who shows the token; health, which orchestrators ask for, is open."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with 401."""
        shown = dict(scope.get("headers", ())).get(b"authorization", b"")
        is_open = scope["type"] != "http" or scope["path"] in _OPEN
        if is_open or hmac.compare_digest(shown, self._expected):
            await self._app(scope, receive, send)
        else:
            headers = {"WWW-Authenticate": "Bearer"}
            message = "the server wants its token: Authorization: Bearer TOKEN"
            await json_response({"error": message}, 401, headers)(scope, receive, send)


def taken_of(request: Request) -> Taken:
    """What a request holds until it is answered."""
    found: Taken = request.scope[_TAKEN]
    return found


class Observed:
    """Counts and times every answer, says which version gave it, and makes an unexpected error an answer too."""

    def __init__(self, app: ASGIApp, traffic: Traffic, say: Callable[[str], None]) -> None:
        self._app = app
        self._traffic = traffic
        self._say = say

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.monotonic()
        status = 0
        taken = scope[_TAKEN] = Taken()

        async def observed_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                names = [quote(version.name, safe="@").encode() for version in taken.versions]
                message["headers"] = [*message["headers"], *((_VERSION, name) for name in names)]
            await send(message)

        self._traffic.in_flight.inc()
        try:
            await self._app(scope, receive, observed_send)
        except Exception as error:
            self._say("".join(traceback.format_exception(error)))
            if not status:
                answer = json_response({"error": f"internal error: {type(error).__name__}; the log has more"}, 500)
                await answer(scope, receive, observed_send)
        finally:
            who = [(version.model, version.label) for version in taken.versions[:1]] or [("", "")]
            taken.drop()
            self._traffic.in_flight.dec()
            path = getattr(scope.get("route"), "path", "none")  # the pattern: a client cannot make up new ones
            self._traffic.request(path, status or 499, time.monotonic() - start, *who[0])
