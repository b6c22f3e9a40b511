"""Exported models that are damaged or hostile: one clear error, no crash, and no memory beyond what the model needs."""

import copy
import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

import framework
from framework import _core, ops
from framework.errors import CheckpointError, PaddockError
from framework.graph.compiled import CompiledProgram
from framework.graph.files import load_program, save_program
from framework.graph.passes import TRAINING_PASSES

HOSTILE = [None, True, -1, 0, 7, 2**31, 2**40, 2**63 - 1, 2**64, -(2**63), 1e308, float("nan"), "", "x", "float64"]
HOSTILE += [[], {}, [0], [-1], [2**40], [2**32, 2**32], [1] * 9, [[[]]], {"shape": [1]}, "sub(t0, t0)", "bool"]
MOST_BYTES = 64 << 20  # that a file of a few kilobytes may make the core take


def parameter(*shape):
    t = framework.tensor(np.linspace(-1, 1, math.prod(shape)).reshape(shape).astype(np.float32))
    t.persistable = t.requires_grad = True
    return t


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with a small training step: convolution, norm, chains, a split, a state that is updated."""
    weight, scale, matrix = parameter(8, 3, 3, 3), parameter(8), parameter(8, 4)
    count = parameter(4)

    def step(x, labels):
        y, _, _ = ops.batch_norm(ops.conv2d(x, weight, padding=1), scale, scale)
        a, b = ops.split(ops.relu(y), axis=3, sizes=(4, 4))
        rows = ops.flatten(ops.concat([ops.sigmoid(a) * a, b], axis=3), start=0, end=2)
        logits = ops.matmul(rows, matrix)
        loss = ops.mean(ops.cross_entropy(logits, labels))
        (g,) = framework.gradients([loss], [matrix])
        matrix.set(matrix - 0.1 * g)
        count.set(count + ops.mean(logits, axes=(0,)))
        return loss, ops.pad(a, pads=(0, 0, 1, 1, 0, 0, 0, 0))

    inputs = [framework.tensor(np.ones((1, 5, 5, 3), np.float32)), framework.tensor(np.zeros(25, np.int64))]
    program = framework.program(step, pass_names=TRAINING_PASSES).program_for(*inputs).program
    folder = tmp_path_factory.mktemp("model")
    save_program(program, folder, extra={"classes": ["a", "b"]})
    assert {"chain", "split", "conv2d"} <= {op.name for op in program.block} and program.updates
    return folder


@pytest.fixture
def damaged(model, tmp_path):
    """Writes the model with other text or weights and loads it."""

    def load(text=None, weights=None):
        (tmp_path / "program.json").write_text(text if text is not None else (model / "program.json").read_text())
        (tmp_path / "weights.safetensors").write_bytes(
            weights if weights is not None else (model / "weights.safetensors").read_bytes()
        )
        return load_program(tmp_path)[0]

    return load


def text_of(model):
    return (model / "program.json").read_text()


def changed(model, change):
    data = json.loads(text_of(model))
    change(data)
    return json.dumps(data)


def first(data, name):
    return next(op for op in data["operations"] if op["op"] == name)


def set_to(path, value):
    """A change that puts `value` at a path of keys."""

    def change(data):
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


CASES = {
    "no object": ("[1, 2]", "holds a list where a program is expected"),
    "no text": ("\x00\xff", "not valid JSON"),
    "nested deeply": ("[" * 100_000, "nested too deeply"),
    "another version": (set_to(["format"], 99), "format 99 is not 1"),
    "an unknown operator": (set_to(["operations", 0, "op"], "conv9d"), "operator 'conv9d'"),
    "a cycle": (
        lambda d: first(d, "conv2d")["inputs"].__setitem__(0, d["operations"][-1]["outputs"][0]), "not defined before"
    ),
    "a value defined twice": (set_to(["operations", 1, "outputs", 0], 0), "is defined twice"),
    "an input too many": (lambda d: first(d, "conv2d")["inputs"].extend([0] * 9), "cannot take"),
    "a missing input": (lambda d: first(d, "conv2d").update(inputs=[None, None]), "its input number 0 is absent"),
    "an attribute that is unknown": (lambda d: first(d, "conv2d")["attrs"].update(size=1), "takes no attribute 'size'"),
    "an attribute of another type": (lambda d: first(d, "conv2d")["attrs"].update(groups="x"), "groups"),
    "a number beyond 64 bits": (lambda d: first(d, "conv2d")["attrs"].update(groups=2**70), "groups cannot hold"),
    "half a character": (lambda d: first(d, "conv2d")["attrs"].update(activation="\ud800"), "activation cannot hold"),
    "a huge stride": (lambda d: first(d, "conv2d")["attrs"].update(stride=[2**62]), "stride"),
    "a huge padding": (lambda d: first(d, "conv2d")["attrs"].update(padding=[2**62]), "padding"),
    "gigabytes out of nothing": (lambda d: first(d, "pad")["attrs"].update(pads=[0, 2**33] + [0] * 6), "proportion"),
    "more than memory": (lambda d: first(d, "pad")["attrs"].update(pads=[0, 2**62] + [0] * 6), "pad"),
    "an impossible input": (set_to(["inputs", 0, "shape"], [2**40, 2**40]), "impossible shape"),
    "a negative extent": (set_to(["inputs", 0, "shape"], [1, -5, 5, 3]), "impossible shape"),
    "an unknown type": (set_to(["inputs", 0, "dtype"], "float128"), "unknown type 'float128'"),
    "a tensor that is not there": (set_to(["states", 0, "tensor"], "other"), "the weights lack 'other'"),
    "a tensor of another shape": (set_to(["states", 0, "shape"], [1]), "in the weights but"),
    "a tensor used twice": (
        lambda d: d["constants"].append(d["states"][0] | {"id": 10_000}), "is a state and also used for another value"
    ),
    "an update of no state": (set_to(["updates", 0, 0], 0), "which is not a state"),
    "an update of another type": (lambda d: d["updates"][0].__setitem__(1, 1), "update of state"),
    "a chain that reads what is not there": (lambda d: first(d, "chain")["attrs"].update(tape="add(x0, x99)"), "x99"),
    "a chain that reads itself": (lambda d: first(d, "chain")["attrs"].update(tape="add(t0, x0)"), "t0"),
    "a chain of an operator that is not element-wise": (
        lambda d: first(d, "chain")["attrs"].update(tape="matmul(x0, x0)"), "matmul"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_program_is_refused_with_its_reason(model, damaged, name):
    change, reason = CASES[name]
    text = change if isinstance(change, str) else changed(model, change)
    with pytest.raises(CheckpointError, match=reason) as caught:
        damaged(text)
    assert "program.json" in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_files_that_are_cut_off_are_refused(model, damaged, share):
    text, weights = text_of(model), (model / "weights.safetensors").read_bytes()
    with pytest.raises(CheckpointError, match=r"program\.json: not valid JSON"):
        damaged(text[: int(len(text) * share)])
    with pytest.raises(CheckpointError, match=r"weights\.safetensors: damaged or not a safetensors file"):
        damaged(weights=weights[: int(len(weights) * share)])


def places(tree, path=()):
    """Paths to everything in a tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def mutated(data, rng):
    """The tree with one to three changes: another value, one from elsewhere, or one gone."""
    for _ in range(rng.randint(1, 3)):
        paths = list(places(data))
        path, other = rng.choice(paths), rng.choice(paths)
        parent, source = data, data
        for key in path[:-1]:
            parent = parent[key]
        for key in other:
            source = source[key]
        kind = rng.random()
        if kind < 0.5:
            parent[path[-1]] = copy.deepcopy(rng.choice(HOSTILE))
        elif kind < 0.85:
            parent[path[-1]] = copy.deepcopy(source)
        else:
            del parent[path[-1]]
    return data


