"""A page where a person tries the models: one HTML text that loads nothing and knows no model until its script asks."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Response

from suites.engine.predict.bare import BareTensors
from suites.engine.serving.models import Models, Served
from suites.engine.serving.web.http import json_response


def html() -> tuple[str, str]:
    """The page, and the policy that lets a browser run its own script and style alone."""
    folder = files("suites.engine.serving.web") / "assets"
    parts = {name: (folder / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")}
    style, script = parts["page.css"], parts["page.js"]
    whole = parts["page.html"].replace("/*style*/", style).replace("/*script*/", script)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; connect-src 'self'; "
        "img-src data: blob:; media-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return whole, policy


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def add_routes(app: FastAPI, models: Models) -> None:
    """Add the page and what it asks for."""
    whole, policy = html()
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return Response(whole, headers=headers, media_type="text/html; charset=utf-8")

    @app.get("/page/models", include_in_schema=False)
    async def described() -> Response:
        return json_response([_described(served) for served in models.all])


def _described(served: Served) -> dict[str, Any]:
    """What the page shows of a model: what it takes, and an example where that is no file."""
    version = served.versions[0]
    processor = version.service.processor
    takes_files = processor.files_in_json
    return {
        "name": served.name,
        "versions": [each.label for each in served.versions],
        "files": list(processor.endings) if takes_files else [],
        "takes_files": takes_files,
        "example": None if takes_files else processor.example(),
        "bare": sorted(version.service.input_types()) if isinstance(processor, BareTensors) else None,
        "writes": version.engine is not None and not version.engine.generator.longest_source,
    }
