"""The route /v1/rerank: texts in the order in which they answer a query, in the form that Cohere's and Jina's clients
know.

A model of pairs that gives a score (a cross-encoder) reads the query with each text; a model of vectors gives the
cosine of theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pydantic
from fastapi import FastAPI, Request, Response

from suites.engine.serving.errors import NotThere, RequestError
from suites.engine.serving.models import Models
from suites.engine.serving.pooling import normalized
from suites.engine.serving.service import RAW, Service
from suites.engine.serving.web.http import (
    PROBLEMS,
    Bodies,
    aside,
    body_of,
    json_response,
    parse,
    taken_of,
    while_connected,
)


class Document(pydantic.BaseModel):
    """A text."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    text: str


class RerankRequest(pydantic.BaseModel):
    """A query and texts."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    query: str = pydantic.Field(description="What the texts may answer.")
    documents: list[str | Document] = pydantic.Field(description="The texts, as they are or as {text: ...}.")
    top_n: int | None = pydantic.Field(None, ge=1, description="How many are answered; all by default.")
    return_documents: bool = pydantic.Field(False, description="Whether the texts come back too.")
    model: str | None = pydantic.Field(None, description="A model's name; it has to be served here.")
    user: str | None = pydantic.Field(None, description="Who asks: meets the same model each time.")
    timeout_ms: float | None = pydantic.Field(None, gt=0, description="Time for the answer; the server has a limit.")

    def texts(self) -> list[str]:
        """The texts; RequestError where there are none."""
        if not self.documents:
            raise RequestError("documents: is empty; it takes one text or more")
        return [each if isinstance(each, str) else each.text for each in self.documents]


class Ranked(pydantic.BaseModel):
    """A text's place among the others."""

    index: int = pydantic.Field(description="Of the text in the request.")
    relevance_score: float
    document: Document | None = None


class RerankAnswer(pydantic.BaseModel):
    """The texts, the best first; of equal ones the first."""

    model: str
    results: list[Ranked]
    usage: dict[str, int]


def add_routes(app: FastAPI, models: Models, bodies: Bodies) -> None:
    """Add the route."""
    most = models.settings.max_values

    @app.post(
        "/v1/rerank",
        response_model=RerankAnswer,
        responses=PROBLEMS,
        tags=["v1"],
        openapi_extra=body_of(RerankRequest),
    )
    async def rerank(request: Request) -> Response:
        """Texts in the order in which they answer a query."""
        async with bodies.of(request) as body:
            asked = await aside(len(body), parse, RerankRequest, body, most)
            texts = asked.texts()
            version = models.take(taken_of(request), asked.model, asked.user)
            scores, cost = await while_connected(request, lambda gone: _scores(version.service, asked, texts, gone))
        order = np.argsort(-scores, kind="stable")[: asked.top_n]
        rows: list[dict[str, Any]] = [{"index": int(i), "relevance_score": float(scores[i])} for i in order]
        if asked.return_documents:
            rows = [{**row, "document": {"text": texts[row["index"]]}} for row in rows]
        usage = {"prompt_tokens": cost, "total_tokens": cost}
        return json_response({"model": models.told(version), "results": rows, "usage": usage})


async def _scores(service: Service, asked: RerankRequest, texts: list[str], gone: Any) -> tuple[np.ndarray, int]:
    """A score for each text, and what the answer cost."""
    seconds = None if asked.timeout_ms is None else asked.timeout_ms / 1000
    processor = service.processor
    if processor.ranks_pairs:
        found = await service.ask([[asked.query, text] for text in texts], (RAW,), timeout=seconds, gone=gone)
        return np.array([processor.relevance(result) for result in found.results[0]]), found.cost
    if not service.poolings:
        raise NotThere(
            f"{service.settings.name}: it ranks no texts; serve a model whose problem is Reranking, or one of vectors"
        )
    found = await service.ask([asked.query, *texts], (service.pooling(None),), timeout=seconds, gone=gone)
    vectors = normalized(np.asarray(found.results[0], np.float32))
    return (vectors[1:] * vectors[0]).sum(axis=1), found.cost  # row by row: equal texts get equal scores
