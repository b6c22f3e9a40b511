"""The routes of the Open Inference Protocol v2: what Triton's, KServe's and Seldon's clients ask.

The model takes either `items` (BYTES [N], or [N, 2] for pairs), which pass through its processor and share batches, or
the network's own arrays, which run as they are.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import pydantic_core
from fastapi import FastAPI, Request, Response

from framework.extras import DISTRIBUTION
from suites.engine.predict.bare import BareTensors
from suites.engine.run.environment import package_version
from suites.engine.serving.errors import NotThere, RequestError, shown
from suites.engine.serving.models import Models
from suites.engine.serving.service import Service
from suites.engine.serving.versions import Version
from suites.engine.serving.web.http import PROBLEMS, Bodies, aside, body_of, json_response, taken_of, while_connected
from suites.engine.serving.web.protocol import (
    HEADER,
    InferRequest,
    TextTensor,
    datatype_of,
    read_request,
    write_response,
)

ITEMS, RESULTS, EMBEDDINGS = "items", "results", "embeddings"
_LONGEST = 10**12  # microseconds; a larger number is no float
_TAGS: list[Any] = ["open inference protocol v2"]
Outputs = dict[str, np.ndarray | TextTensor]


def add_routes(app: FastAPI, models: Models, bodies: Bodies) -> None:
    """Add all routes of the protocol."""
    _add_health(app, models)
    _add_metadata(app, models)

    async def infer(request: Request, model: str, version: str | None = None) -> Response:
        """Run the model; see the protocol for the body."""
        version_of(models, model, version)
        async with bodies.of(request) as body:
            header, most = request.headers.get(HEADER), models.settings.max_values
            asked, inputs = await aside(len(body), read_request, body, header, most)
            taken = models.take(taken_of(request), model, user_of(asked), version)
            outputs, renewed = await while_connected(request, lambda gone: answer(taken.service, asked, inputs, gone))
        binary = _binary_outputs(asked, outputs)
        head: dict[str, Any] = {"model_name": taken.model, "model_version": taken.label}
        head |= {} if asked.id is None else {"id": asked.id}
        head |= {"parameters": {"version": ",".join(renewed)}} if renewed else {}
        numbers = sum(math.prod(tensor.shape) for tensor in outputs.values())
        data, json_length = await aside(numbers, write_response, head, outputs, binary)
        if json_length is None:
            return Response(data, media_type="application/json")
        return Response(data, headers={HEADER: str(json_length)}, media_type="application/octet-stream")

    for path in ("/v2/models/{model}/infer", "/v2/models/{model}/versions/{version}/infer"):
        app.add_api_route(
            path, infer, methods=["POST"], tags=_TAGS, responses=PROBLEMS, openapi_extra=body_of(InferRequest)
        )


def _add_health(app: FastAPI, models: Models) -> None:
    def health(problem: str | None) -> Response:
        return json_response({"error": shown(problem)}, 503) if problem else Response(status_code=200)

    @app.get("/v2/health/live", tags=_TAGS)
    async def live() -> Response:
        """Whether the workers run and none is stuck."""
        return health(models.trouble())

    @app.get("/v2/health/ready", tags=_TAGS)
    async def ready() -> Response:
        """Whether requests are answered now."""
        return health(models.not_ready())

    async def model_ready(model: str, version: str | None = None) -> Response:
        """Whether this model answers requests now."""
        return health(models.not_ready() if models.draining else version_of(models, model, version).service.not_ready())

    for path in ("/v2/models/{model}/ready", "/v2/models/{model}/versions/{version}/ready"):
        app.add_api_route(path, model_ready, methods=["GET"], tags=_TAGS)


def _add_metadata(app: FastAPI, models: Models) -> None:
    @app.get("/v2", tags=_TAGS)
    async def server() -> Response:
        """What serves here."""
        return json_response(server_described())

    async def metadata(model: str, version: str | None = None) -> Response:
        """What the model takes and gives."""
        return json_response(model_described(models, model, version))

    for path in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        app.add_api_route(path, metadata, methods=["GET"], tags=_TAGS)


def server_described() -> dict[str, Any]:
    """What serves here, as the protocol says it."""
    extensions = ["binary_tensor_data", "model_repository"]
    return {"name": "paddock", "version": package_version(DISTRIBUTION), "extensions": extensions}


def model_described(models: Models, model: str, version: str | None) -> dict[str, Any]:
    """What a model takes and gives, as the protocol says it."""
    service = version_of(models, model, version).service
    inputs, outputs = _described(service.input_types()), []
    if not isinstance(service.processor, BareTensors):
        inputs.insert(0, {"name": ITEMS, "datatype": "BYTES", "shape": [-1]})
        outputs.append({"name": RESULTS, "datatype": "BYTES", "shape": [-1]})
    if service.poolings:
        outputs.append({"name": EMBEDDINGS, "datatype": "FP32", "shape": [-1, -1]})
    outputs += _described(service.output_types())
    versions = [each.label for each in models.of(model).versions]
    return {"name": model, "versions": versions, "platform": "paddock", "inputs": inputs, "outputs": outputs}


def _described(types: dict[str, tuple[str, tuple[int, ...]]]) -> list[dict[str, Any]]:
    """Tensors of the network; extents vary from batch to batch."""
    return [
        {"name": name, "datatype": datatype_of(dtype), "shape": [-1] * len(shape)}
        for name, (dtype, shape) in types.items()
    ]


def version_of(models: Models, model: str, label: str | None) -> Version:
    """A version that answers; of a model with several the first, which takes and gives what the others do."""
    versions = models.of(model).versions
    found = next((version for version in versions if label in (None, version.label)), None)
    if found is None:
        known = ", ".join(version.label for version in versions)
        raise NotThere(f"{model} has no version '{(label or '')[:200]}'; it has {known}")
    return found


def user_of(asked: InferRequest) -> str | None:
    """Who asks, where a request says so."""
    user = asked.parameters.get("user")
    if user is not None and not isinstance(user, str):
        raise RequestError(f"parameters.user: is {user!r}; it is a text")
    return user


async def answer(
    service: Service,
    asked: InferRequest,
    inputs: dict[str, Any],
    gone: asyncio.Future[Any] | None = None,
    seconds: float | None = None,
) -> tuple[Outputs, list[str]]:
    """The outputs by name, and the versions that gave them, of a model that is renewed while it is served.

    Args:
        service: the model.
        asked: what is asked of it; of its inputs names and shapes alone are looked at.
        inputs: the inputs by name.
        gone: is done when the client has left.
        seconds: for the answer, beside what the request and the server say.
    """
    timeout = asked.parameters.get("timeout")  # microseconds, as Triton has it
    if timeout is not None and type(timeout) is not int:
        raise RequestError(f"parameters.timeout: is {timeout!r}; it is a number of microseconds")
    if timeout is not None:
        seconds = min(min(timeout, _LONGEST) / 1e6, math.inf if seconds is None else seconds)
    if ITEMS not in inputs:
        raw = await service.ask_raw(_only_arrays(inputs), timeout=seconds, gone=gone)
        return {name: raw[name] for name in _wanted(asked, list(raw), list(raw))}, []
    if len(inputs) > 1:
        raise RequestError(f"inputs: '{ITEMS}' goes with no other input; got {sorted(inputs)}")
    known = [RESULTS, *([EMBEDDINGS] if service.poolings else [])]
    wanted = _wanted(asked, known, [EMBEDDINGS if service.poolings else RESULTS])
    values = _items(inputs[ITEMS])
    pooling = service.pooling(asked.parameters.get("pooling")) if EMBEDDINGS in wanted else None
    found = await service.ask(
        values, tuple(pooling if name == EMBEDDINGS else None for name in wanted), timeout=seconds, gone=gone
    )
    outputs: Outputs = {}
    for name, results in zip(wanted, found.results, strict=True):
        if name == EMBEDDINGS:
            outputs[name] = np.asarray(results, np.float32).reshape(
                len(results), -1 if results else service.width(pooling)
            )
        else:
            written = [pydantic_core.to_json(result, inf_nan_mode="null").decode() for result in results]
            outputs[name] = TextTensor([len(written)], written)
    return outputs, list(dict.fromkeys(version for version in found.versions if version is not None))


def _only_arrays(inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    texts = [name for name, tensor in inputs.items() if isinstance(tensor, TextTensor)]
    if texts:
        raise RequestError(f"input {texts[0]}: is BYTES; texts go into '{ITEMS}'")
    return inputs


def _items(tensor: np.ndarray | TextTensor) -> list[Any]:
    if not isinstance(tensor, TextTensor):
        raise RequestError(f"input {ITEMS}: is {datatype_of(str(tensor.dtype))}; it is BYTES")
    if len(tensor.shape) == 1 or (len(tensor.shape) == 2 and tensor.shape[1] == 1):
        return tensor.elements
    if len(tensor.shape) == 2 and tensor.shape[1] == 2:
        return [list(pair) for pair in zip(tensor.elements[::2], tensor.elements[1::2], strict=True)]
    raise RequestError(f"input {ITEMS}: its shape is {tensor.shape}; it is [N], or [N, 2] for pairs")


def _wanted(asked: InferRequest, known: list[str], default: list[str]) -> list[str]:
    names = default if asked.outputs is None else [output.name for output in asked.outputs]
    for name in names:
        if name not in known:
            raise NotThere(f"outputs: there is no '{name}'; these inputs give {', '.join(known)}")
    return names


def _binary_outputs(asked: InferRequest, outputs: Outputs) -> list[str]:
    default = asked.parameters.get("binary_data_output", False)
    told = {output.name: output.parameters.get("binary_data", default) for output in asked.outputs or ()}
    return [name for name in outputs if told.get(name, default) is True]