def run_if_small(program):
    """Runs a program that loaded, if its plan is small; its errors are the framework's own."""
    if sum(math.prod(v.shape) for v in program.inputs) > 1 << 20:
        return False
    inputs = [framework.tensor(np.zeros(v.shape), v.dtype) for v in program.inputs]
    compiled = CompiledProgram(program)
    try:
        compiled.plan(inputs)
        if compiled.memory_report().naive_bytes > MOST_BYTES:
            return False
        compiled.run(inputs)
    except PaddockError:
        return False
    return True


def test_mutated_programs_are_refused_or_run_within_their_memory(model, damaged):
    data, loaded, ran = json.loads(text_of(model)), 0, 0
    _core.release_cached_memory()
    _core.reset_peak_memory()
    for seed in range(400):
        text = json.dumps(mutated(copy.deepcopy(data), random.Random(seed)))
        try:
            program = damaged(text)
        except CheckpointError as error:
            assert "program.json" in str(error)
            continue
        loaded += 1
        ran += run_if_small(program)
    assert loaded > 10 and ran > 5  # the rest is refused; some changes, such as of a name, do no harm
    assert _core.memory_stats()["peak"] < 4 * MOST_BYTES


def test_mutated_weights_are_refused_or_read(model, damaged):
    weights, read = (model / "weights.safetensors").read_bytes(), 0
    for seed in range(300):
        rng, changed_bytes = random.Random(seed), bytearray(weights)
        for _ in range(rng.randint(1, 4)):  # half of the changes hit the header
            place = rng.randrange(len(weights) if rng.random() < 0.5 else min(len(weights), 400))
            changed_bytes[place] = rng.randrange(256)
        try:
            read += run_if_small(damaged(weights=bytes(changed_bytes)))
        except CheckpointError as error:
            assert "weights.safetensors" in str(error) or "program.json" in str(error)
    assert read > 20


def test_a_file_names_lines_of_source_without_folders_of_the_machine_that_wrote_it(model, damaged):
    text = (model / "program.json").read_text()
    assert str(Path.cwd()) not in text and '"where": "tests/framework/graph/test_hostile_files.py:' in text
    older = text.replace('"where": "tests/framework/graph/', '"where": "/home/someone/nets/')
    for line in (older, text.replace('"where": "tests/framework/graph/', '"where": "C:\\\\nets\\\\')):
        lines = {op.where for op in damaged(line).block if op.where}
        assert lines and all(line.startswith("test_hostile_files.py:") for line in lines)
