"""The model repository of Triton's protocol: which models and versions there are, and to take up a newer one.

The source is `extension_model_repository` among the protocol documents of github.com/triton-inference-server/server.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pydantic
from fastapi import FastAPI, Request, Response

from suites.engine.serving.errors import Forbidden, RequestError
from suites.engine.serving.models import Models
from suites.engine.serving.web.http import PROBLEMS, Bodies, json_response, parse

_TAGS: list[Any] = ["open inference protocol v2"]


class _Index(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    ready: bool = False


class _Load(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    parameters: dict[str, Any] = {}


def add_routes(app: FastAPI, models: Models, bodies: Bodies, *, guarded: bool) -> None:
    """Add the routes; what changes the server needs one that shows a token (`guarded`)."""

    @app.post("/v2/repository/index", tags=_TAGS, responses=PROBLEMS)
    async def index(request: Request) -> Response:
        """The models and versions that answer; with `{"ready": true}` those that take requests."""
        async with bodies.of(request) as body:
            asked = parse(_Index, body or b"{}", models.settings.max_values)
        rows = []
        for version in models.versions:
            problem = version.service.not_ready()
            state = "UNAVAILABLE" if problem else "READY"
            rows.append({"name": version.model, "version": version.label, "state": state, "reason": problem or ""})
        return json_response([row for row in rows if not asked.ready or row["state"] == "READY"])

    @app.post("/v2/repository/models/{model}/load", tags=_TAGS, responses=PROBLEMS)
    async def load(request: Request, model: str) -> Response:
        """Open the newest version of a model beside the one that answers, run it once, and let it answer.

        A version that is damaged, does not fit the memory or takes other inputs leaves the other one in place: 400.
        """
        if not guarded:
            raise Forbidden("a server without a token takes up no versions when asked; start it with --token-file")
        models.of(model)
        async with bodies.of(request) as body:
            asked = parse(_Load, body or b"{}", models.settings.max_values)
        if asked.parameters:
            raise RequestError("parameters: this server takes none; it opens what lies in the model's own folder")
        await asyncio.to_thread(models.load, model)
        return json_response({})

    @app.post("/v2/repository/models/{model}/unload", tags=_TAGS, responses=PROBLEMS)
    async def unload(model: str) -> Response:
        """Refused: models stay until the server ends."""
        models.of(model)
        raise RequestError("models stay until the server ends; start it without this one")
