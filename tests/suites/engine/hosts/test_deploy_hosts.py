"""The Slurm script and the JobSet start what `paddock train --hosts` takes, resume, and go on after a loss."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from suites.engine.cli import train

ROOT = Path(__file__).resolve().parents[4]
SLURM = ROOT / "deploy/slurm.sh"
FAKE = '#!/usr/bin/env bash\nprintf "%s\\n" "{name} $*" >> "$CALLS"\n{then}\n'


@pytest.fixture
def called(tmp_path):
    """Runs a script where `paddock`, `srun` and `scontrol` only note how they are called; `srun` ends with a status."""

    def call(*line, status=0, **env):
        for name in ("paddock", "srun", "scontrol"):
            path = tmp_path / name
            path.write_text(FAKE.format(name=name, then=f"exit {status}" if name == "srun" else ""))
            path.chmod(0o755)
        calls = tmp_path / "calls"
        calls.write_text("")
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls), **env}
        done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=30)
        return done.returncode, calls.read_text().splitlines(), done.stderr

    return call


def arguments(call):
    """What a noted call of `paddock train` comes to."""
    return train.parsed(call.split("paddock train ")[1].split())


def test_slurm_starts_the_job_and_resumes_a_run_that_is_there(called, tmp_path):
    status, calls, _ = called("bash", SLURM, "video/tsn_resnet18_fight", "mine", SLURM_GPUS_ON_NODE="4")
    given = arguments(calls[0])
    assert status == 0 and len(calls) == 1 and calls[0].startswith("srun --kill-on-bad-exit=1 paddock train")
    assert (given.hosts, given.device, given.name, given.resume) == ("auto", "gpu", "mine", False)
    assert "runtime.devices=4" in given.overrides
    (tmp_path / "runs/mine").mkdir(parents=True)
    (tmp_path / "runs/mine/config.yml").write_text("")
    assert arguments(called("bash", SLURM, "c", "mine", "-o", "a=1")[1][0]).resume


@pytest.mark.parametrize(("status", "starts", "again"), [(130, 0, True), (1, 3, True), (2, 0, False), (1, 20, False)])
def test_slurm_queues_a_job_again_that_was_cut_off_and_no_other(called, status, starts, again):
    env = {"SLURM_JOB_ID": "77", "SLURM_RESTART_COUNT": str(starts)}
    found, calls, _ = called("bash", SLURM, "c", "mine", status=status, **env)
    assert found == status and (calls[1:] == ["scontrol requeue 77"]) is again


def test_slurm_says_what_it_takes(called):
    status, calls, said = called("bash", SLURM)
    assert status == 2 and not calls and "usage: sbatch --nodes=N deploy/slurm.sh CONFIG NAME" in said


def test_each_pod_of_the_jobset_is_a_host_and_host_0_is_where_all_meet(called):
    jobset, policy = yaml.safe_load_all((ROOT / "deploy/jobset.yml").read_text())
    (job,) = jobset["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    _, calls, _ = called(*container["command"], JOB_COMPLETION_INDEX="3")
    given = arguments(calls[0])
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"] == int(given.hosts)
    first = f"{jobset['metadata']['name']}-{job['name']}-0-0.{jobset['spec']['network']['subdomain']}"
    assert given.coordinator == f"{first}:{container['ports'][0]['containerPort']}" and given.host == 3
    assert f"runtime.devices={container['resources']['limits']['nvidia.com/gpu']}" in given.overrides
    assert spec["backoffLimit"] == 0 and jobset["spec"]["failurePolicy"]["maxRestarts"] > 0  # all again, or none
    assert policy["spec"]["podSelector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
