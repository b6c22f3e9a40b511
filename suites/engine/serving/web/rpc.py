"""The Open Inference Protocol v2 over gRPC: the same models, limits and answers as over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import math
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from framework.errors import PaddockError
from framework.outside import read_bytes
from suites.engine.serving.errors import Closed, RequestError, shown
from suites.engine.serving.models import Models, Taken
from suites.engine.serving.web.http import BODY_SECONDS, Bodies, aside
from suites.engine.serving.web.open_inference import answer, model_described, server_described, user_of, version_of
from suites.engine.serving.web.protocol import (
    DATATYPES,
    InferRequest,
    OutputAsked,
    TensorIn,
    TextTensor,
    bytes_of,
    check_tensor,
    check_texts,
    datatype_of,
    tensor_of,
)
from suites.engine.serving.web.rpc_messages import MESSAGES, NOT_SERVING, SERVICE_UNKNOWN, SERVING

SERVICE = "inference.GRPCInferenceService"
_HEALTH = "grpc.health.v1.Health"
_CODES = {
    HTTPStatus.UNAUTHORIZED: grpc.StatusCode.UNAUTHENTICATED,
    HTTPStatus.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    HTTPStatus.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    499: grpc.StatusCode.CANCELLED,
    HTTPStatus.INTERNAL_SERVER_ERROR: grpc.StatusCode.INTERNAL,
    HTTPStatus.SERVICE_UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT: grpc.StatusCode.DEADLINE_EXCEEDED,
}  # of other answers: INVALID_ARGUMENT
# Where numbers of a type stand in a request that sends none as bytes; half precision is sent as bytes only.
_CONTENTS = {"BOOL": "bool_contents", "INT64": "int64_contents", "UINT64": "uint64_contents", "BYTES": "bytes_contents",
             "FP32": "fp32_contents", "FP64": "fp64_contents",
             **{f"INT{bits}": "int_contents" for bits in (8, 16, 32)},
             **{f"UINT{bits}": "uint_contents" for bits in (8, 16, 32)}}  # fmt: skip
_READ_AHEAD = 4  # times what all requests may have in bytes: messages that are on their way


class _Call(NamedTuple):
    """A request: its message, what it holds, and the seconds that its client waits; None for any time."""

    body: bytes
    taken: Taken
    seconds: float | None


Respond = Callable[[_Call], Awaitable[Any]]


class Rpc:
    """A server of gRPC beside that of HTTP, on the same loop.

    Args:
        models: the models.
        address: host and port, such as 127.0.0.1:8081.
        token: what clients must show, as metadata `authorization: Bearer TOKEN`; None lets everybody in.
        most: calls at a time; more are refused with RESOURCE_EXHAUSTED.
        certificate, key: files in PEM format, for TLS.
        say: gets what belongs in a log.
    """

    def __init__(
        self,
        models: Models,
        address: str,
        *,
        token: str | None = None,
        most: int = 1024,
        certificate: Path | None = None,
        key: Path | None = None,
        say: Callable[[str], None],
    ) -> None:
        self._models, self._say = models, say
        self._expected = None if token is None else f"Bearer {token}".encode()
        settings = models.settings
        self._bodies = Bodies(settings.max_body, settings.max_bodies)
        # gRPC gives a message when it is whole. So few are read at a time that they cannot fill the memory uncounted.
        self._reading = asyncio.Semaphore(max(1, _READ_AHEAD * settings.max_bodies // settings.max_body))
        self._server = grpc.aio.server(
            maximum_concurrent_rpcs=most,
            options=[
                ("grpc.max_receive_message_length", settings.max_body),
                ("grpc.max_send_message_length", -1),
                ("grpc.per_message_decompression", 0),  # a small message could become any size
                ("grpc.so_reuseport", 0),  # another server's port is not shared in silence
            ],
        )
        self._server.add_generic_rpc_handlers(self._handlers())
        if certificate is None or key is None:
            port = self._server.add_insecure_port(address)
        else:
            pair = (read_bytes(key), read_bytes(certificate))
            port = self._server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        if not port:
            raise OSError(f"gRPC cannot listen at {address}")

    async def start(self) -> None:
        """Answer from here on."""
        await self._server.start()

    async def stop(self, seconds: float) -> None:
        """Take no calls any more and end those that are not answered within so many seconds."""
        await self._server.stop(seconds)

    # -- what each call passes
    def _handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        calls: dict[str, Respond] = {
            "ServerLive": self._server_live,
            "ServerReady": self._server_ready,
            "ModelReady": self._model_ready,
            "ServerMetadata": self._server_metadata,
            "ModelMetadata": self._model_metadata,
            "ModelInfer": self._model_infer,
        }
        probes = ("ServerLive", "ServerReady")
        known = {name: self._handler(name, call, is_open=name in probes) for name, call in calls.items()}
        health = {"Check": self._handler("Check", self._health, is_open=True)}
        generic = grpc.method_handlers_generic_handler
        return generic(SERVICE, known), generic(_HEALTH, health)

    def _handler(self, name: str, respond: Respond, *, is_open: bool) -> grpc.RpcMethodHandler:
        async def call(messages: AsyncIterator[bytes], context: Any) -> bytes:
            start, taken, status = time.monotonic(), Taken(), grpc.StatusCode.OK
            self._models.traffic.in_flight.inc()
            try:
                if not is_open:
                    self._expect_token(context)
                with self._inside(is_open):
                    body = await self._read(messages)
                    with self._bodies.whole(body):
                        found = await respond(_Call(body, taken, context.time_remaining()))
                        made: bytes = found.SerializeToString()
                        return made
            except PaddockError as error:
                status = _code(error)
                await context.abort(status, shown(error))
                raise
            except asyncio.CancelledError:
                status = grpc.StatusCode.CANCELLED
                raise
            except Exception as error:
                status = grpc.StatusCode.INTERNAL
                self._say("".join(traceback.format_exception(error)))
                await context.abort(status, f"internal error: {type(error).__name__}; the log has more")
                raise
            finally:
                who = [(version.model, version.label) for version in taken.versions[:1]] or [("", "")]
                taken.drop()
                traffic = self._models.traffic
                traffic.in_flight.dec()
                traffic.request(f"grpc/{name}", status.value[0], time.monotonic() - start, *who[0])

        # As a stream of one message, which is the same on the wire, a request is read when there is room for it.
        return grpc.stream_unary_rpc_method_handler(call)

    def _expect_token(self, context: Any) -> None:
        if self._expected is None:
            return
        given = dict(context.invocation_metadata() or ()).get("authorization", "")
        given = given.encode() if isinstance(given, str) else given
        if not hmac.compare_digest(given, self._expected):
            raise _NoToken("the server wants its token: metadata authorization: Bearer TOKEN")

    @contextlib.contextmanager
    def _inside(self, is_open: bool) -> Iterator[None]:
        if self._models.draining and not is_open:
            raise Closed("the server is shutting down; ask another one")
        self._models.inside += not is_open
        try:
            yield
        finally:
            self._models.inside -= not is_open

    async def _read(self, messages: AsyncIterator[bytes]) -> bytes:
        async def first() -> bytes:
            async with self._reading:
                async for message in messages:
                    return message
            raise RequestError("the call has no message")

        try:
            return await asyncio.wait_for(first(), BODY_SECONDS)
        except TimeoutError:
            raise RequestError(f"the message did not come within {BODY_SECONDS:.0f} s") from None

    # -- the calls
    async def _server_live(self, call: _Call) -> Any:
        return MESSAGES["ServerLiveResponse"](live=self._models.trouble() is None)

    async def _server_ready(self, call: _Call) -> Any:
        return MESSAGES["ServerReadyResponse"](ready=self._models.not_ready() is None)

    async def _model_ready(self, call: _Call) -> Any:
        asked = _parsed("ModelReadyRequest", call.body)
        version = version_of(self._models, asked.name, asked.version or None)
        return MESSAGES["ModelReadyResponse"](ready=version.service.not_ready() is None)

    async def _server_metadata(self, call: _Call) -> Any:
        return MESSAGES["ServerMetadataResponse"](**server_described())

    async def _model_metadata(self, call: _Call) -> Any:
        asked = _parsed("ModelMetadataRequest", call.body)
        told = model_described(self._models, asked.name, asked.version or None)
        for side in ("inputs", "outputs"):
            told[side] = [MESSAGES["TensorMetadata"](**row) for row in told[side]]
        return MESSAGES["ModelMetadataResponse"](**told)

    async def _model_infer(self, call: _Call) -> Any:
        request = await aside(len(call.body), _parsed, "ModelInferRequest", call.body)
        version_of(self._models, request.model_name, request.model_version or None)
        asked, inputs = await aside(len(call.body), _asked, request, self._models.settings.max_values)
        label = request.model_version or None
        taken = self._models.take(call.taken, request.model_name, user_of(asked), label)
        outputs, renewed = await answer(taken.service, asked, inputs, seconds=call.seconds)
        made = MESSAGES["ModelInferResponse"](model_name=taken.model, model_version=taken.label, id=request.id)
        if renewed:
            made.parameters["version"].string_param = ",".join(renewed)
        numbers = sum(math.prod(tensor.shape) for tensor in outputs.values())
        return await aside(numbers, _filled, made, outputs)

    async def _health(self, call: _Call) -> Any:
        asked = _parsed("HealthCheckRequest", call.body)
        if asked.service not in ("", SERVICE, *self._models.names()):
            return MESSAGES["HealthCheckResponse"](status=SERVICE_UNKNOWN)
        serves = self._models.not_ready() is None
        return MESSAGES["HealthCheckResponse"](status=SERVING if serves else NOT_SERVING)


class _NoToken(RequestError):
    """Who asks does not show the token."""

    status = HTTPStatus.UNAUTHORIZED


def _code(error: PaddockError) -> grpc.StatusCode:
    status = error.status if isinstance(error, RequestError) else HTTPStatus.BAD_REQUEST
    return _CODES.get(status, grpc.StatusCode.INVALID_ARGUMENT)


def _parsed(name: str, body: bytes) -> Any:
    try:
        return MESSAGES[name].FromString(body)
    except DecodeError as error:
        raise RequestError(f"the message is no {name} ({error}), or is compressed, which is not taken") from None


def _plain(parameters: Any) -> dict[str, Any]:
    """Parameters as JSON has them."""
    found = {}
    for name, value in parameters.items():
        choice = value.WhichOneof("parameter_choice")
        if choice is not None:
            found[name] = getattr(value, choice)
    return found


def _asked(request: Any, most_texts: int) -> tuple[InferRequest, dict[str, np.ndarray | TextTensor]]:
    """What is asked, and its inputs by name."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise RequestError(f"raw_input_contents: there are {len(raw)} of {len(request.inputs)} inputs; send all so")
    inputs: dict[str, np.ndarray | TextTensor] = {}
    for i, given in enumerate(request.inputs):
        tensor = TensorIn(name=given.name, shape=list(given.shape), datatype=given.datatype)
        if tensor.name in inputs:
            raise RequestError(f"input {tensor.name}: is there twice")
        check_tensor(tensor)
        check_texts(tensor, most_texts)
        if raw and given.HasField("contents"):
            raise RequestError(f"input {tensor.name}: has contents beside raw_input_contents; send one of them")
        inputs[tensor.name] = tensor_of(tensor, memoryview(raw[i])) if raw else _from_contents(tensor, given.contents)
    outputs = [OutputAsked(name=each.name, parameters=_plain(each.parameters)) for each in request.outputs]
    parameters = _plain(request.parameters)
    return InferRequest(id=request.id, parameters=parameters, inputs=[], outputs=outputs or None), inputs


