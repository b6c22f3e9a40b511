"""Programs: one trace for many shapes, training steps, states, modes, printing, files and plans."""

import json

import numpy as np
import pytest

import framework
from framework import ops, optim
from framework.errors import CheckpointError, ShapeError, TraceError
from framework.graph.compiled import CompiledProgram
from framework.graph.files import from_json, load_program, save_program, to_json, weights_file
from framework.graph.passes import INFERENCE_PASSES
from framework.io import load_tensors
from framework.predictor import Predictor


def parameter(values) -> framework.Tensor:
    t = framework.tensor(np.asarray(values, dtype=np.float32), requires_grad=True)
    t.persistable = True
    return t


def images(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 3)).astype(np.float32)


def test_one_trace_serves_all_batch_sizes():
    w = parameter(np.eye(3))
    f = framework.program(lambda x: ops.relu(ops.matmul(x, w)) * 2.0)
    for n in (4, 7, 1):
        np.testing.assert_allclose(f(images(n)).numpy(), np.maximum(images(n), 0) * 2, rtol=1e-6)
    assert f.traces_made == 1


def test_reading_a_shape_ties_the_program_to_it_and_says_where():
    f = framework.program(lambda x: x / float(x.shape[0]))
    np.testing.assert_allclose(f(images(4)).numpy(), images(4) / 4)
    np.testing.assert_allclose(f(images(5)).numpy(), images(5) / 5)
    f(images(4, seed=1))
    assert f.traces_made == 2
    assert "test_program.py" in f.program_for(images(4)).program.shape_reads[0]


def test_a_whole_training_step_is_one_program_and_equals_eager():
    def make():
        w, velocity = parameter(np.full((3, 1), 0.5)), parameter(np.zeros((3, 1)))
        velocity.requires_grad = False

        def step(x, y):
            error = ops.matmul(x, w) - y
            loss = ops.mean(error * error)
            loss.backward()
            new_v = velocity * 0.9 + w.grad
            velocity.set(new_v)
            w.set(w - new_v * 0.1)
            w.grad = None
            return loss

        return w, velocity, step

    w1, v1, eager = make()
    w2, v2, step = make()
    traced = framework.program(step)
    for i in range(5):
        x = framework.tensor(images(8, seed=i))
        y = framework.tensor(images(8, seed=i)[:, :1])
        a = eager(x, y)
        w1.node = v1.node = None
        w1.requires_grad = True
        b = traced(x, y)
        assert a.numpy().tobytes() == b.numpy().tobytes()
        assert w1.numpy().tobytes() == w2.numpy().tobytes()
        assert v1.numpy().tobytes() == v2.numpy().tobytes()
    assert traced.traces_made == 1
    assert w2.grad is None and not w2.is_traced


def test_states_may_swap_their_values():
    a, b = parameter([1.0, 2.0]), parameter([3.0, 4.0])

    @framework.program
    def swap():
        old_a, old_b = ops.copy(a), ops.copy(b)
        a.set(old_b)
        b.set(old_a)

    swap()
    assert (a.tolist(), b.tolist()) == ([3.0, 4.0], [1.0, 2.0])
    swap()
    assert (a.tolist(), b.tolist()) == ([1.0, 2.0], [3.0, 4.0])


def test_a_state_read_after_its_update_gives_the_new_value_and_before_it_the_old():
    s = parameter([1.0])

    @framework.program
    def f():
        before = s * 10.0
        s.set(s + 1.0)
        return before, s * 10.0, before

    assert [t.item() for t in f()] == [10.0, 20.0, 10.0]
    assert [t.item() for t in f()] == [20.0, 30.0, 20.0]


def test_a_new_constant_argument_means_a_new_trace():
    f = framework.program(lambda x, k: x * k)
    assert f(images(1), 2.0).numpy().sum() == (images(1) * np.float32(2)).sum()
    assert f(images(1), 3.0).numpy().sum() == (images(1) * np.float32(3)).sum()
    assert f.traces_made == 2


