"""The HTTP application: /v1/embeddings and /v1/scores, health, metrics and documentation."""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pydantic
from fastapi import FastAPI, Request, Response

from suites.engine.serving.errors import RequestError, shown
from suites.engine.serving.metrics import CONTENT_TYPE, Labelled, text_of
from suites.engine.serving.models import Models
from suites.engine.serving.pooling import normalized
from suites.engine.serving.reading import Drawing
from suites.engine.serving.service import RAW, Answer
from suites.engine.serving.versions import Version
from suites.engine.serving.web import open_inference, page, repository, rerank
from suites.engine.serving.web.gates import Gate, Heads, SameSite
from suites.engine.serving.web.http import (
    PROBLEMS,
    Bodies,
    Guard,
    Observed,
    Problem,
    aside,
    body_of,
    install_errors,
    json_response,
    parse,
    taken_of,
    while_connected,
)
from suites.engine.serving.web.openai import add_generation


class _Asked(pydantic.BaseModel):
    """What both routes take."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    input: Any = pydantic.Field(
        description="One item or a list of items. An item of a text model is a text, or a pair as a list of two."
    )
    model: str | None = pydantic.Field(None, description="A model's name; it has to be served here.")
    user: str | None = pydantic.Field(
        None, description="Who asks: meets the same model each time, where several answer."
    )
    timeout_ms: float | None = pydantic.Field(None, gt=0, description="Time for the answer; the server has a limit.")

    def items(self) -> list[Any]:
        """The items; a single one may stand without a list. Raises RequestError for an empty list."""
        if self.input == []:
            raise RequestError("input: is empty; it takes one item or more")
        return self.input if isinstance(self.input, list) else [self.input]

    def timeout(self) -> float | None:
        """In seconds."""
        return None if self.timeout_ms is None else self.timeout_ms / 1000


class EmbeddingsRequest(_Asked):
    """Items whose vectors are wanted."""

    pooling: str | None = pydantic.Field(None, description="How token vectors become one, e.g. mean, cls, max.")
    normalize: bool = pydantic.Field(False, description="Whether vectors are scaled to length 1.")
    encoding_format: Literal["float", "base64"] = pydantic.Field(
        "float", description="Numbers, or base64 of little-endian float32, which is shorter and faster."
    )


class Embedding(pydantic.BaseModel):
    """A vector."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str
    truncated: bool


class Usage(pydantic.BaseModel):
    """What a request cost, in tokens where the model has them."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(pydantic.BaseModel):
    """Vectors in the order of the items."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: Usage


class ScoresRequest(_Asked):
    """Items whose predictions are wanted."""

    draw: bool = pydantic.Field(False, description="Whether each item comes back with its prediction drawn on it.")


class Drawn(pydantic.BaseModel):
    """An item with what is predicted for it."""

    type: Literal["image/jpeg", "text/plain"]
    data: str = pydantic.Field(description="A picture in base64, or the text.")


class Score(pydantic.BaseModel):
    """A prediction, in the form that the model's suite gives it."""

    index: int
    result: Any
    truncated: bool
    drawing: Drawn | None = pydantic.Field(None, description="The item with its prediction, where it is asked for.")
    version: str | None = pydantic.Field(None, description="Of what answered, of a model that is renewed while served.")


class ScoresAnswer(pydantic.BaseModel):
    """Predictions in the order of the items."""

    data: list[Score]
    model: str
    usage: Usage


def make_app(
    models: Models,
    *,
    token: str | None = None,
    say: Callable[[str], None] | None = None,
    most: int = 1024,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    any_host: bool = False,
) -> FastAPI:
    """Return the application of models whose workers run.

    Args:
        models: the models.
        token: what clients must show, as `Authorization: Bearer TOKEN`; None lets everybody in.
        say: gets what belongs in a log.
        most: requests at a time; more get 503.
        hosts, origins, any_host: see `gates.SameSite`.
    """
    app = FastAPI(
        title=f"Paddock: {', '.join(each.name for each in models.all)}",
        description="Items of all requests share batches; see docs/howto/serving.md.",
        version="1",
        openapi_tags=[{"name": "v1"}, {"name": "health"}, {"name": "open inference protocol v2"}],
    )
    install_errors(app)
    bodies = Bodies(models.settings.max_body, models.settings.max_bodies)
    _add_v1(app, models, bodies)
    rerank.add_routes(app, models, bodies)
    _add_models(app, models)
    if any(version.engine is not None for version in models.versions):
        add_generation(app, models, bodies)
    _add_health(app, models)
    open_inference.add_routes(app, models, bodies)
    page.add_routes(app, models)
    repository.add_routes(app, models, bodies, guarded=token is not None)
    if token is not None:
        app.add_middleware(Guard, token=token)
    app.add_middleware(SameSite, hosts=hosts, origins=origins, any_host=any_host)
    app.add_middleware(Heads)
    app.add_middleware(Gate, door=models, most=most)
    app.add_middleware(Observed, traffic=models.traffic, say=say or (lambda text: print(text, file=sys.stderr)))
    return app


