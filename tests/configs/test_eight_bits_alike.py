"""In 8 bits a config's network depends on what it is given alone: not on order, neighbours, threads or who runs it."""

from pathlib import Path

import numpy as np
import pytest

from framework import from_numpy, num_threads, set_num_threads
from framework.graph.compiled import CompiledProgram
from framework.graph.files import save_program
from framework.nn import init
from framework.predictor import Predictor
from framework.quantization import quantize
from suites.engine.config.building import build_task, read_config
from suites.engine.config.tree.shipped import shipped_configs
from suites.engine.predict.deploying import deployed_program
from suites.engine.predict.quantizing import Quantization, calibration_batches
from tests.configs.drawn import draw
from tests.configs.test_every_config import UNTRAINED
from tests.native import NativePredictor

QUICK = ("classification/resnet18_digits", "nlp/bow_chnsenticorp", "detection/finetune_yolov3_tiny")
OTHERWISE = ("ctr/", "generation/")  # their exports read rows of tables, or noise


def run(program, arrays):
    return [t.numpy().copy() for t in CompiledProgram(program).run([from_numpy(a) for a in arrays])]


def content(program, folder):
    save_program(program, folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def expect_same(found, expected):
    assert [a.shape for a in found] == [a.shape for a in expected]
    assert [a.tobytes() for a in found] == [a.tobytes() for a in expected]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in shipped_configs()
        if name not in UNTRAINED and not name.startswith(OTHERWISE)
    ],
)
def test_nothing_but_the_numbers_themselves_changes_a_network_in_8_bits(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = build_task(read_config(Path(name), draw(name)))
    init.initialize(task.model, 0)
    for path, parameter in task.model.named_parameters():
        parameter.name = path
    batches = list(calibration_batches(task, Quantization("static", "mse", batches=2)))
    given = [np.ascontiguousarray(a) for a in batches[0]]
    whole = deployed_program(task, dict(zip(task.eval_inputs, given, strict=True)))

    def small(calibration, **more):
        return quantize(whole, mode="static", calibration=calibration, method="mse", smallest=0, **more)

    first = small(batches)
    file = content(first, tmp_path / "a")
    assert content(small(batches[::-1]), tmp_path / "b") == file, "another order of batches"
    assert content(small([*batches, *batches]), tmp_path / "c") == file, "each batch twice"
    expect_same(run(small(batches, keep=["*"]), given), run(whole, given))

    threads, answers = num_threads(), []
    try:
        for count in (1, 2):
            set_num_threads(count)
            answers.append(run(first, given))
    finally:
        set_num_threads(threads)
    expect_same(*answers)
    expect_same(Predictor(tmp_path / "a").run(given), answers[0])
    expect_same(NativePredictor(tmp_path / "a").run(given), answers[0])
    rows = {len(a) for a in (*given, *answers[0]) if a.ndim}
    if not whole.shape_reads and len(rows) == 1:
        for i in range(*rows):
            # What is in float32 rounds otherwise with other rows beside it, and a step of 8 bits may turn with it.
            for alone, among in zip(run(first, [a[i : i + 1] for a in given]), answers[0], strict=True):
                np.testing.assert_allclose(alone[0], among[i], rtol=1e-4, atol=1e-4 * np.abs(among).max(initial=0))
