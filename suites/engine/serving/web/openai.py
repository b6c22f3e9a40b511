"""/v1/completions and /v1/chat/completions: texts that are written, whole or as server-sent events."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pydantic_core
from fastapi import FastAPI, Request, Response
from starlette.responses import StreamingResponse

from framework.errors import NotSupportedError, PaddockError
from suites.engine.contract.capabilities.generating import Prompt
from suites.engine.serving.errors import Cancelled, NotThere, RequestError, TooLarge, shown
from suites.engine.serving.generation.engine import Engine
from suites.engine.serving.generation.requests import Piece, Ticket, Wish
from suites.engine.serving.models import Models
from suites.engine.serving.web.http import PROBLEMS, Bodies, aside, body_of, json_response, parse, taken_of
from suites.engine.serving.web.openai_forms import (
    Asked,
    ChatRequest,
    CompletionRequest,
    choice_of,
    param_of,
    refusal_of,
    usage_of,
)

Form = TypeVar("Form", bound=Asked)


def add_generation(app: FastAPI, models: Models, bodies: Bodies) -> None:
    """Add both routes.

    Args:
        app: the application.
        models: the models, some of which write; they run.
        bodies: of requests.
    """
    values, characters = models.settings.max_values, models.settings.max_chars

    async def read(request: Request, schema: type[Form]) -> Form:
        async with bodies.of(request) as body:
            asked = await aside(len(body), parse, schema, body, values)
        asked.check()
        return asked

    @app.post("/v1/completions", responses=PROBLEMS, tags=["v1"], openapi_extra=body_of(CompletionRequest))
    async def completions(request: Request) -> Response:
        """Texts go on: `choices[i].text`, or pieces of it as server-sent events with `stream`."""

        async def answer() -> Response:
            asked = await read(request, CompletionRequest)
            _check_length("prompt", max(map(len, asked.prompts())), characters)
            name, engine = _writer(models, request, asked)
            prompts = [await asyncio.to_thread(engine.generator.encode, text) for text in asked.prompts()]
            most = asked.new_tokens(engine.generator.new_tokens)
            return await _written(request, engine, _Answer(asked, name, most, False), prompts)

        return await _in_openai_form(answer, CompletionRequest)

    @app.post("/v1/chat/completions", responses=PROBLEMS, tags=["v1"], openapi_extra=body_of(ChatRequest))
    async def chat(request: Request) -> Response:
        """The next message: `choices[i].message`, or pieces of it as server-sent events with `stream`."""

        async def answer() -> Response:
            asked = await read(request, ChatRequest)
            _check_length("messages", sum(len(each["content"]) for each in asked.plain()), characters)
            name, engine = _writer(models, request, asked)
            prompt = await asyncio.to_thread(engine.generator.encode_chat, asked.plain())
            return await _written(request, engine, _Answer(asked, name, asked.new_tokens(), True), [prompt])

        return await _in_openai_form(answer, ChatRequest)


@dataclass
class _Answer:
    """What stands around the texts of an answer."""

    asked: Asked
    name: str
    new_tokens: int | None
    chat: bool
    created: int = field(default_factory=lambda: int(time.time()))
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def whole(self, choices: Sequence[Any], *, chunk: bool, usage: Any = None) -> dict[str, Any]:
        """The object of an answer, or of a chunk of it."""
        kind = "chat.completion" if self.chat else "text_completion"
        return {
            "id": f"{'chatcmpl' if self.chat else 'cmpl'}-{self.id}",
            "object": f"{kind}.chunk" if chunk and self.chat else kind,
            "created": self.created,
            "model": self.name,
            "choices": choices,
        } | ({} if usage is None else {"usage": usage})


def _writer(models: Models, request: Request, asked: Asked) -> tuple[str, Engine]:
    """The name and the engine of the version that a request asks, which holds it until it is answered."""
    writers = {version.model: None for version in models.versions if version.engine is not None}
    name = asked.model
    if name is not None and name not in writers and name.rpartition("@")[0] not in writers:
        raise NotThere(f"model: there is no model '{name[:200]}' that writes; there is {', '.join(map(repr, writers))}")
    if name is None and len(writers) == 1:
        name = next(iter(writers))
    version = models.take(taken_of(request), name, asked.user)
    if version.engine is None:
        raise NotThere(f"model: {version.name} writes no texts")
    return models.told(version), version.engine


def _check_length(name: str, length: int, most: int) -> None:
    if length > most:
        raise TooLarge(f"{name}: has {length} characters; {most} are allowed (--max-chars)")


async def _in_openai_form(answer: Callable[[], Awaitable[Response]], schema: type[Asked]) -> Response:
    """The answer, or why there is none."""
    try:
        return await answer()
    except PaddockError as error:
        status = error.status if isinstance(error, RequestError) else 400
        headers = {}
        if isinstance(error, RequestError) and error.retry_after is not None:
            headers["Retry-After"] = str(error.retry_after)
        if isinstance(error, NotSupportedError):
            status = 404
        text = shown(error)
        return json_response(refusal_of(text, status, param_of(text, list(schema.model_fields))), status, headers)


class _Texts:
    """The pieces of all results of a request, whoever writes them.

    Results are numbered prompt by prompt.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine, self._loop = engine, asyncio.get_running_loop()
        self._pieces: asyncio.Queue[Piece] = asyncio.Queue()
        self.tickets: list[Ticket] = []
        self.left = 0

    def submit(self, wish: Wish) -> None:
        first = self.left

        def deliver(piece: Piece) -> None:  # in the engine's thread
            moved = Piece(first + piece.number, piece.text, piece.tokens, piece.finish, piece.error)
            try:
                self._loop.call_soon_threadsafe(self._pieces.put_nowait, moved)
            except RuntimeError:  # the server has ended
                return

        self.tickets.append(self._engine.submit(wish, deliver))
        self.left += wish.results

    async def pieces(self) -> AsyncIterator[Piece]:
        """Pieces until all results are done; of those that wait, each result's are joined.  Raises what went wrong."""
        while self.left:
            waiting = [await self._pieces.get()]
            while not self._pieces.empty():
                waiting.append(self._pieces.get_nowait())
            for piece in _joined(waiting):
                if piece.error is not None:
                    raise piece.error
                self.left -= piece.finish is not None
                yield piece

    def cancel(self) -> None:
        """Write no more."""
        for ticket in self.tickets:
            self._engine.cancel(ticket)

    @property
    def reused(self) -> int:
        return sum(ticket.reused for ticket in self.tickets)


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    found: dict[int, Piece] = {}
    for piece in pieces:
        before = found.get(piece.number)
        text = piece.text if before is None else before.text + piece.text
        found[piece.number] = Piece(piece.number, text, piece.tokens, piece.finish, piece.error)
    return list(found.values())


