"""A run outlives its console; when all processes of a job are told to end, it saves, whichever ends first."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from suites.engine.cli import main
from suites.engine.run.checkpoint import Checkpoints
from suites.engine.run.screen import Screen, screens
from tests.waiting import until

ROOT = Path(__file__).parents[4]
SCRIPT = """
    import os, signal, sys, time
    sys.path[:0] = [{root!r}]
    import tests.suites.engine.toy
    from suites.engine.cli import main

    if __name__ == "__main__":
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        sys.exit(main(["train", "toy.yml", "--runs", ".", "--name", "run", *sys.argv[1:]]))
"""
CONFIG = """
suite: toy
data: {samples: 80, seconds: 0.005}
optimizer: {type: Momentum, momentum: 0.9}
schedule: {type: Constant, base_lr: 0.02, reference_batch: 4}
runtime: {steps: 60, seed: 3, workers: 2, log_every: 1, checkpoint: {every: 500}, evaluation: {every: 0, pictures: 0}}
"""


@pytest.fixture
def command(tmp_path):
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT).format(root=str(ROOT)))
    (tmp_path / "toy.yml").write_text(CONFIG)
    return [sys.executable, "script.py"]


def log_of(folder):
    path = folder / "run" / "log.txt"
    return path.read_text() if path.is_file() else ""


def started(command, folder, *words, **how):
    """A training that is at its steps, in a group of its own."""
    how = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **how}
    process = subprocess.Popen([*command, *words], cwd=folder, start_new_session=True, text=True, **how)
    until(lambda: "step 3/" in log_of(folder) or process.poll() is not None)
    return process


LONG = ("-o", "runtime.steps=100000", "-o", "data.seconds=0.05")


def test_sigterm_to_all_processes_of_a_run_that_waits_for_data_saves_it(tmp_path, command):
    process = started(command, tmp_path, *LONG)
    os.killpg(process.pid, signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    (step,) = Checkpoints(tmp_path / "run/weights").steps()
    assert f"saved at step {step}" in log_of(tmp_path) and "worker" not in said


@pytest.mark.parametrize("signal_name", ["SIGTERM", "SIGINT"])
def test_a_worker_that_ends_first_does_not_keep_the_run_from_being_saved(tmp_path, command, signal_name):
    process = started(command, tmp_path, *LONG)
    workers = [pid for pid in group_of(process.pid) if pid != process.pid]
    for pid in workers:  # all that the run started, the server of workers among them
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)
    process.send_signal(signal.Signals[signal_name])
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert "saved at step" in log_of(tmp_path) and Checkpoints(tmp_path / "run/weights").steps()


def test_a_run_whose_workers_were_killed_is_saved_and_says_why_it_ended(tmp_path, command):
    process = started(command, tmp_path, *LONG)
    for pid in group_of(process.pid):
        if pid != process.pid:
            os.kill(pid, signal.SIGKILL)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 2 and "worker process" in said
    (step,) = Checkpoints(tmp_path / "run/weights").steps()
    assert f"what was trained is saved, at step {step}" in log_of(tmp_path)


def group_of(leader):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == leader:
            found.append(int(path.parent.name))
    return found


def test_a_run_goes_on_when_the_reader_of_its_output_goes_away(tmp_path, command):
    process = started(command, tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.close()
    assert process.wait(60) == 0
    log = log_of(tmp_path)
    assert "the screen takes no more lines ([Errno 32] Broken pipe); the run goes on" in log and "done: 60 steps" in log


@pytest.mark.parametrize("where", ["<&- >&- 2>&-", "2>&-", ">/dev/full"])
def test_a_run_goes_on_without_a_console(tmp_path, command, where):
    line = f"{command[0]} {command[1]} -o runtime.steps=4 -o runtime.workers=1 -o data.samples=8 {where}"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    log = log_of(tmp_path)
    assert "done: 4 steps" in log
    assert ("No space left" in log) == ("full" in where)


def test_commands_end_quietly_when_their_reader_has_seen_enough():
    lines = [f"{sys.executable} -m suites.engine.cli {words} | head -1" for words in ("config list", "--help")]
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", f"{line}; echo ${{PIPESTATUS[0]}}"], cwd=ROOT, capture_output=True, text=True
        )
        assert done.stdout.splitlines()[-1] == "0" and done.stderr == ""


def test_output_that_a_full_disk_takes_is_an_error_of_other_commands():
    line = f"{sys.executable} -m suites.engine.cli config list >/dev/full"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True)
    assert (
        done.returncode == 1 and "the output could not be written ([Errno 28] No space left on device)" in done.stderr
    )


def test_streams_are_as_before_after_a_command(capsys):
    before = sys.stdout, sys.stderr
    assert main(["--help"]) == 0
    assert (sys.stdout, sys.stderr) == before and "usage: paddock" in capsys.readouterr().out


class Broken:
    def __init__(self):
        self.asked = 0

    def write(self, text):
        self.asked += 1
        raise BrokenPipeError(32, "Broken pipe")

    flush = None


def test_a_stream_that_failed_is_not_asked_again():
    stream = Broken()
    screen = Screen(stream)
    for _ in range(3):
        assert screen.write("x") == 1
        screen.flush()
    assert stream.asked == 1 and "Broken pipe" in str(screen.lost) and not screen.isatty()


def test_prints_hold_no_control_characters(capsys):
    with screens():
        print("a\x1b[2Jb\rc\u2028d\ud800e\tf")
    assert capsys.readouterr().out == "a\\x1b[2Jb\\rc\\u2028d\\ud800e\tf\n"
