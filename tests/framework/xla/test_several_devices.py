"""Several devices share a batch and give the numbers of one; on the CPU, which XLA shows as eight devices."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import framework
from framework.errors import AttributeValueError, NotSupportedError

pytest.importorskip("jax", reason="the extra [xla] is not installed")

ROOT = Path(__file__).parents[3]


def run(*words):
    """What `several.py` prints, in a process that has eight devices."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.framework.xla.several", *words],
        cwd=ROOT,
        env={**os.environ, "JAX_NUM_CPU_DEVICES": "8"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def alone():
    return run("training", "1")["training"]


@pytest.mark.parametrize("devices", ["2", "8"])
def test_training_in_float64_on_several_devices_gives_the_states_of_one(alone, devices):
    """Batch norm, dropout, an embedding, momentum: the batch is one, whatever its parts."""
    several = run("training", devices)["training"]
    np.testing.assert_allclose(several["losses"], alone["losses"], rtol=1e-12)
    for name, values in alone["states"].items():
        np.testing.assert_allclose(several["states"][name], values, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", ["momentum", "adamw"])
def test_slots_in_parts_give_the_same_training_and_take_an_eighth_of_the_room(name):
    whole, parts = run("training", "8", "", name)["training"], run("training", "8", "spread", name)["training"]
    np.testing.assert_allclose(parts["losses"], whole["losses"], rtol=1e-12)
    for key, values in whole["states"].items():
        np.testing.assert_allclose(parts["states"][key], values, rtol=1e-9, atol=1e-12, err_msg=key)
    assert all(shape == part for shape, part, _ in whole["slots"].values())
    for key, (shape, part, total) in parts["slots"].items():
        assert total == pytest.approx(whole["slots"][key][2], rel=1e-9), key
        divides = any(extent % 8 == 0 for extent in shape)
        assert np.prod(part) * (8 if divides else 1) == np.prod(shape), key
    assert sum(shape != part for shape, part, _ in parts["slots"].values()) >= 5


def test_batches_are_split_states_are_whole_and_bad_data_is_refused_by_all():
    found = run("placement")
    assert found["batch"] == [[2, 3]] and found["state"] == [[3, 2]] and found["right"]
    assert found["odd"] == [7, 3]  # what does not divide is computed by each device
    assert "label 2 is outside of [0, 2)" in found["error"] and found["kept"]
    assert found["nan"]  # of one device is in the loss of all, where a run's guard finds it


def test_more_devices_than_there_are_and_several_cpus_are_refused():
    with pytest.raises(NotSupportedError, match=r"999 of xla-cpu are asked for, but there are .*JAX_NUM_CPU_DEVICES"):
        framework.set_device("xla-cpu", 999)
    with pytest.raises(AttributeValueError, match=r"2 of cpu; it must be .* 1 for cpu, which has threads"):
        framework.set_device("cpu", 2)
