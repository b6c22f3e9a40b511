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

from suites.engine.serving.errors import NotThere, RequestError, shown
from suites.engine.serving.generation.engine import Engine
from suites.engine.serving.metrics import CONTENT_TYPE, text_of
from suites.engine.serving.pooling import normalized
from suites.engine.serving.service import Answer, Service
from suites.engine.serving.split import Split
from suites.engine.serving.web import open_inference
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


class Score(pydantic.BaseModel):
    """A prediction, in the form that the model's suite gives it."""

    index: int
    result: Any
    truncated: bool
    version: str | None = pydantic.Field(None, description="Of what answered, of a model that is renewed while served.")


class ScoresAnswer(pydantic.BaseModel):
    """Predictions in the order of the items."""

    data: list[Score]
    model: str
    usage: Usage


def make_app(
    models: Service | Split,
    *,
    token: str | None = None,
    say: Callable[[str], None] | None = None,
    most: int = 1024,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    any_host: bool = False,
    engine: Engine | None = None,
) -> FastAPI:
    """Return the application of a service whose workers run.

    Args:
        models: the model, or several between which requests are shared out.
        token: what clients must show, as `Authorization: Bearer TOKEN`; None lets everybody in.
        say: gets what belongs in a log.
        most: requests at a time; more get 503.
        hosts, origins, any_host: see `gates.SameSite`.
        engine: what writes texts, of a model that does; it runs.
    """
    split = models if isinstance(models, Split) else Split(models.settings.name, models)
    service = split.first
    app = FastAPI(
        title=f"Paddock: {split.name}",
        description="Items of all requests share batches; see docs/howto/serving.md.",
        version="1",
        openapi_tags=[{"name": "v1"}, {"name": "health"}, {"name": "open inference protocol v2"}],
    )
    install_errors(app)
    bodies = Bodies(service.settings.max_body, service.settings.max_bodies)
    _add_v1(app, split, bodies)
    _add_models(app, split)
    if engine is not None:
        s = service.settings
        add_generation(app, engine, [s.name], bodies, s.max_values, s.max_chars)
    _add_health(app, split, engine)
    open_inference.add_routes(app, split, bodies)
    if token is not None:
        app.add_middleware(Guard, token=token)
    app.add_middleware(SameSite, hosts=hosts, origins=origins, any_host=any_host)
    app.add_middleware(Heads)
    app.add_middleware(Gate, door=service, most=most)
    app.add_middleware(Observed, metrics=service.metrics, say=say or (lambda text: print(text, file=sys.stderr)))
    return app


def _add_v1(app: FastAPI, split: Split, bodies: Bodies) -> None:
    most = split.first.settings.max_values

    async def answer(service: Service, request: Request, asked: _Asked, pooling: str | None) -> Answer:
        return await while_connected(
            request, lambda gone: service.ask(asked.items(), (pooling,), timeout=asked.timeout(), gone=gone)
        )

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
            service = split.pick(asked.model, asked.user)
            found = await answer(service, request, asked, service.pooling(asked.pooling))
            numbers = sum(map(len, found.results[0]))
            return await aside(numbers, _embeddings_answer, service, asked, found)

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
            service = split.pick(asked.model, asked.user)
            found = await answer(service, request, asked, None)
        rows = [
            {"index": i, "result": result, "truncated": cut} | ({} if version is None else {"version": version})
            for i, (result, cut, version) in enumerate(
                zip(found.results[0], found.truncated, found.versions, strict=True)
            )
        ]
        return json_response({"data": rows, **_tail(service, found)})


def _add_models(app: FastAPI, split: Split) -> None:
    started = int(time.time())

    def described(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": started, "owned_by": "paddock"}

    @app.get("/v1/models", tags=["v1"])
    async def models() -> Response:
        """The names that a request may give, as clients of OpenAI's API ask for them."""
        return json_response({"object": "list", "data": [described(name) for name in split.names()]})

    @app.get("/v1/models/{model}", tags=["v1"], responses={404: {"model": Problem}})
    async def model_of(model: str) -> Response:
        """One of them."""
        if model not in split.names():
            raise NotThere(f"there is no model '{model[:200]}'; there is {', '.join(map(repr, split.names()))}")
        return json_response(described(model))


def _embeddings_answer(service: Service, asked: EmbeddingsRequest, found: Answer) -> Response:
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
    return json_response({"object": "list", "data": rows, **_tail(service, found)})


def _tail(service: Service, found: Answer) -> dict[str, Any]:
    usage = {"prompt_tokens": found.cost, "total_tokens": found.cost}
    return {"model": service.settings.name, "usage": usage}


def _add_health(app: FastAPI, split: Split, engine: Engine | None) -> None:
    @app.get("/health", tags=["health"], responses={503: {"model": Problem}})
    async def health() -> Response:
        """Whether requests are answered now, and what waits."""
        state = {"model": split.name, "waiting": sum(service.batcher.waiting for service in split.services)}
        problem = split.not_ready() or (engine.trouble() if engine is not None else None)
        return json_response(state | {"error": shown(problem)}, 503) if problem else json_response(state)

    @app.get("/metrics", tags=["health"], response_class=Response)
    async def metrics() -> Response:
        """Figures for Prometheus."""
        return Response(text_of([service.metrics for service in split.services]), media_type=CONTENT_TYPE)
