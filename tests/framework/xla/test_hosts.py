"""Two processes stand for two hosts: one batch over all their devices, and words between them."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from framework import hosts
from framework.data.world import ALONE, World
from framework.errors import AttributeValueError
from tests.framework.xla.test_several_devices import run

pytest.importorskip("jax", reason="the extra [xla] is not installed")

ROOT = Path(__file__).parents[3]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def together(job, size=2, devices=1):
    """What `joined.py` prints on each host."""
    port = free_port()
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.framework.xla.joined", job, *map(str, (rank, size, port, devices))],
            cwd=ROOT,
            env={**os.environ, "JAX_NUM_CPU_DEVICES": str(devices)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    said = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started] == [0] * size, said
    return [json.loads(out.splitlines()[-1]) for out, _ in said]


@pytest.mark.parametrize("devices", [1, 2])
def test_training_in_float64_on_two_hosts_gives_the_states_of_one_device(devices):
    alone, found = run("training", "1")["training"], together("training", devices=devices)
    assert found[0] == found[1]  # the same bits on each host
    np.testing.assert_allclose(found[0]["losses"], alone["losses"], rtol=1e-12)
    for name, values in alone["states"].items():
        np.testing.assert_allclose(found[0]["states"][name], values, rtol=1e-9, atol=1e-12, err_msg=name)
    for name, (shape, part, total) in found[0]["slots"].items():  # in parts over the two devices of a host
        assert total == pytest.approx(alone["slots"][name][2], rel=1e-9), name
        assert (shape != part) == (devices > 1 and any(extent % 2 == 0 for extent in shape)), name


def test_each_host_reads_results_and_states_whole_and_bad_data_is_refused_on_all():
    for found in together("program", devices=2):
        assert found["right"] and found["parts"] == 4
        assert found["state"] == [[4.0, 4.0]] * 3 == found["before"]
        assert "label 2 is outside of [0, 2)" in found["error"]


@pytest.mark.parametrize("devices", [1, 2])
def test_operators_that_run_on_the_host_give_each_host_what_our_kernels_give(devices):
    first, second = together("masks", devices=devices)
    assert first == second
    (state, *native), (found, *results) = first["cpu"], first["xla-cpu"]
    assert results == native  # masks of 0 and 1
    np.testing.assert_allclose(found, state, rtol=3 * 2**-23)  # three sums


def test_hosts_tell_each_other_bytes_facts_and_errors():
    first, second = together("agreement")
    assert [first["world"], second["world"]] == [[0, 2], [1, 2]]
    assert first["refused"] == "AttributeValueError: the folder is taken"
    assert second["refused"] == "HostError: hosts: host 0 cannot begin: the folder is taken"
    assert [first["made"], second["made"]] == ["made", None]
    for found in (first, second):
        assert found["gather"] and found["send"] == {"step": 7}
        assert "config of host 1 differs from that of host 0 (1 against 0)" in found["differ"]


def test_alone_a_process_is_host_0_of_1_and_agrees_with_itself():
    assert hosts.world() is ALONE
    assert hosts.gather(b"a") == [b"a"] and hosts.send([1]) == [1]
    hosts.expect_same({"code": "a"})
    assert hosts.first_alone(lambda: 3) == 3


def test_a_place_without_an_address_and_hosts_that_do_not_come_are_one_error_each():
    with pytest.raises(AttributeValueError, match="given together"):
        hosts.join(World(0, 2))
    code = (
        "from framework import hosts; from framework.data.world import World\n"
        f"try: hosts.join(World(1, 2), '127.0.0.1:{free_port()}', wait=2)\n"
        "except hosts.HostError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert "hosts: nobody answers at 127.0.0.1:" in done.stdout, done.stderr
    code = "from framework import hosts\ntry: hosts.join(None)\nexcept hosts.HostError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert "hosts: JAX finds no Slurm, Open MPI, Kubernetes or TPU pod" in done.stdout, done.stderr


def test_digests_tell_parts_apart():
    assert hosts.digest("ab", "c") != hosts.digest("a", "bc") and hosts.digest("a") == hosts.digest(b"a")
