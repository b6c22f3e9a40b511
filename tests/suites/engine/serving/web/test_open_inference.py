"""The Open Inference Protocol v2: by hand, with hostile bodies, and with Triton's own client."""

import json
import struct

import numpy as np
import pytest

from suites.engine.serving.web.protocol import DATATYPES, HEADER
from tests.suites.engine.serving import toy
from tests.suites.engine.serving.web.test_server import ask

INFER = "/v2/models/words/infer"


def items(*texts, shape=None):
    return {"name": "items", "shape": shape or [len(texts)], "datatype": "BYTES", "data": list(texts)}


def test_health_and_metadata(server):
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/words/ready", "/v2/models/words/versions/1/ready"):
        assert ask(server, path)[0] == 200
    status, _, data = ask(server, "/v2")
    assert status == 200 and json.loads(data)["name"] == "paddock"
    status, _, data = ask(server, "/v2/models/words")
    found = json.loads(data)
    assert status == 200 and found["name"] == "words" and found["versions"] == ["1"]
    assert found["inputs"] == [
        {"name": "items", "datatype": "BYTES", "shape": [-1]},
        {"name": "ids", "datatype": "INT64", "shape": [-1]},
    ]
    assert [output["name"] for output in found["outputs"]] == ["results", "embeddings", "tokens"]


def test_texts_give_embeddings_and_results_in_the_order_asked(server):
    outputs = [{"name": "results"}, {"name": "embeddings"}]
    body = {"id": "7", "inputs": [items("a", "b c")], "outputs": outputs, "parameters": {"pooling": "max"}}
    status, _, data = ask(server, INFER, body)
    found = json.loads(data)
    assert status == 200 and (found["id"], found["model_name"], found["model_version"]) == ("7", "words", "1")
    results, vectors = found["outputs"]
    assert (results["name"], results["datatype"], results["shape"]) == ("results", "BYTES", [2])
    assert json.loads(results["data"][0])["score"] == pytest.approx(float(toy.vector("a").max()))
    assert vectors["shape"] == [2, toy.WIDTH] and vectors["datatype"] == "FP32"
    expected = [*toy.vector("a", "max"), *toy.vector("b c", "max")]
    np.testing.assert_allclose(vectors["data"], expected, rtol=1e-6)


def test_two_columns_are_pairs(server):
    _, _, data = ask(server, INFER, {"inputs": [items("a", "b", "c", "d", shape=[2, 2])]})
    (vectors,) = json.loads(data)["outputs"]
    np.testing.assert_allclose(vectors["data"], [*toy.vector("a | b"), *toy.vector("c | d")], rtol=1e-6)


def test_the_networks_own_arrays_run_as_they_are(server):
    ids = {"name": "ids", "shape": [3], "datatype": "INT64", "data": [5, 0, 63]}
    status, _, data = ask(server, "/v2/models/words/versions/1/infer", {"inputs": [ids]})
    (tokens,) = json.loads(data)["outputs"]
    assert status == 200 and tokens["shape"] == [3, toy.WIDTH]
    np.testing.assert_allclose(tokens["data"], toy.TABLE[[5, 0, 63]].ravel(), rtol=1e-6)


IDS = {"name": "ids", "shape": [2], "datatype": "INT64", "data": [1, 2]}
WRONG = [
    ({"inputs": []}, "inputs: got []; the network takes ['ids']"),
    ({}, "inputs: is missing"),
    ({"inputs": [IDS, IDS]}, "input ids: is there twice"),
    ({"inputs": [{**IDS, "shape": [3]}]}, "input ids: has 2 elements; its shape [3] asks for 3"),
    ({"inputs": [{**IDS, "shape": [-2]}]}, "no extent is below 0"),
    ({"inputs": [{**IDS, "shape": [0, 10**30], "data": []}]}, "no extent is below 0 or above 2147483647"),
    ({"inputs": [{**IDS, "shape": [1] * 40}]}, "it has 40 axes; 8 are allowed"),
    ({"inputs": [{**IDS, "shape": [1, 2]}]}, "input ids: is int64[1, 2]; the network takes int64 with 1 axes"),
    ({"inputs": [{**IDS, "datatype": "INT32"}]}, "input ids: is int32[2]"),
    ({"inputs": [{**IDS, "datatype": "int"}]}, "its datatype is 'int'; there are BOOL"),
    ({"inputs": [{**IDS, "data": [1, "x"]}]}, "input ids: an element is no INT64: x"),
    ({"inputs": [{**IDS, "data": [1, 2.5]}]}, "input ids: an element is no INT64: 2.5"),
    ({"inputs": [{**IDS, "data": [1, 2**70]}]}, "input ids: an element is no INT64"),
    ({"inputs": [{**IDS, "data": [[1], 2]}]}, "data mixes lists and elements"),
    ({"inputs": [{**IDS, "data": [1, 64]}]}, "embedding"),
    ({"inputs": [{**IDS, "data": [-5, 1]}]}, "embedding"),
    ({"inputs": [{**IDS, "name": "other"}]}, "inputs: got ['other']"),
    ({"inputs": [{**IDS, "data": None}]}, "has neither data nor binary_data_size"),
    ({"inputs": [items("a"), IDS]}, "'items' goes with no other input"),
    ({"inputs": [{**items("a"), "name": "text"}]}, "input text: is BYTES; texts go into 'items'"),
    ({"inputs": [{**IDS, "name": "items"}]}, "input items: is INT64; it is BYTES"),
    ({"inputs": [items("a", "b", "c", shape=[1, 3])]}, "it is [N], or [N, 2] for pairs"),
    ({"inputs": [items("a", 3)]}, "an element is 3; those of BYTES are texts"),
    ({"inputs": [items("a")], "parameters": {"timeout": "soon"}}, "it is a number of microseconds"),
    ({"inputs": [items("a")], "parameters": {"pooling": 3}}, "there is no '3'"),
]


