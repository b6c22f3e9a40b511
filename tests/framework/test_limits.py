"""Limits: what they are, how they are changed, and that what asks them stops."""

import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import framework
from framework import limits, ops, program, while_loop
from framework.errors import AttributeValueError, CheckpointError, DataError, NotSupportedError
from framework.graph.files import save_program
from framework.predictor import Predictor


def test_limits_are_others_inside_of_a_block_and_in_its_thread_only():
    usual, seen = limits.current().pixels, []
    with limits.allow(pixels=7, nodes=9):
        with limits.allow(pixels=8):
            assert (limits.current().pixels, limits.current().nodes) == (8, 9)
        thread = threading.Thread(target=lambda: seen.append(limits.current().pixels))
        thread.start()
        thread.join()
    assert limits.current().pixels == usual and seen == [usual]


def test_a_wrong_limit_is_refused():
    with pytest.raises(AttributeValueError, match="there is no 'pixel'; there are pixels"), limits.allow(pixel=1):
        pass
    for value in (0, -1, 1.5, True):
        with pytest.raises(AttributeValueError, match="must be a whole number above 0"), limits.allow(pixels=value):
            pass


def test_an_error_names_the_limit_and_how_to_raise_it():
    message = r"x: many, 11; 10 are .*--limit pixels=N, runtime\.limits\.pixels .*limits\.allow\(pixels=N"
    with limits.allow(pixels=10), pytest.raises(DataError, match=message):
        limits.check("pixels", 11, "x: many", DataError)
    with limits.allow(free_bytes=100, growth=2):
        meter = limits.Meter(60, "f")
        meter.take(120)
        with pytest.raises(CheckpointError, match=r"f has 60 bytes and would take more than 120 .*allow\(free_bytes="):
            meter.take(1)


def counting(folder, steps):
    """A program in a folder that counts to `steps`, one loop in another."""

    def inner(n):
        return while_loop(lambda i: i < 10.0, lambda i: i + 1.0, n * 0.0) * 0.0 + n + 1.0

    def count(x):
        return while_loop(lambda n: n < float(steps), inner, x)

    x = framework.tensor(np.zeros(1, np.float32))
    save_program(program(count).program_for(x).program, folder)


def test_the_steps_of_all_loops_of_a_loaded_program_are_counted_together(tmp_path):
    counting(tmp_path, 50)
    with limits.allow(loop_steps=100):
        few = Predictor(tmp_path)
    with limits.allow(loop_steps=1000):
        enough = Predictor(tmp_path)
    for _ in range(3):  # each run has them all
        assert enough.run([np.zeros(1, np.float32)])[0] == [50]
        with pytest.raises(NotSupportedError, match=r"loops take more steps than are allowed.*allow\(loop_steps="):
            few.run([np.zeros(1, np.float32)])


def test_what_is_not_loaded_may_loop_as_it_likes():
    with limits.allow(loop_steps=1):
        x = framework.tensor(np.zeros(1, np.float32))
        assert program(lambda x: while_loop(lambda n: n < 20.0, lambda n: ops.relu(n) + 1.0, x))(x).numpy() == [20]


ENDLESS = """
import numpy as np, framework
from framework import program, while_loop
f = program(lambda x: while_loop(lambda n: n < 1.0, lambda n: n * 0.5, x))
x = framework.tensor(np.zeros(1, np.float32))
f.program_for(x)
print("begins", flush=True)
f(x)
"""


def test_ctrl_c_ends_a_loop_that_does_not_end():
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "begins\n"
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in told
