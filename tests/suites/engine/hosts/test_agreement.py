"""`paddock train --hosts`: two processes stand for two hosts, XLA on the CPU for their devices."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from framework.data.world import World
from framework.errors import AttributeValueError, CheckpointError, ConfigError
from framework.io import load_tensors
from suites.engine.cli import train as command
from suites.engine.config.settings import Runtime
from suites.engine.hosts.agreement import Agreement, expect_fit
from suites.engine.hosts.liveness import Alive, Listener, tell_on
from suites.engine.hosts.supervising import HostOptions, options_of
from suites.engine.run.checkpoint import Checkpoints
from suites.engine.train.training import train
from tests.framework.xla.test_hosts import free_port
from tests.suites.engine import hosts_plugin
from tests.waiting import until

pytestmark = pytest.mark.pages

pytest.importorskip("jax", reason="the extra [xla] is not installed")

ROOT = Path(__file__).parents[4]
CONFIG = """
suite: toy
imports: [tests.suites.engine.hosts_plugin]
data: {samples: 40}
optimizer: {type: Momentum, momentum: 0.9, weight_decay: 1.0e-4}
schedule: {type: Cosine, base_lr: 0.2, reference_batch: 8, warmup_steps: 3}
runtime: {epochs: 4, seed: 3, workers: 0, log_every: 5, checkpoint: {every: 3}, ema: {decay: 0.9}, clip_norm: 1.0,
          device: xla-cpu, evaluation: {every: 2, pictures: 2}}