def _from_contents(tensor: TensorIn, contents: Any) -> np.ndarray | TextTensor:
    field = _CONTENTS.get(tensor.datatype)
    if field is None:
        raise RequestError(f"input {tensor.name}: {tensor.datatype} is sent in raw_input_contents only")
    values, count = getattr(contents, field), math.prod(tensor.shape)
    if len(values) != count:
        raise RequestError(f"input {tensor.name}: has {len(values)} {field}; its shape {tensor.shape} asks for {count}")
    if tensor.datatype == "BYTES":
        try:
            return TextTensor(tensor.shape, [str(value, "utf-8") for value in values])
        except UnicodeDecodeError as error:
            raise RequestError(f"input {tensor.name}: an element is no UTF-8 ({error.reason})") from None
    kind = np.dtype(DATATYPES[tensor.datatype])
    try:
        return np.array(list(values), kind).reshape(tensor.shape)
    except OverflowError as error:
        raise RequestError(f"input {tensor.name}: an element is no {tensor.datatype}: {error!s:.80}") from None


def _filled(made: Any, outputs: dict[str, np.ndarray | TextTensor]) -> Any:
    for name, tensor in outputs.items():
        datatype = "BYTES" if isinstance(tensor, TextTensor) else datatype_of(str(tensor.dtype))
        made.outputs.add(name=name, datatype=datatype, shape=list(tensor.shape))
        made.raw_output_contents.append(bytes_of(tensor))
    return made
