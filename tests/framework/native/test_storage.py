"""The allocator's cache: what is freed waits for reuse, within a bound."""

import subprocess
import sys

import pytest

import framework
from framework import _core

MB = 1 << 20


def in_a_process_of_its_own(code: str) -> str:
    """What a program prints that starts with an empty cache and no peak."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_many_sizes_one_after_the_other_do_not_pile_up():
    code = """
from framework import _core
for n in range(4000):
    array = _core.empty((512 + 1024 * (n % 997),), "float32")
del array
stats = _core.memory_stats()
print(stats["cached"] + stats["live"] <= 2 * stats["peak"] + (64 << 20))
"""
    assert in_a_process_of_its_own(code) == "True"


def test_a_loop_finds_again_what_it_gave():
    code = """
from framework import _core
def step():
    held = [_core.empty((k * 100_000,), "float32") for k in range(1, 30)]
    return {a.address for a in held}
print(step() == step() == step())
"""
    assert in_a_process_of_its_own(code) == "True"


def test_scratch_of_growing_size_holds_one_block_and_not_one_of_every_size():
    code = """
import framework
from framework import _core, ops
framework.set_num_threads(1)
x = framework.zeros((64, 1024))
weights = [framework.zeros((1024, 512 * n)) for n in range(1, 9)]  # 2 to 16 MB, each packed into scratch
for w in weights:
    ops.matmul(x, w)
print(_core.memory_stats()["cached"] <= 24 << 20)
"""
    assert in_a_process_of_its_own(code) == "True"


def test_a_large_new_block_takes_the_place_of_what_waits():
    code = """
from framework import _core
MB = 1 << 20
big = _core.empty((200 * MB,), "uint8")
del big
for n in range(33, 100, 9):  # sizes of which none waits
    _core.empty((n * MB,), "uint8")
stats = _core.memory_stats()
print(stats["live"] + stats["cached"] <= stats["peak"])
"""
    assert in_a_process_of_its_own(code) == "True"


@pytest.fixture
def limited():
    framework.set_cached_memory_limit(8 * MB)
    yield
    framework.set_cached_memory_limit(2**63)


def test_the_cache_has_a_limit_of_the_users_and_gives_back_what_waited_longest(limited):
    addresses = {}
    for n in range(1, 20):
        addresses[n] = _core.empty((n, MB // 4), "float32").address
        assert _core.memory_stats()["cached"] <= 8 * MB
    assert _core.empty((7, MB // 4), "float32") is not None


def test_a_child_of_fork_allocates_whatever_other_threads_were_doing():
    code = """
import os, signal, threading
import framework
from framework import _core, ops

framework.set_num_threads(1)
program = framework.program(lambda x: [ops.exp(x * float(k)) for k in range(40)])  # results are allocated in the run
inputs = [framework.tensor([0.0] * n) for n in (64, 81, 100)]
program(inputs[0])
stop = False
def work():
    while not stop:
        for x in inputs:
            program(x)
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]
hung = 0
for _ in range(200):
    child = os.fork()
    if not child:
        signal.alarm(20)  # ends a child that waits for ever
        held = [_core.empty((n,), "float32") for n in range(1, 5000, 97)]
        os._exit(0)
    hung += os.waitpid(child, 0)[1] != 0
stop = True
[t.join() for t in threads]
print(hung)
"""
    assert in_a_process_of_its_own(code) == "0"
