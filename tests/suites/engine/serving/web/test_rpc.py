"""gRPC: the answers of HTTP, by Triton's own client and by hand; wrong, hostile and late calls; a server's end."""

import contextlib
import json
import random
from pathlib import Path

import numpy as np
import pytest

from framework.errors import PaddockError
from suites.engine.serving.service import Settings
from tests.suites.engine.serving import toy
from tests.suites.engine.serving.web.test_server import ask, busy
from tests.waiting import until

grpc = pytest.importorskip("grpc", reason="the extra grpc is not installed")

from suites.engine.serving.web.rpc import SERVICE  # noqa: E402
from suites.engine.serving.web.rpc_messages import MESSAGES, NOT_SERVING, SERVICE_UNKNOWN, SERVING  # noqa: E402

SETTINGS = Settings(name="words", timeout=5.0, max_body=200_000, max_items=50, max_chars=5000)


@pytest.fixture(scope="module")
def server(model):
    with toy.running(model, SETTINGS, grpc_port=0) as found:
        yield found


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(server.grpc_address) as found:
        yield found


ANSWERS = {"ModelInfer": "ModelInferResponse", "ModelMetadata": "ModelMetadataResponse",
           "ModelReady": "ModelReadyResponse", "ServerLive": "ServerLiveResponse",
           "ServerReady": "ServerReadyResponse", "ServerMetadata": "ServerMetadataResponse",
           "Check": "HealthCheckResponse"}  # fmt: skip


def call(channel, name, body=b"", service=SERVICE, **options):
    """The answer of a call whose message is given as it is, or as bytes."""
    data = body if isinstance(body, bytes) else body.SerializeToString()
    options = {"timeout": 20, "wait_for_ready": True, **options}
    return MESSAGES[ANSWERS[name]].FromString(channel.unary_unary(f"/{service}/{name}")(data, **options))


def refused(channel, name, body, **options):
    with pytest.raises(grpc.RpcError) as found:
        call(channel, name, body, **options)
    return found.value.code().name, found.value.details()


def infer(*inputs, raw=(), model="words", outputs=(), **fields):
    made = MESSAGES["ModelInferRequest"](model_name=model, raw_input_contents=list(raw), **fields)
    for tensor in inputs:
        made.inputs.add().CopyFrom(tensor)
    for name in outputs:
        made.outputs.add(name=name)
    return made


def tensor(name, datatype, shape, **contents):
    made = MESSAGES["InferTensor"](name=name, datatype=datatype, shape=shape)
    for field, values in contents.items():
        getattr(made.contents, field).extend(values)
    return made


def items(*texts, shape=None):
    return tensor("items", "BYTES", shape or [len(texts)], bytes_contents=[text.encode() for text in texts])


def floats(answer, at=0):
    return np.frombuffer(answer.raw_output_contents[at], np.float32).reshape(list(answer.outputs[at].shape))


def test_messages_have_the_fields_of_the_protocol():
    theirs = pytest.importorskip("tritonclient.grpc", reason="Triton's client is not installed").service_pb2
    same = {"InferTensor": "ModelInferRequest.InferInputTensor",
            "TensorMetadata": "ModelMetadataResponse.TensorMetadata",
            "InferRequestedOutputTensor": "ModelInferRequest.InferRequestedOutputTensor"}  # fmt: skip

    def fields(descriptor):
        return [(f.name, f.number, f.type, f.is_repeated) for f in descriptor.fields]

    for name, made in MESSAGES.items():
        if name == "Empty" or name.startswith("Health"):
            continue
        other = theirs
        for part in same.get(name, name).split("."):
            other = getattr(other, part)
        assert fields(made.DESCRIPTOR) == fields(other.DESCRIPTOR), name


def test_health_and_metadata(channel):
    assert call(channel, "ServerLive").live and call(channel, "ServerReady").ready
    assert call(channel, "ModelReady", MESSAGES["ModelReadyRequest"](name="words", version="1")).ready
    assert call(channel, "ServerMetadata").name == "paddock"
    found = call(channel, "ModelMetadata", MESSAGES["ModelMetadataRequest"](name="words"))
    assert [(t.name, t.datatype, list(t.shape)) for t in found.inputs] == [
        ("items", "BYTES", [-1]),
        ("ids", "INT64", [-1]),
    ]
    assert [t.name for t in found.outputs] == ["results", "embeddings", "tokens"] and list(found.versions) == ["1"]


def test_orchestrators_are_told_who_serves(channel):
    def status(name):
        body = MESSAGES["HealthCheckRequest"](service=name)
        return call(channel, "Check", body, service="grpc.health.v1.Health").status

    assert [status(name) for name in ("", SERVICE, "words", "other")] == [SERVING, SERVING, SERVING, SERVICE_UNKNOWN]