def test_trees_of_arrays_go_in_and_come_out():
    f = framework.program(lambda d: {"sum": d["a"] + d["b"][0], "rest": [d["b"][1], "text"]})
    out = f({"a": images(2), "b": (images(2), images(2))})
    np.testing.assert_array_equal(out["sum"].numpy(), images(2) * 2)
    assert out["rest"][1] == "text"


def test_data_asked_for_while_tracing_is_refused():
    f = framework.program(lambda x: x * 2.0 if ops.sum(x).item() > 0 else x)
    with pytest.raises(TraceError, match="data was asked for while a Program is traced"):
        f(images(2))


def test_an_argument_that_cannot_be_traced_is_refused():
    with pytest.raises(TraceError, match="an argument of type set cannot be passed"):
        framework.program(lambda x: x)({1, 2})


def test_errors_name_the_users_line_while_tracing_and_while_planning():
    w = parameter(np.eye(3))
    f = framework.program(lambda x: ops.matmul(x, w))
    with pytest.raises(ShapeError, match=r"matmul: .*\(traced at .*test_program.py:\d+\)"):
        f(np.zeros((2, 4), np.float32))
    f(images(2))
    with pytest.raises(ShapeError, match=r"matmul: .*\(traced at .*test_program.py:\d+\)"):
        f(np.zeros((2, 4), np.float32))


def test_a_program_prints_as_one_line_per_operation():
    w = parameter(np.eye(3))
    w.name = "w"
    text = str(framework.program(lambda x: ops.matmul(x, w, transpose_b=True) + 1.0).program_for(images(2)).program)
    assert text.splitlines() == [
        "program(%in0: float32[2, 3]) {",
        "  state %s1: float32[3, 3] 'w'",
        "  constant %c3: float32[]",
        "  %2: float32[2, 3] = matmul(%in0, %s1, -, -, transpose_b=True)",
        "  %4: float32[2, 3] = add(%2, %c3)",
        "  return %4",
        "}",
    ]


@pytest.fixture
def exported(tmp_path):
    w = parameter(np.eye(3) * 2)
    w.name = "layer.weight"
    program = framework.program(lambda x: ops.relu(ops.matmul(x, w)) + 0.5).program_for(images(2)).program
    save_program(program, tmp_path / "model", extra={"classes": ["cat", "dog"]})
    return tmp_path / "model"


def test_json_round_trip_is_exact(exported):
    program, extra = load_program(exported)
    assert extra == {"classes": ["cat", "dog"]}
    tensors = {"layer.weight": next(iter(program.states.values()))} | _constants(program)
    again = from_json(json.loads(json.dumps(to_json(program))), tensors)
    assert to_json(again) == to_json(program)


def _constants(program):
    return {v.name or f"value.{v.id}": framework.Tensor(a) for v, a in program.constants.items()}


def test_the_predictor_runs_an_exported_model_for_any_batch(exported):
    predictor = Predictor(exported)
    for n in (1, 5):
        (y,) = predictor.run([images(n)])
        np.testing.assert_allclose(y, np.maximum(images(n) * 2, 0) + 0.5, rtol=1e-6)
    with pytest.raises(ShapeError, match=r"input0 is float64\[2, 3\]; the model takes float32\[2, 3\]"):
        predictor.run([images(2).astype(np.float64)])


def test_a_program_that_is_replaced_names_its_new_weights_and_the_old_ones_go(exported):
    program, _ = load_program(exported)
    names = []
    for number in range(3):
        save_program(program, exported, extra={"number": number})
        assert load_program(exported)[1] == {"number": number}
        assert sorted(exported.iterdir()) == [exported / "program.json", weights_file(exported)]
        names.append(weights_file(exported).name)
    assert names == ["weights.2.safetensors", "weights.safetensors", "weights.2.safetensors"]


def test_weights_that_cannot_be_written_leave_the_old_pair(exported, monkeypatch):
    program, extra = load_program(exported)

    def full(path, text):
        raise OSError("No space left on device")

    monkeypatch.setattr("framework.graph.files.write_text", full)
    with pytest.raises(OSError, match="No space left"):
        save_program(program, exported, extra={"new": True})
    assert load_program(exported)[1] == extra


