"""A run of every config, moved to another folder without its data and all other files, predicts and exports as before.

So no config key names a file that is needed at the beginning of a run alone, unless the run keeps what is in it.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from framework.nn import init
from suites.engine.config.building import build_task, read_config
from suites.engine.config.tree.shipped import shipped_configs
from suites.engine.contract.resources import resources_of, save_deployed
from suites.engine.predict.evaluation import predict_of
from suites.engine.predict.inference import export_run, open_run
from suites.engine.predict.items import batches_of
from suites.engine.run.folder import RunFolder
from tests.configs.drawn import draw
from tests.configs.test_alike import EVALUATED, SMALL

OPENED = (*SMALL, *EVALUATED, "nlp/", "ocr/")  # of the other suites each opens what its other configs do
ALIKE = ("nlp/ernie_cmrc", "nlp/ernie_d", "nlp/ernie_lcqmc", "nlp/ernie_m", "nlp/ernie_xnli", "nlp/minilm_",
         "nlp/classify")  # fmt: skip
EXPORTED = (*(name for name in EVALUATED if not name.startswith(("nlp/", "ctr/"))), "ctr/deepfm_adult", "nlp/bow",
            "nlp/gpt_tinyshakespeare", "nlp/lac")  # fmt: skip


def shallow(config):
    """Overrides to networks of one layer, whose tokenizers are the same."""
    model = config["model"]
    places = [("model", model), ("model.encoder", model.get("encoder") or {})]
    return [f"{place}.layers=1" for place, part in places if part.get("type") in ("Bert", "Gpt")]


def run_of(name):
    """Write a run of `name` with random weights; an item, and what the network gives for it."""
    drawn = draw(name)
    config = read_config(Path(name), [*drawn, *shallow(read_config(Path(name), drawn).as_dict())])
    task = build_task(config)
    init.initialize(task.model, 0)
    run = RunFolder.create(Path("run"), config)
    run.write_processor(task.processor())
    save_deployed(run.weights / "last.safetensors", task.model.state_dict(), resources_of(task))
    run.close()
    ((_, item),) = task.examples(1)
    return item, given(task, task.processor(), item)


def given(task, processor, item):
    """What the network gives for the first batch of an item."""
    batch = next(iter(batches_of(processor, [item])))
    return predict_of(task, eager=True)({name: batch[name] for name in task.eval_inputs})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name.startswith(OPENED) and not name.startswith(ALIKE) else pytest.mark.slow)
        for name in shipped_configs()
    ],
)
def test_a_run_needs_no_file_outside_of_its_folder(name, tmp_path, monkeypatch):
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    monkeypatch.delenv("PADDOCK_DATA", raising=False)
    monkeypatch.chdir(before)
    item, expected = run_of(name)
    monkeypatch.chdir(tmp_path)
    (before / "run").rename(after)
    shutil.rmtree(before)
    task = open_run(after)
    found = given(task, RunFolder(after).read_processor(task.processor_class), item)
    assert list(found) == list(expected)
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value)
    if name.startswith(EXPORTED):
        assert export_run(after, tmp_path / "exported").largest_difference < 1e-3
    shutil.rmtree(tmp_path)
