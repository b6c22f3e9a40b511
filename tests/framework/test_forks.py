"""A child of fork() waits for nobody: what another thread was running, tracing or looking up does not hold it up."""

import subprocess
import sys

START = """
import os, signal, sys, threading
import numpy as np
import framework
from framework import ops
from framework.errors import StateError

framework.set_num_threads(1)
stop = threading.Event()

def beside(*work):
    def again(f):
        while not stop.is_set():
            f()
    threads = [threading.Thread(target=again, args=(f,)) for f in work]
    [t.start() for t in threads]
    return threads

def in_children(check, times):
    # How many of the children failed or hung, and what the others found.
    failed, found = 0, set()
    for _ in range(times):
        child = os.fork()
        if not child:
            signal.alarm(20)  # ends a child that waits for ever
            try:
                os._exit(check())
            except BaseException as e:
                print(repr(e), file=sys.stderr)
                os._exit(99)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        failed += code < 0 or code == 99
        found.add(code)
    return failed, found
"""


def found_by(code: str) -> str:
    """What the program prints, in a process of its own: other tests' threads do not fork with it."""
    run = subprocess.run([sys.executable, "-c", START + code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_a_child_runs_the_programs_that_other_threads_were_running():
    code = """
program = framework.program(lambda x: ops.exp(x) + 1.0)
x = framework.tensor(np.zeros(100_000, np.float32))
program(x)
threads = beside(*[lambda: program(x)] * 3)
failed, found = in_children(lambda: 0 if program(x).numpy()[-1] == 2.0 else 99, 100)
stop.set(); [t.join() for t in threads]
print(failed, found)
"""
    assert found_by(code) == "0 {0}"


def test_a_state_that_another_thread_was_updating_is_an_error_to_read_in_the_child_until_it_is_set_again():
    code = """
w = framework.tensor(np.zeros(400_000, np.float32))
w.persistable = True

def body(x):
    w.set(ops.sqrt(ops.exp(w * 0.0)) * 3.0 + x)
    return x

step = framework.program(body)
x = framework.tensor(np.ones(400_000, np.float32))
step(x)
threads = beside(lambda: step(x))

def check():
    torn = 0
    try:
        w.numpy()
    except StateError as e:
        assert "was updating it in another thread when this process was forked" in str(e), e
        w.set(framework.tensor(np.zeros(400_000, np.float32)))
        torn = 1
    step(x)
    return torn if set(w.numpy().tolist()) == {4.0} else 99

failed, found = in_children(check, 60)
stop.set(); [t.join() for t in threads]
print(failed, found, set(w.numpy().tolist()))
"""
    assert found_by(code) == "0 {0, 1} {4.0}"


def test_a_child_calls_a_function_that_another_thread_was_tracing():
    code = """
begun, ended = threading.Event(), threading.Event()

def body(x):
    if threading.current_thread() is not threading.main_thread():
        begun.set()
        assert ended.wait(30)
    return x * 2.0

double = framework.program(body)
x = framework.tensor(np.ones(3, np.float32))
thread = threading.Thread(target=lambda: double(x))
thread.start()
assert begun.wait(30)
failed, found = in_children(lambda: 0 if double(x).numpy().tolist() == [2.0] * 3 else 99, 3)
ended.set(); thread.join()
print(failed, found)
"""
    assert found_by(code) == "0 {0}"


def test_a_function_may_fork_while_it_is_traced():
    code = """
def body(x):
    child = os.fork()
    if not child:
        signal.alarm(20)
        os._exit(0 if square(framework.tensor([3.0])).numpy().tolist() == [9.0] else 1)
    return x * float(os.waitpid(child, 0)[1] + 2)

square = framework.program(lambda x: x * x)
print(framework.program(body)(framework.tensor([1.0])).numpy().tolist())
"""
    assert found_by(code) == "[2.0]"


def test_a_child_finds_a_table_whole_that_other_threads_were_changing():
    code = """
from framework.table import SGD, DenseAdam, Table, Zeros

tables = [Table(4, rule=SGD(lr=1.0), init=Zeros()), Table(4, rule=DenseAdam(lr=1.0), init=Zeros())]
keys = np.arange(20_000)
ones = -np.ones((len(keys), 4), np.float32)

def train(table):
    table.lookup(keys)
    table.update(keys, ones)

def forget():
    tables[0].forget(keys[::7])

[train(t) for t in tables]
threads = beside(*[lambda t=t: train(t) for t in tables], forget)

def check():
    for t in tables:
        t.lookup(keys), t.update(keys, ones), t.stats()
        rows = t.lookup(keys).numpy()
        if not (rows > 0).all() or not (rows == rows[:, :1]).all():
            return 99  # a row that is half-changed
    return 0

failed, found = in_children(check, 40)
stop.set(); [t.join() for t in threads]
print(failed, found)
"""
    assert found_by(code) == "0 {0}"


def test_a_child_looks_rows_up_in_a_snapshot_that_other_threads_were_reading(tmp_path):
    code = f"""
from framework.table import SGD, Table, TableSnapshot, Zeros
table = Table(4, rule=SGD(lr=1.0), init=Zeros())
keys = np.arange(1000)
table.update(keys, -np.ones((1000, 4), np.float32))
table.snapshot({str(tmp_path / "a.base")!r})
rows = TableSnapshot.open({str(tmp_path / "a.base")!r})
threads = beside(*[lambda: rows.lookup(keys[:1])] * 3)
failed, found = in_children(lambda: 0 if rows.lookup(keys).min() == 1.0 else 99, 200)
stop.set(); [t.join() for t in threads]
print(failed, found)
"""
    assert found_by(code) == "0 {0}"
