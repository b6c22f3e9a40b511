"""memory: more than a bound is a MemoryError where the system refuses it, else the end of the process."""

import subprocess
import sys

import pytest

MB = 1 << 20
HEAD = """
import sys
import numpy as np
from framework.system import memory
memory.REFUSES = memory.REFUSES and sys.argv[1] == "refused"
"""
WITHIN = """
with memory.bounded(256 << 20):
    x = np.ones(32 << 20, np.uint8)
y = np.ones(512 << 20, np.uint8)
print("all well", int(x[-1]) + int(y[-1]))
"""
BEYOND = """
with memory.bounded(64 << 20):
    try:
        x = [np.ones(1 << 20, np.uint8) for _ in range(1 << 12)]
        print("taken")
    except MemoryError:
        print("refused")
"""
PROCESS = """
memory.bound_process(700 << 20)
try:
    x = [np.ones(1 << 20, np.uint8) for _ in range(1 << 12)]
    print("taken")
except MemoryError:
    print("refused")
"""


@pytest.fixture(params=["refused", "watched"])
def run(request):
    if request.param == "refused" and sys.platform != "linux":
        pytest.skip("this system refuses no memory")
    pytest.importorskip("psutil", reason="psutil is not installed")

    def ended(text):
        words = [sys.executable, "-c", HEAD + text, request.param]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout.strip(), request.param == "refused", done.stderr

    return ended


def test_what_is_within_a_bound_is_there_and_the_bound_ends(run):
    status, said, _, err = run(WITHIN)
    assert (status, said) == (0, "all well 2"), err


@pytest.mark.parametrize("text", [BEYOND, PROCESS], ids=["inside", "for good"])
def test_what_is_beyond_a_bound_is_not_taken(run, text):
    status, said, refuses, err = run(text)
    assert (status, said) == ((0, "refused") if refuses else (70, "")), err
