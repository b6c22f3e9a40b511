"""Files of float32 and float16: what they compute, as Layers that train and as Programs."""

import numpy as np
import pytest

from framework import optim, tensor
from framework.errors import AttributeValueError, CheckpointError, NotSupportedError, ShapeError
from framework.graph.compiled import CompiledProgram
from framework.graph.files import save_program
from framework.predictor import Predictor
from framework.tflite import Session, load, open_model
from tests.framework.tflite.cases import CASES, inputs_of
from tests.framework.tflite.models import File, single, small_network


@pytest.mark.parametrize("name", CASES)
def test_an_operator_computes_what_numpy_does(name):
    file, function = CASES[name]
    model = open_model(file)
    given = inputs_of(model)
    (found,) = Session(model).run(given)
    wanted = np.asarray(function(*given))
    assert list(found.shape) == list(model.outputs[0].shape)
    # sums of 24 products of normal numbers
    np.testing.assert_allclose(found, wanted.reshape(found.shape), rtol=3e-6, atol=3e-6)
    (eager,) = model(*map(tensor, given))
    np.testing.assert_allclose(eager.numpy(), found, rtol=1e-6, atol=1e-6)


def test_parts_along_an_axis_are_results_of_their_own():
    f = File()
    x = f.given("x", "float32", [2, 3])
    parts = [f.tensor(f"part {i}", "float32", [2]) for i in range(3)]
    f.node("UNPACK", [x], parts, count=3, axis=1)
    halves = [f.tensor(f"half {i}", "float32", [1, 3]) for i in range(2)]
    f.node("SPLIT", [f.constant("axis", np.array(0, np.int32)), x], halves, count=2)
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = Session(open_model(f.bytes(*parts, *halves))).run([given])
    for got, wanted in zip(found, [*given.T, given[:1], given[1:]], strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_weights_of_half_precision_are_parameters_that_train():
    model = open_model(small_network())
    assert {name: tuple(t.shape) for name, t in model.named_parameters()} == {
        "weight": (4, 3, 3, 3), "bias": (4,), "last": (5, 16)
    }  # fmt: skip
    assert model.input_names == ["image"] and model.output_names == ["scores"] and model.description == "by hand"
    optimizer = optim.Momentum(model.named_parameters(), 0.01)
    x, losses = tensor(inputs_of(model)[0]), []
    for _ in range(20):
        (scores,) = model(x)
        loss = (scores * scores).mean()
        for p in model.parameters():
            p.grad = None
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.1 * losses[0]


def test_a_program_gives_what_the_model_does_also_when_saved(tmp_path):
    model = open_model(small_network())
    given = inputs_of(model)
    (wanted,) = (y.numpy() for y in model(*map(tensor, given)))
    program = load(small_network())
    np.testing.assert_allclose(CompiledProgram(program).run(given)[0].numpy(), wanted, rtol=1e-5, atol=1e-5)
    save_program(program, tmp_path)
    np.testing.assert_allclose(Predictor(tmp_path).run(given)[0], wanted, rtol=1e-5, atol=1e-5)


def test_a_stated_batch_of_one_takes_more_images():
    images = np.concatenate([inputs_of(open_model(small_network()), seed)[0] for seed in range(3)])
    session = Session(open_model(small_network()))
    one_by_one = [session.run([image[None]])[0][0] for image in images]
    np.testing.assert_allclose(session.run([images])[0], one_by_one, rtol=1e-5, atol=1e-5)


def test_all_operators_that_are_not_supported_are_listed_at_once():
    f = File()
    x = f.given("x", "float32", [4])
    a, b, c = (f.tensor(name, "float32", [4]) for name in ("a", "b", "c"))
    f.node("LSTM", [x], a)
    f.node("my_op", [a], b)
    f.node("LSTM", [b], c)
    with pytest.raises(NotSupportedError) as caught:
        open_model(f.bytes(c))
    assert "2 operators are not supported: LSTM (version 1) in 'a', 'c'; custom 'my_op'" in str(caught.value)


def test_a_type_that_the_core_lacks_is_named():
    with pytest.raises(NotSupportedError, match="types that are not supported: int16 in 'x0', 'y'"):
        open_model(single("RELU", [("int16", [4])], [4], "int16"))


def test_a_result_of_another_type_than_stated_is_refused():
    with pytest.raises(CheckpointError, match="states that 'y' is int32, and it is float32"):
        load(single("ABS", [("float32", [4])], [4], "int32"))


def test_inputs_that_do_not_fit_are_refused():
    model = open_model(small_network())
    with pytest.raises(AttributeValueError, match=r"got 2 inputs; the model takes \['image'\]"):
        model(tensor(np.zeros(1)), tensor(np.zeros(1)))
    with pytest.raises(AttributeValueError, match="input 'image' is int32; the model takes float32"):
        model(tensor(np.zeros((1, 8, 8, 3), np.int32)))
    with pytest.raises(AttributeValueError, match=r"the model has no input \['picture'\]; it takes \['image'\]"):
        load(small_network(), {"picture": (1, 8, 8, 3)})
    with pytest.raises(ShapeError, match=r"input 'image' takes \[1, 8, 8, 3\], not \[8, 8, 3\]"):
        load(small_network(), {"image": (8, 8, 3)})


def test_a_shape_that_depends_on_data_is_refused():
    file = single("TILE", [("float32", [4]), ("int32", [1])], [8])
    with pytest.raises(NotSupportedError, match="TILE 'y': its repeats is computed from the data of an input"):
        load(file)


@pytest.mark.parametrize("kind", ["a path", "bytes"])
def test_a_file_that_is_none_says_so(kind, tmp_path):
    path = tmp_path / "x.tflite"
    path.write_bytes(b"not one at all")
    with pytest.raises(CheckpointError, match="is no TensorFlow Lite file; such a file has 'TFL3' at byte 4"):
        open_model(path if kind == "a path" else path.read_bytes())
    with pytest.raises(CheckpointError, match="cannot be read"):
        open_model(tmp_path / "nowhere.tflite")