def test_texts_give_what_http_gives(server, channel):
    asked = infer(items("a", "b c"), id="7", outputs=["results", "embeddings"])
    asked.parameters["pooling"].string_param = "max"
    found = call(channel, "ModelInfer", asked)
    assert (found.id, found.model_name, found.model_version) == ("7", "words", "1")
    body = {"inputs": [{"name": "items", "shape": [2], "datatype": "BYTES", "data": ["a", "b c"]}],
            "outputs": [{"name": "results"}, {"name": "embeddings"}], "parameters": {"pooling": "max"}}  # fmt: skip
    results, vectors = json.loads(ask(server, "/v2/models/words/infer", body)[2])["outputs"]
    np.testing.assert_array_equal(floats(found, 1).ravel(), np.float32(vectors["data"]))
    raw, texts = found.raw_output_contents[0], []
    while raw:
        size = int.from_bytes(raw[:4], "little")
        texts.append(raw[4 : 4 + size].decode())
        raw = raw[4 + size :]
    assert texts == results["data"]


@pytest.mark.parametrize("raw", [False, True])
def test_the_networks_own_arrays_run_as_they_are(channel, raw):
    ids = np.array([5, 0, 63])
    made = tensor("ids", "INT64", [3], **({} if raw else {"int64_contents": ids.tolist()}))
    found = call(channel, "ModelInfer", infer(made, raw=[ids.tobytes()] if raw else [], model_version="1"))
    np.testing.assert_allclose(floats(found), toy.TABLE[ids], rtol=1e-6)


def test_tritons_client_is_answered(server):
    triton = pytest.importorskip("tritonclient.grpc", reason="Triton's client is not installed")
    client = triton.InferenceServerClient(server.grpc_address)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("words")
    given = triton.InferInput("ids", [2], "INT64")
    given.set_data_from_numpy(np.array([1, 2]))
    texts = triton.InferInput("items", [2], "BYTES")
    texts.set_data_from_numpy(np.array([b"one", b"two words"], dtype=object))
    found = client.infer("words", [given], outputs=[triton.InferRequestedOutput("tokens")])
    np.testing.assert_allclose(found.as_numpy("tokens"), toy.TABLE[[1, 2]], rtol=1e-6)
    found = client.infer("words", [texts], request_id="x", client_timeout=5)
    np.testing.assert_allclose(found.as_numpy("embeddings")[1], toy.vector("two words"), rtol=1e-5, atol=1e-6)
    client.close()