def named(values, name):
    t = parameter(values)
    t.name = name
    return t


def test_two_models_whose_parameters_have_the_same_names_keep_their_own_in_a_file(tmp_path):
    a, b = named(np.eye(3) * 5, "layer.weight"), named(np.eye(3), "layer.weight")
    f = framework.program(lambda x: ops.matmul(x, a) - ops.matmul(x, b), pass_names=INFERENCE_PASSES)
    save_program(f.program_for(images(2)).program, tmp_path)
    (y,) = Predictor(tmp_path).run([images(2)])
    np.testing.assert_allclose(y, images(2) * 4, rtol=1e-6)
    assert sorted(load_tensors(tmp_path / "weights.safetensors")) == ["layer.weight", "layer.weight.2"]


def test_a_step_with_two_optimizers_is_saved_and_goes_on_as_before(tmp_path):
    g, d = named(np.ones((3, 1)), "weight"), named(np.full(3, 2.0), "weight")
    optimizers = [optim.Momentum([("weight", p)], lr=lr) for p, lr in ((g, 0.1), (d, 0.5))]

    def step(x):
        loss = ops.mean(ops.square(ops.matmul(x * d, g)))
        loss.backward()
        for o in optimizers:
            o.step()
            o.zero_grad()
        return loss

    program = framework.program(step)
    save_program(program.program_for(images(2)).program, tmp_path)
    again = CompiledProgram(load_program(tmp_path)[0])
    x = framework.tensor(images(2))
    for _ in range(3):
        assert again.run([x])[0].item() == program(x).item()
    assert {t.name for t in again.program.states.values()} == {
        t.name for t in program.program_for(x).program.states.values()
    }


@pytest.mark.parametrize("name", ["program.json", "weights.safetensors"])
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.95])
def test_a_cut_file_is_refused(exported, name, keep):
    path = exported / name
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(CheckpointError, match=name):
        Predictor(exported)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["operations"][0].update(op="os.system"), "'os.system' does not exist"),
        (lambda d: d["operations"][0].update(inputs=[77, 1, None]), "value 77 is used but not defined"),
        (lambda d: d["operations"][0].update(inputs=[0, None]), "matmul: its input number 1 is absent"),
        (lambda d: d["operations"][0].update(inputs=[0]), "matmul cannot take 1 inputs"),
        (lambda d: d["operations"][0]["attrs"].update(evil=1), "takes no attribute 'evil'"),
        (lambda d: d["inputs"][0].update(shape=[2, 4]), "matmul"),
        (lambda d: d["inputs"][0].update(shape=[2**40, 2**40]), "impossible shape"),
        (lambda d: d.update(results=[99]), "value 99 is used"),
        (lambda d: d.update(format=7), "format 7 is not 1"),
        (lambda d: d.pop("operations"), "'operations' is no list"),
        (lambda d: d["states"][0].update(tensor="nowhere"), "the weights lack 'nowhere'"),
        (lambda d: d.update(weights="../secret"), "its weights are said to be in '../secret'; known are weights.saf"),
    ],
)
def test_an_edited_program_is_refused_with_a_clear_message(exported, change, message):
    path = exported / "program.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(CheckpointError, match=message):
        Predictor(exported)


def test_memory_is_shared_and_reported():
    f = framework.program(lambda x: ops.exp(ops.exp(ops.exp(ops.exp(x))) * 0.1), pass_names=())
    x = framework.tensor(np.zeros((64, 64), np.float32))
    report = f.program_for(x).memory_report([x])
    assert report.arena_bytes <= 2 * 64 * 64 * 4 < report.naive_bytes
    assert "planned" in str(report)


def test_plans_are_kept_and_made_once_for_each_shape():
    f = framework.program(lambda x: x + 1.0)
    compiled: CompiledProgram = f.program_for(images(1))
    for n in (1, 2, 1, 2, 3):
        f(images(n))
    assert compiled.plans_made == 3