"""


class Job:
    """A run on two hosts; each is `paddock train` in a process group of its own, as on a machine of its own."""

    def __init__(self, folder, how="", words=((), ())):
        port = free_port()
        self.logs = [folder / f"host{rank}.txt" for rank in range(2)]
        self.hosts = []
        for rank, log in enumerate(self.logs):
            line = [sys.executable, "-m", "suites.engine.cli", "train", folder / "toy.yml", "--runs", folder / "runs"]
            line += ["--hosts", "2", "--host", str(rank), "--coordinator", f"127.0.0.1:{port}", *words[rank]]
            with log.open("w") as out:
                self.hosts.append(
                    subprocess.Popen(
                        line,
                        cwd=ROOT,
                        env={**os.environ, hosts_plugin.HOW: how},
                        stdout=out,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )

    def ended(self, timeout=240):
        """Exit status and output of each host."""
        status = [host.wait(timeout=timeout) for host in self.hosts]
        return status, [log.read_text() for log in self.logs]

    def child(self, rank):
        """The process that trains on a host."""
        parent = self.hosts[rank].pid
        return int((Path("/proc") / str(parent) / "task" / str(parent) / "children").read_text().split()[0])

    def wait_for(self, path, seconds=120):
        end = time.monotonic() + seconds
        while not path.exists():
            assert time.monotonic() < end and all(host.poll() is None for host in self.hosts), self.logs[0].read_text()
            time.sleep(0.05)


def write(folder):
    folder.mkdir(exist_ok=True)
    (folder / "toy.yml").write_text(CONFIG)
    return folder


def weights(folder):
    return {n: t.numpy() for n, t in load_tensors(folder / "runs/toy/weights/last.safetensors").items()}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """A run of 40 steps on two hosts, and what they said."""
    folder = write(tmp_path_factory.mktemp("hosts"))
    status, said = Job(folder).ended()
    assert status == [0, 0], said
    return folder, said


def test_two_hosts_give_the_run_of_one_device_and_host_0_keeps_it(unbroken, tmp_path):
    folder, said = unbroken
    train(write(tmp_path) / "toy.yml", runs=tmp_path / "runs")
    alone = weights(tmp_path)
    for name, values in weights(folder).items():
        np.testing.assert_allclose(values, alone[name], rtol=1e-3, atol=1e-4, err_msg=name)  # 40 steps of float32
    assert "1 of xla-cpu on each of 2 hosts, of which this is host 0" in said[0]
    assert "done at step 40; host 0 keeps the run" in said[1]
    kept = {path.name for path in (folder / "runs/toy").iterdir()}
    assert kept >= {"metrics.json", "report.html", "log.txt", "weights"}
    lines = [json.loads(line) for line in (folder / "runs/toy/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "figures" in line] == [20, 40]  # each once


def test_hosts_with_another_config_are_told_and_nothing_is_written(tmp_path):
    status, said = Job(write(tmp_path), words=((), ("-o", "schedule.base_lr=0.3"))).ended()
    assert status == [2, 2]
    for text in said:
        assert "config of host 1 differs from that of host 0" in text
        assert text.count("error:") == 1  # why it ended is said once
    assert not (tmp_path / "runs").exists()


def test_hosts_with_other_data_are_told_before_the_step(tmp_path):
    status, said = Job(write(tmp_path), how="other").ended()
    assert status == [2, 2]
    for text in said:
        assert re.search(r"data of host 1 differs from that of host 0 \(\w+ against \w+\)", text), text


def test_a_folder_that_is_taken_is_one_error_on_every_host(unbroken):
    folder, _ = unbroken
    before = weights(folder)
    status, said = Job(folder).ended()
    assert status == [2, 2]
    assert "holds a run already" in said[0] and "host 0 cannot begin" in said[1] and "holds a run already" in said[1]
    assert all((before[name] == values).all() for name, values in weights(folder).items())


@pytest.mark.slow
def test_a_signal_to_one_host_ends_all_at_one_step_and_the_run_continues_with_the_same_bits(unbroken, tmp_path):
    job = Job(write(tmp_path), how="slow")
    job.wait_for(tmp_path / "runs/toy/weights/step_00000003")
    os.kill(job.child(1), signal.SIGTERM)  # as Slurm does, which tells all processes of a step
    job.hosts[1].send_signal(signal.SIGTERM)
    status, said = job.ended()
    assert status == [130, 130], said
    step = re.search(r"saved at step (\d+); continue with", said[0])[1]
    assert f"saved at step {step}; host 0 keeps the run" in said[1] and int(step) < 40
    status, said = Job(tmp_path, words=(["--resume"], ["--resume"])).ended()
    assert status == [0, 0] and all(f"resumed at step {step}" in text for text in said)
    for name, values in weights(tmp_path).items():
        assert values.tobytes() == weights(unbroken[0])[name].tobytes(), name


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_host_that_is_killed_ends_the_job_and_nothing_is_lost(unbroken, tmp_path, rank):
    job = Job(write(tmp_path), how="slow")
    job.wait_for(tmp_path / "runs/toy/weights/step_00000006")
    os.kill(job.child(rank), signal.SIGKILL)
    status, said = job.ended()  # which does not wait for ever
    assert all(status), said
    assert "its process was killed by SIGKILL" in said[rank]
    assert "another host is lost" in said[1 - rank] and said[1 - rank].count("error:") == 1
    assert "Traceback" not in said[1 - rank]
    for text in said:
        assert "checkpoints are whole: start all hosts again with --resume" in text
    expect_same_bits_after_resuming(tmp_path, unbroken[0])


def expect_same_bits_after_resuming(folder, whole):
    status, said = Job(folder, words=(["--resume"], ["--resume"])).ended()
    assert status == [0, 0], said
    for name, values in weights(folder).items():
        assert values.tobytes() == weights(whole)[name].tobytes(), name


@pytest.mark.slow
def test_a_host_that_hangs_while_it_is_alive_ends_the_job_and_says_where(unbroken, tmp_path):
    job = Job(write(tmp_path), how="hang", words=[("-o", "runtime.hosts_timeout=30")] * 2)
    status, said = job.ended()
    assert all(status), said
    assert "host 1 of 2: it made no step for 30 s (runtime.hosts_timeout): it hangs, or waits" in said[1]
    assert "hosts_plugin.py" in said[1]  # where its threads stood
    expect_same_bits_after_resuming(tmp_path, unbroken[0])


@pytest.mark.slow
def test_a_parent_that_is_killed_takes_its_process_along_and_the_run_is_saved(tmp_path):
    job = Job(write(tmp_path), how="slow")
    job.wait_for(tmp_path / "runs/toy/weights/step_00000003")
    job.hosts[1].kill()
    _, said = job.ended(timeout=60)
    assert "saved at step" in said[0]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--hosts", "2"], "--hosts 2 needs --host, .* and --coordinator ADDRESS:PORT"),
        (["--hosts", "many"], "--hosts is many; it takes a number of hosts, or auto"),
        (["--hosts", "2", "--host", "2", "--coordinator", "a:1"], "--host is 2; of 2 hosts it is from 0 to 1"),
        (["--hosts", "auto", "--host", "1"], "--hosts auto finds out by itself"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words, error):
    with pytest.raises(ConfigError, match=error):
        options_of(words)[0].place  # noqa: B018


def test_options_of_hosts_are_taken_out_of_a_command_line(capsys):
    found, rest = options_of(["c.yml", "--hosts=2", "--host", "1", "-o", "a=b", "--coordinator", "x:1", "--resume"])
    assert found == HostOptions("2", 1, "x:1") and found.place == World(1, 2)
    assert rest == ["c.yml", "-o", "a=b", "--resume"]
    for words in (["c.yml", "--host", "1"], ["c.yml", "--hosts", "2", "--seeds", "3"]):
        with pytest.raises(SystemExit):
            command.parsed(words)
        assert "--host and --coordinator go with --hosts" in capsys.readouterr().err


def test_what_several_hosts_cannot_share_is_refused():
    with pytest.raises(ConfigError, match=r"runtime\.device is cpu, which 2 hosts cannot share"):
        expect_fit(Runtime(epochs=1), World(0, 2))
    with pytest.raises(AttributeValueError, match="hosts_timeout is 5 s; it must be 10 or more, or null"):
        Runtime(epochs=1, hosts_timeout=5)
    with pytest.raises(ConfigError, match=r"runtime\.minutes: minutes differ from host to host"):
        expect_fit(Runtime(epochs=1, minutes=3, device="gpu"), World(0, 2))
    expect_fit(Runtime(epochs=1, minutes=3), World())


def test_a_process_is_overdue_when_it_was_silent_for_longer_than_it_said_and_not_before():
    heard, told = os.pipe()
    listener = Listener(heard)
    assert not listener.overdue  # nothing was said: imports, data sets, the first meeting
    os.write(told, struct.pack("=dd", 0.01, 1000.0))
    until(lambda: listener.seconds == 1000.0)
    assert not listener.overdue  # the last word counts
    os.write(told, struct.pack("=d", 0.01))
    until(lambda: listener.overdue)
    os.write(told, struct.pack("=d", 0.0))  # what follows may take any time
    until(lambda: not listener.overdue)
    os.close(told)


def test_training_tells_that_it_goes_on_at_steps_and_in_evaluations():
    heard, told = os.pipe()
    tell_on(told)
    hook = Alive(60.0)
    try:
        hook.before_train(None)
        hook.during_evaluation(None, 1, 2)  # within a second of the word before
        hook.close(None)
    finally:
        tell_on(None)
        os.close(told)
    assert os.read(heard, 100) == struct.pack("=dd", 60.0, 0.0)
    hook.after_step(None)  # to nobody
    os.close(heard)


def test_hosts_agree_before_the_first_two_steps_and_then_every_few_seconds():
    agreement, batch = Agreement(), [{"x": np.ones(3)}]
    assert agreement.meet(0, batch, True) and agreement.meet(1, batch, True)
    assert not agreement.meet(2, batch, True)  # steps are short, so it is not yet time


def test_the_newest_checkpoint_has_its_folder(tmp_path):
    assert Checkpoints(tmp_path).newest() is None
    Checkpoints(tmp_path).save(3, {"trainer": {"step": 3}})
    folder, found = Checkpoints(tmp_path).newest()
    assert folder.name == "step_00000003" and found == Checkpoints(tmp_path).latest()
    with pytest.raises(CheckpointError):
        (folder / "state.json").write_text("{}")
        Checkpoints(tmp_path).newest()
