"""parallel_for: every item once, same bits for any number of threads, errors and forks survive."""

import subprocess
import sys

import numpy as np
import pytest

import framework
from framework import _core, ops
from framework.errors import AttributeValueError


@pytest.fixture(autouse=True)
def restore_threads():
    before = framework.num_threads()
    yield
    framework.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_all_items_are_processed_once(threads):
    framework.set_num_threads(threads)
    x = framework.tensor(np.arange(1_000_003, dtype=np.float32))
    for _ in range(20):
        np.testing.assert_array_equal(ops.copy(x).numpy(), x.numpy())


@pytest.mark.parametrize("n", [0, -1, 5000])
def test_a_bad_number_of_threads_is_refused(n):
    with pytest.raises(AttributeValueError, match=rf"set_num_threads: got {n}; takes 1 to 1024"):
        framework.set_num_threads(n)


FORKING = """
import os, signal
import numpy as np
import framework
from framework import ops

framework.set_num_threads(2)
x = framework.tensor(np.ones(1_000_000, dtype=np.float32))
ops.copy(x)
child = os.fork()
if not child:
    signal.alarm(20)  # ends a child that waits for ever
    os._exit(0 if float(ops.copy(x).numpy().sum()) == 1_000_000 else 1)
print(os.waitpid(child, 0)[1])
"""


def test_a_forked_child_can_compute():
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True)
    assert done.stdout == "0\n", done.stderr


def test_philox_equals_the_known_answers():
    # Random123 1.14, tests/kat_vectors, philox4x32 10 rounds.
    assert _core.philox4x32([0, 0], [0, 0, 0, 0]) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = 0xFFFFFFFF
    assert _core.philox4x32([ones] * 2, [ones] * 4) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert _core.philox4x32([0xA4093822, 0x299F31D0], [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]) == [
        0xD16CFE09,
        0x94FDCCEB,
        0x5001E420,
        0x24126EA1,
    ]


def test_an_unknown_instruction_set_is_refused_with_the_list_of_known_ones():
    known = ", ".join(_core.supported_isas())
    with pytest.raises(AttributeValueError, match=f"use_isa: 'sse9' is not available here; this machine has {known}"):
        _core.use_isa("sse9")