async def _written(request: Request, engine: Engine, answer: _Answer, prompts: Sequence[Prompt]) -> Response:
    asked = answer.asked
    user, host = asked.user, request.client.host if request.client else ""
    texts = _Texts(engine)
    try:
        for prompt in prompts:
            wish = Wish(
                prompt,
                answer.new_tokens,
                1 if asked.n is None else asked.n,
                asked.sampling(engine.generator.temperature),
                asked.stops(),
                f"user {user}" if user else f"host {host}",
            )
            texts.submit(wish)
    except BaseException:
        texts.cancel()
        raise
    length = sum(map(len, prompts))
    if asked.stream:
        events = _events(texts, answer, length)
        return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
    return await _at_once(request, texts, answer, length)


async def _at_once(request: Request, texts: _Texts, answer: _Answer, length: int) -> Response:
    count = texts.left
    found, tokens, finish = [""] * count, [0] * count, ["length"] * count
    gone = asyncio.ensure_future(request.receive())

    async def collect() -> None:
        async for piece in texts.pieces():
            found[piece.number] += piece.text
            tokens[piece.number] = piece.tokens
            finish[piece.number] = piece.finish or "length"

    work = asyncio.ensure_future(collect())
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise Cancelled("the client left before its text was written")
        work.result()
    finally:
        work.cancel()
        gone.cancel()
        texts.cancel()
    choices = [
        choice_of(answer.chat, i, text, why, chunk=False, first=True)
        for i, (text, why) in enumerate(zip(found, finish, strict=True))
    ]
    return json_response(answer.whole(choices, chunk=False, usage=usage_of(length, sum(tokens), texts.reused)))


async def _events(texts: _Texts, answer: _Answer, length: int) -> AsyncIterator[bytes]:
    """Server-sent events; a client that leaves ends the writing."""
    tokens = [0] * texts.left
    begun: set[int] = set()
    try:
        async for piece in texts.pieces():
            tokens[piece.number] = piece.tokens
            first = piece.number not in begun
            begun.add(piece.number)
            part = choice_of(answer.chat, piece.number, piece.text, piece.finish, chunk=True, first=first)
            yield _event(answer.whole([part], chunk=True))
        if answer.asked.counts_tokens:
            yield _event(answer.whole([], chunk=True, usage=usage_of(length, sum(tokens), texts.reused)))
        yield b"data: [DONE]\n\n"
    except RequestError as error:
        yield _event(refusal_of(shown(error), error.status, None))
    finally:
        texts.cancel()


def _event(content: Any) -> bytes:
    return b"data: " + pydantic_core.to_json(content) + b"\n\n"