def _add_v1(app: FastAPI, models: Models, bodies: Bodies) -> None:
    most = models.settings.max_values

    async def answer(version: Version, request: Request, asked: _Asked, *wants: str | None) -> Answer:
        return await while_connected(
            request, lambda gone: version.service.ask(asked.items(), wants, timeout=asked.timeout(), gone=gone)
        )

    async def drawn(version: Version, request: Request, asked: _Asked, found: Answer) -> list[dict[str, Any]]:
        drawings = await while_connected(
            request, lambda gone: version.service.draw(asked.items(), found.results[1], gone=gone)
        )
        return [{"drawing": _written(drawing)} for drawing in drawings]

    @app.post(
        "/v1/embeddings",
        response_model=EmbeddingsAnswer,
        responses=PROBLEMS,
        tags=["v1"],
        openapi_extra=body_of(EmbeddingsRequest),
    )
    async def embeddings(request: Request) -> Response:
        """Vectors of items."""
        async with bodies.of(request) as body:
            asked = await aside(len(body), parse, EmbeddingsRequest, body, most)
            version = models.take(taken_of(request), asked.model, asked.user)
            found = await answer(version, request, asked, version.service.pooling(asked.pooling))
            numbers = sum(map(len, found.results[0]))
            return await aside(numbers, _embeddings_answer, models.told(version), asked, found)

    @app.post(
        "/v1/scores",
        response_model=ScoresAnswer,
        responses=PROBLEMS,
        tags=["v1"],
        openapi_extra=body_of(ScoresRequest),
    )
    async def scores(request: Request) -> Response:
        """Predictions for items: classes with scores, labels, spans, boxes; what the model's suite gives.

        Of a segmentation model `result` has `classes`, the names by number; `label_map`, a PNG in base64 of the item's
        own size whose pixels are class numbers (shown in colours by its palette); `shares`, of the pixels by class.
        """
        async with bodies.of(request) as body:
            asked = await aside(len(body), parse, ScoresRequest, body, most)
            version = models.take(taken_of(request), asked.model, asked.user)
            found = await answer(version, request, asked, None, *([RAW] if asked.draw else []))
            drawings = await drawn(version, request, asked, found) if asked.draw else [{}] * len(found.results[0])
        rows = [
            {"index": i, "result": result, "truncated": cut, **drawing}
            | ({} if renewed is None else {"version": renewed})
            for i, (result, cut, renewed, drawing) in enumerate(
                zip(found.results[0], found.truncated, found.versions, drawings, strict=True)
            )
        ]
        return json_response({"data": rows, **_tail(models.told(version), found)})


def _add_models(app: FastAPI, models: Models) -> None:
    started = int(time.time())

    def described(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": started, "owned_by": "paddock"}

    @app.get("/v1/models", tags=["v1"])
    async def names() -> Response:
        """The names that a request may give, as clients of OpenAI's API ask for them."""
        return json_response({"object": "list", "data": [described(name) for name in models.names()]})

    @app.get("/v1/models/{model}", tags=["v1"], responses={404: {"model": Problem}})
    async def model_of(model: str) -> Response:
        """One of them."""
        if model not in models.names():
            models.of(model)
        return json_response(described(model))


def _embeddings_answer(model: str, asked: EmbeddingsRequest, found: Answer) -> Response:
    vectors = np.asarray(found.results[0], np.float32)
    if asked.normalize and len(vectors):
        vectors = normalized(vectors)
    written: list[Any]
    if asked.encoding_format == "base64":
        written = [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in vectors]
    else:
        written = vectors.tolist()
    rows = [
        {"object": "embedding", "index": i, "embedding": vector, "truncated": cut}
        for i, (vector, cut) in enumerate(zip(written, found.truncated, strict=True))
    ]
    return json_response({"object": "list", "data": rows, **_tail(model, found)})


def _written(drawing: Drawing) -> dict[str, str]:
    is_text = drawing.kind.startswith("text/")
    return {
        "type": drawing.kind,
        "data": drawing.data.decode() if is_text else base64.b64encode(drawing.data).decode(),
    }


def _tail(model: str, found: Answer) -> dict[str, Any]:
    usage = {"prompt_tokens": found.cost, "total_tokens": found.cost}
    return {"model": model, "usage": usage}


def _add_health(app: FastAPI, models: Models) -> None:
    @app.get("/health", tags=["health"], responses={503: {"model": Problem}})
    async def health() -> Response:
        """Whether requests are answered now, and what waits."""
        names = ", ".join(each.name for each in models.all)
        state = {"model": names, "waiting": sum(version.service.batcher.waiting for version in models.versions)}
        problem = models.not_ready()
        return json_response(state | {"error": shown(problem)}, 503) if problem else json_response(state)

    @app.get("/metrics", tags=["health"], response_class=Response)
    async def metrics() -> Response:
        """Figures for Prometheus."""
        rows = [
            Labelled(slot.now.model, slot.now.label, slot.now.service.metrics, slot.swaps, slot.refusals)
            for each in models.all
            for slot, _ in each.slots
        ]
        return Response(text_of(models.traffic, rows), media_type=CONTENT_TYPE)
