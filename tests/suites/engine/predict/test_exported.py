"""ONNX files open as models do: ours with all that stands around the network, those of others as bare tensors."""

import json

import numpy as np
import pytest

from framework import from_numpy, onnx, ops, program, tflite
from framework.errors import CheckpointError, ConfigError, DataError
from suites.engine.cli import infer
from suites.engine.predict.bare import BareTensors
from suites.engine.predict.exported import open_export, open_onnx_file
from suites.engine.predict.inference import load, open_model
from suites.engine.serving.service import Settings
from tests.framework.tflite.models import small_eight
from tests.suites.engine.serving import toy
from tests.suites.engine.serving.web.test_server import ask, problem
from tests.waiting import until


@pytest.fixture
def file(tmp_path):
    return toy.export_onnx(tmp_path / "words" / "model.onnx")


def test_our_file_answers_as_the_folder_does(file, tmp_path):
    ours, folder = open_model(file), open_export(toy.export(tmp_path / "exported"))
    assert isinstance(ours.processor, toy.WordsProcessor) and ours.inputs == ("ids",)
    assert ours.types.keys() == folder.types.keys() and ours.memory().weights >= toy.TABLE.nbytes
    for ids in ([1, 2, 3], [7], [5] * 40):
        arrays = {"ids": np.array(ids)}
        np.testing.assert_array_equal(ours.predict(arrays)["tokens"], folder.predict(arrays)["tokens"])
        np.testing.assert_array_equal(ours.replica()(arrays)["tokens"], toy.TABLE[ids])


def test_it_is_loaded_by_its_folder_too_and_infers_from_the_command_line(file, tmp_path, capsys):
    assert isinstance(load(file.parent).processor, toy.WordsProcessor)
    text = tmp_path / "text.jpg"
    text.write_text("a b")
    assert infer.main([str(file), str(text)]) == 0
    assert capsys.readouterr().out.startswith("a b: ")
    with pytest.raises(ConfigError, match="an exported model is fixed and takes no -o"):
        open_model(file, overrides=["model.width=3"])


def test_it_is_served_and_a_newer_one_takes_its_place(file):
    versions = file.parents[1] / "versions"
    toy.export_onnx(versions / "1" / "model.onnx")
    with toy.running([toy.offer("words", versions), toy.offer("alone", file)], every=0.02) as server:
        for name in ("words", "alone"):
            _, _, data = ask(server, "/v1/embeddings", {"input": "a b", "model": name})
            np.testing.assert_allclose(json.loads(data)["data"][0]["embedding"], toy.vector("a b"), rtol=1e-5)
        toy.export_onnx(versions / "2" / "model.onnx", scale=2.0)
        until(lambda: ask(server, "/v1/scores", {"input": "a", "model": "words"})[1]["Paddock-Version"] == "words@2")


def bare(path, shapes):
    """A file of somebody else: y = 2 x."""
    given = {name: from_numpy(np.zeros(shape, np.float32)) for name, shape in shapes.items()}
    for name, tensor in given.items():
        tensor.name = name
    made = program(lambda **x: [ops.add(v, v) for v in x.values()], pass_names=onnx.EXPORT_PASSES)
    onnx.export(made.program_for(**given).program, path, output_names=[f"{name}_twice" for name in shapes])
    return path


def test_a_strangers_file_is_served_as_bare_tensors_and_says_so(tmp_path):
    path = bare(tmp_path / "some.onnx", {"x": (2, 3)})
    model = open_model(path)
    assert isinstance(model.processor, BareTensors)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    with toy.running(model, Settings(name="some")) as server:
        tensor = {"name": "x", "datatype": "FP32", "shape": [4, 3], "data": x.ravel().tolist()}
        status, _, data = ask(server, "/v2/models/some/infer", {"inputs": [tensor]})
        (output,) = json.loads(data)["outputs"]
        assert status == 200 and output["name"] == "x_twice" and output["shape"] == [4, 3]
        assert output["data"] == (2 * x).ravel().tolist()
        described = json.loads(ask(server, "/v2/models/some")[2])
        assert described["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, -1]}]
        status, error = problem(server, "/v1/scores", {"input": "a.jpg"})
        assert (
            status == 400
            and "some.onnx: holds no preprocessing" in error
            and "by the Open Inference Protocol (v2)" in error
        )
        wrong = {**tensor, "datatype": "INT32", "data": [0] * 12}
        assert problem(server, "/v2/models/some/infer", {"inputs": [wrong]})[0] == 400
        assert ask(server, "/health")[0] == 200


def test_a_strangers_file_infers_nothing(tmp_path, capsys):
    path = bare(tmp_path / "some.onnx", {"x": (1, 3)})
    assert infer.main([str(path), "photo.jpg"]) == 2
    assert (
        "some.onnx: holds no preprocessing, as an ONNX file that `paddock export` wrote does" in capsys.readouterr().err
    )
    with pytest.raises(DataError, match="holds no preprocessing"):
        load(path)("photo.jpg")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({**toy.EXTRA, "processor": "{"}, "its property 'processor' is no JSON"),
        ({**toy.EXTRA, "processor": "[" * 100_000}, "its property 'processor' is no JSON"),
        ({**toy.EXTRA, "processor": []}, "'processor' is a list"),
        ({**toy.EXTRA, "outputs": ["a", "b"]}, "names 2 outputs, and the Program has 1"),
        ({**toy.EXTRA, "suite": "nowhere"}, "nowhere"),
    ],
)
def test_damaged_properties_are_one_error_that_names_the_file(tmp_path, extra, message):
    file = toy.export_onnx(tmp_path / "bad.onnx", extra)
    with pytest.raises((CheckpointError, ConfigError), match=r"bad\.onnx|nowhere") as error:
        open_onnx_file(file)
    assert message in str(error.value)


def test_a_cut_file_is_refused(file):
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(CheckpointError, match=r"model\.onnx"):
        open_model(file)


def test_a_tensorflow_lite_file_is_served_with_its_own_tensors(tmp_path, capsys):
    path = tmp_path / "some.tflite"
    path.write_bytes(small_eight())
    model = open_model(path)
    x = np.random.default_rng(0).integers(-128, 128, (1, 6, 6, 3)).astype(np.int8)
    (expected,) = tflite.Session(tflite.open_model(path)).run([x])
    np.testing.assert_array_equal(model.predict({"image": x})["mean"], expected)
    with toy.running(model, Settings(name="some")) as server:
        tensor = {"name": "image", "datatype": "INT8", "shape": list(x.shape), "data": x.ravel().tolist()}
        _, _, data = ask(server, "/v2/models/some/infer", {"inputs": [tensor]})
    (output,) = json.loads(data)["outputs"]
    assert output["datatype"] == "INT8" and output["data"] == expected.ravel().tolist()
    assert infer.main([str(path), "photo.jpg"]) == 2
    assert "some.tflite: holds no preprocessing" in capsys.readouterr().err
    path.write_bytes(small_eight()[:200])
    with pytest.raises(CheckpointError, match="cut off or damaged"):
        open_model(path)