@pytest.mark.parametrize(("body", "message"), WRONG, ids=lambda x: x[:40] if isinstance(x, str) else "")
def test_a_wrong_request_gets_400_and_one_clear_message(server, body, message):
    status, _, data = ask(server, INFER, body)
    assert status == 400 and message in json.loads(data)["error"]


def test_other_models_and_versions_are_not_there(server):
    for path in ("/v2/models/other", "/v2/models/words/versions/2", "/v2/models/other/ready"):
        status, _, data = ask(server, path)
        assert status == 404 and "error" in json.loads(data)


def test_too_many_rows_are_refused(server):
    status, _, data = ask(server, INFER, {"inputs": [{**IDS, "shape": [1001], "data": [0] * 1001}]})
    assert status == 413 and b"have 1001 rows; 1000 are allowed" in data


def binary(server, inputs, rest, length=None):
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    headers = {HEADER: str(len(head) if length is None else length)}
    return ask(server, INFER, head + rest, headers=headers)


def test_binary_tensors_go_both_ways(server):
    ids = np.array([7, 8], "<i8").tobytes()
    row = {"name": "ids", "shape": [2], "datatype": "INT64", "parameters": {"binary_data_size": 16}}
    status, headers, data = binary(server, [row], ids)
    length = int(headers[HEADER])
    (tokens,) = json.loads(data[:length])["outputs"]
    assert status == 200 and tokens["parameters"] == {"binary_data_size": 2 * 4 * toy.WIDTH}
    np.testing.assert_array_equal(np.frombuffer(data[length:], "<f4").reshape(2, -1), toy.TABLE[[7, 8]])


def test_damaged_binary_bodies_are_refused(server):
    row = {"name": "items", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 5}}
    good = struct.pack("<I", 1) + b"a"
    assert binary(server, [row], good)[0] == 200
    for inputs, rest, length, message in [
        ([row], good[:-1], None, b"binary_data_size is 5 and 4 bytes are left"),
        ([row], good + b"x", None, b"1 bytes more than its inputs"),
        ([row], struct.pack("<I", 9) + b"a", None, b"an element of 9 bytes is longer than what is left"),
        ([row], struct.pack("<I", 1) + b"\xff", None, b"element 0 is no UTF-8"),
        ([{**row, "parameters": {"binary_data_size": 2}}], b"ab", None, b"end within an element's length"),
        ([{**row, "shape": [2]}], good, None, b"has 1 elements; its shape asks for 2"),
        ([{**row, "parameters": {"binary_data_size": -1}}], good, None, b"binary_data_size is -1"),
        ([{**row, "datatype": "FP32"}], good, None, b"has 5 bytes; [1] takes 4"),
        ([row], good, 10**9, b"the body has"),
        ([row], good, "x", b"the body has"),
    ]:
        status, _, data = binary(server, inputs, rest, length)
        assert status == 400 and message in data, data


def test_every_datatype_has_its_array_type():
    assert {"BOOL", "UINT8", "UINT64", "INT8", "INT64", "FP16", "FP32", "FP64"} <= DATATYPES.keys()
    assert all(np.dtype(name) for name in DATATYPES.values())


def test_tritons_own_client_is_served(server):
    triton = pytest.importorskip("tritonclient.http", reason="the package tritonclient is not installed")
    client = triton.InferenceServerClient(server.url.removeprefix("http://"))
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("words")
    assert client.get_server_metadata()["name"] == "paddock"
    assert client.get_model_metadata("words")["platform"] == "paddock"
    for is_binary in (True, False):
        texts = triton.InferInput("items", [2], "BYTES")
        texts.set_data_from_numpy(np.array(["a", "größer"], dtype=np.object_), binary_data=is_binary)
        wanted = [triton.InferRequestedOutput(name, binary_data=is_binary) for name in ("embeddings", "results")]
        found = client.infer("words", [texts], outputs=wanted, request_id="9", timeout=2_000_000)
        assert found.get_response()["id"] == "9"
        np.testing.assert_allclose(found.as_numpy("embeddings")[1], toy.vector("größer"), rtol=1e-6)
        assert "score" in json.loads(found.as_numpy("results")[0])
        ids = triton.InferInput("ids", [2], "INT64")
        ids.set_data_from_numpy(np.array([3, 4]), binary_data=is_binary)
        found = client.infer("words", [ids], model_version="1")  # the client asks for binary by default
        np.testing.assert_array_equal(found.as_numpy("tokens"), toy.TABLE[[3, 4]])
    with pytest.raises(triton.InferenceServerException if hasattr(triton, "InferenceServerException") else Exception):
        client.infer("other", [ids])
    client.close()
