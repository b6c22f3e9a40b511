"""The messages of the Open Inference Protocol v2 over gRPC, and of gRPC's own health check.

The facts are those of https://github.com/kserve/open-inference-protocol (`open_inference_grpc.proto`) and
https://github.com/grpc/grpc/blob/master/doc/health-checking.md. A field's number is its place, from 1. They stand in a
pool of their own: clients of other makers in the same process bring messages of the same names.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_INFERENCE = {
    "Empty": "",
    "ServerLiveResponse": "bool live",
    "ServerReadyResponse": "bool ready",
    "ModelReadyRequest": "string name, string version",
    "ModelReadyResponse": "bool ready",
    "ServerMetadataResponse": "string name, string version, repeated string extensions",
    "ModelMetadataRequest": "string name, string version",
    "TensorMetadata": "string name, string datatype, repeated int64 shape",
    "ModelMetadataResponse": "string name, repeated string versions, string platform, repeated TensorMetadata inputs, "
    "repeated TensorMetadata outputs",
    "InferParameter": "choice bool bool_param, choice int64 int64_param, choice string string_param, "
    "choice double double_param, choice uint64 uint64_param",
    "InferTensorContents": "repeated bool bool_contents, repeated int32 int_contents, repeated int64 int64_contents, "
    "repeated uint32 uint_contents, repeated uint64 uint64_contents, repeated float fp32_contents, "
    "repeated double fp64_contents, repeated bytes bytes_contents",
    "InferTensor": "string name, string datatype, repeated int64 shape, map InferParameter parameters, "
    "InferTensorContents contents",
    "InferRequestedOutputTensor": "string name, map InferParameter parameters",
    "ModelInferRequest": "string model_name, string model_version, string id, map InferParameter parameters, "
    "repeated InferTensor inputs, repeated InferRequestedOutputTensor outputs, repeated bytes raw_input_contents",
    "ModelInferResponse": "string model_name, string model_version, string id, map InferParameter parameters, "
    "repeated InferTensor outputs, repeated bytes raw_output_contents",
}
_HEALTH = {"HealthCheckRequest": "string service", "HealthCheckResponse": "int32 status"}
_PACKAGES = {"inference": _INFERENCE, "grpc.health.v1": _HEALTH}
_Field = descriptor_pb2.FieldDescriptorProto


def _add_field(message: Any, package: str, number: int, words: list[str]) -> None:
    *how, kind, name = words
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if how == ["repeated"]:
        field.label = _Field.LABEL_REPEATED
    elif how == ["choice"]:
        if not message.oneof_decl:
            message.oneof_decl.add(name="parameter_choice")
        field.oneof_index = 0
    elif how == ["map"]:
        entry = message.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        _add_field(entry, package, 1, ["string", "key"])
        _add_field(entry, package, 2, [kind, "value"])
        field.label, field.type = _Field.LABEL_REPEATED, _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{message.name}.{entry.name}"
        return
    if kind[0].isupper():
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{package}.{kind}"
    else:
        field.type = getattr(_Field, f"TYPE_{kind.upper()}")


def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    found: dict[str, Any] = {}
    for package, messages in _PACKAGES.items():
        file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
        for name, fields in messages.items():
            message = file.message_type.add(name=name)
            for number, words in enumerate(filter(None, fields.split(", ")), 1):
                _add_field(message, package, number, words.split())
        pool.Add(file)
        for name in messages:
            found[name] = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
    return found


MESSAGES = _classes()
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3  # of HealthCheckResponse.status