WRONG = {
    "no such model": (infer(items("a"), model="other"), "NOT_FOUND", "no model 'other'; there is 'words'"),
    "no such version": (infer(items("a"), model_version="9"), "NOT_FOUND", "has no version '9'; it has 1"),
    "no such output": (infer(items("a"), outputs=["other"]), "NOT_FOUND", "there is no 'other'; these inputs give"),
    "no inputs": (infer(), "INVALID_ARGUMENT", "inputs: got []"),
    "too few elements": (infer(items("a", shape=[2])), "INVALID_ARGUMENT", "has 1 bytes_contents; its shape [2]"),
    "too large a shape": (infer(tensor("ids", "INT64", [2**40])), "INVALID_ARGUMENT", "no extent is below 0 or above"),
    "a shape below 0": (infer(tensor("ids", "INT64", [-3])), "INVALID_ARGUMENT", "no extent is below 0"),
    "a type that is none": (infer(tensor("ids", "INT9", [1])), "INVALID_ARGUMENT", "'INT9'; there are BOOL"),
    "a number too large": (
        infer(tensor("x", "INT8", [1], int_contents=[300])), "INVALID_ARGUMENT", "an element is no INT8"),
    "half precision in contents": (infer(tensor("x", "FP16", [1])), "INVALID_ARGUMENT", "raw_input_contents only"),
    "raw of another size": (
        infer(tensor("ids", "INT64", [3]), raw=[b"1234"]), "INVALID_ARGUMENT", "has 4 bytes; [3] takes 24"),
    "raw for some": (infer(tensor("ids", "INT64", [1]), raw=[b"", b""]), "INVALID_ARGUMENT", "there are 2 of 1 inputs"),
    "raw and contents": (infer(items("a"), raw=[b"a"]), "INVALID_ARGUMENT", "has contents beside"),
    "twice": (infer(items("a"), items("a")), "INVALID_ARGUMENT", "input items: is there twice"),
    "no text": (
        infer(tensor("items", "BYTES", [1], bytes_contents=[b"\xff"])), "INVALID_ARGUMENT", "is no UTF-8"),
    "too many items": (infer(items(*["a"] * 60)), "RESOURCE_EXHAUSTED", "has 60 items; 50 are allowed"),
    "no message of this kind": (b"\xff\xff\xff", "INVALID_ARGUMENT", "the message is no ModelInferRequest"),
    "too large a message": (infer(items("a" * 300_000)), "RESOURCE_EXHAUSTED", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_call_gets_one_clear_error(channel, case):
    body, code, message = WRONG[case]
    found = refused(channel, "ModelInfer", body)
    assert found[0] == code and message in found[1]


def test_compressed_messages_are_not_unpacked(channel):
    body = infer(items("a" * 4000))
    assert refused(channel, "ModelInfer", body, compression=grpc.Compression.Gzip)[0] in (
        "INVALID_ARGUMENT", "UNIMPLEMENTED", "INTERNAL",
    )  # fmt: skip
    assert call(channel, "ServerLive").live


def test_damaged_messages_end_nothing(server, channel):
    whole = infer(items("a", "b c"), outputs=["results"]).SerializeToString()
    rng = random.Random(0)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with contextlib.suppress(grpc.RpcError):
            call(channel, "ModelInfer", bytes(data[: rng.randint(1, len(data))]))
    assert call(channel, "ServerReady").ready and server.models.inside == 0


def test_a_deadline_and_a_client_that_leaves_free_their_place(server, channel):
    code, _ = refused(channel, "ModelInfer", infer(items("SLEEP 1.5")), timeout=0.3)
    assert code == "DEADLINE_EXCEEDED"
    left = channel.unary_unary(f"/{SERVICE}/ModelInfer").future(infer(items("SLEEP 1")).SerializeToString())
    until(lambda: server.models.inside == 1)
    left.cancel()
    until(lambda: server.models.inside == 0)
    until(lambda: not busy(server))
    assert call(channel, "ModelInfer", infer(items("a"))).model_name == "words"


def test_figures_count_calls(server, channel):
    call(channel, "ModelInfer", infer(items("a")))
    refused(channel, "ModelInfer", infer(items("a"), model="other"))
    text = ask(server, "/metrics")[2].decode()
    assert 'paddock_requests_total{route="grpc/ModelInfer",status="0"}' in text
    assert 'paddock_requests_total{route="grpc/ModelInfer",status="5"}' in text


def test_a_token_is_asked_for_but_not_by_health(model):
    with (
        toy.running(model, SETTINGS, grpc_port=0, token="secret") as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        for shown in ((), (("authorization", "Bearer other"),)):
            code, message = refused(channel, "ModelInfer", infer(items("a")), metadata=shown)
            assert code == "UNAUTHENTICATED" and "authorization: Bearer TOKEN" in message
        call(channel, "ModelInfer", infer(items("a")), metadata=(("authorization", "Bearer secret"),))
        assert call(channel, "ServerLive").live
        assert call(channel, "Check", service="grpc.health.v1.Health").status == SERVING


def test_a_server_that_ends_answers_what_it_took_and_says_so(model, held):
    with toy.running(model, SETTINGS, grpc_port=0) as server, grpc.insecure_channel(server.grpc_address) as channel:
        slow = infer(items(held.text)).SerializeToString()
        taken = channel.unary_unary(f"/{SERVICE}/ModelInfer").future(slow, timeout=20, wait_for_ready=True)
        until(lambda: server.models.inside == 1)
        server.stop()
        code, message = refused(channel, "ModelInfer", infer(items("b")))
        assert code == "UNAVAILABLE" and "shutting down" in message
        assert call(channel, "Check", service="grpc.health.v1.Health").status == NOT_SERVING
        held.release()
        assert MESSAGES["ModelInferResponse"].FromString(taken.result()).model_name == "words"


def test_a_port_that_is_taken_is_one_error(server, model):
    port = int(server.grpc_address.rpartition(":")[2])
    with pytest.raises((OSError, PaddockError)), toy.running(model, SETTINGS, grpc_port=port):
        pass


def test_calls_come_at_once(server, channel):
    words = [f"word {i}" for i in range(200)]
    calls = [channel.unary_unary(f"/{SERVICE}/ModelInfer").future(infer(items(w)).SerializeToString()) for w in words]
    for word, each in zip(words, calls, strict=True):
        found = MESSAGES["ModelInferResponse"].FromString(each.result(timeout=30))
        np.testing.assert_allclose(floats(found)[0], toy.vector(word), rtol=1e-5, atol=1e-6)


def test_calls_are_encrypted_where_a_certificate_is_given(model):
    pem = Path(__file__).parents[1] / "localhost.pem"
    with toy.running(model, SETTINGS, grpc_port=0, certificate=pem, key=pem) as server:
        trusted = grpc.ssl_channel_credentials(pem.read_bytes())
        named = server.grpc_address.replace("127.0.0.1", "localhost")
        with grpc.secure_channel(named, trusted) as channel:
            assert call(channel, "ModelInfer", infer(items("a"))).model_name == "words"
