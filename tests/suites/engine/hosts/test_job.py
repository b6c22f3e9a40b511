"""A run is handed to a Ray cluster as a job: the command is that of the cluster, and its end is this command's."""

import sys
from enum import Enum
from pathlib import Path
from types import ModuleType

import pytest

from framework.errors import ConfigError, NotSupportedError
from suites.engine.hosts.job import submit, submits


class Status(Enum):
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


class Client:
    """As `ray.job_submission.JobSubmissionClient`."""

    states = ()
    entrypoint = ""

    def __init__(self, url):
        if "nowhere" in url:
            raise ConnectionError(f"Failed to connect to Ray at address: {url}.")
        Client.url, Client.polls = url, 0

    def submit_job(self, *, entrypoint):
        Client.entrypoint = entrypoint
        return "raysubmit_1"

    def get_job_status(self, job):
        Client.polls += 1
        return Client.states[min(Client.polls, len(Client.states)) - 1]

    def get_job_logs(self, job):
        return "one\ntwo\n"[: 4 * Client.polls]


@pytest.fixture
def ray(monkeypatch):
    module = ModuleType("ray.job_submission")
    module.JobSubmissionClient = Client
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    monkeypatch.setitem(sys.modules, "ray.job_submission", module)


def handed_over(address="head:8265", **options):
    given = {"resume": False, "overwrite": False, "imports": (), "poll": 0.0, **options}
    return submit(address, Path("ctr/deepfm_csv"), ["data.root=/data/a log"], Path("/shared/runs"), "mine", **given)


def test_the_job_is_the_same_command_on_the_cluster(ray, capsys):
    Client.states = [Status.RUNNING, Status.SUCCEEDED]
    assert handed_over(overwrite=True, imports=["mine"])
    assert Client.url == "http://head:8265"
    assert Client.entrypoint == (
        "paddock train ctr/deepfm_csv --cluster auto --runs /shared/runs --name mine --overwrite "
        "-o 'data.root=/data/a log' --import mine"
    )
    out = capsys.readouterr().out
    assert out.endswith("one\ntwo\n") and "ray job logs --address http://head:8265 --follow raysubmit_1" in out


def test_a_job_that_fails_or_is_stopped_says_so(ray):
    Client.states = [Status.FAILED]
    with pytest.raises(ConfigError, match="job raysubmit_1 failed"):
        handed_over()
    Client.states = [Status.STOPPED]
    assert handed_over() is False


def test_a_dashboard_that_is_not_there_is_one_error(ray):
    with pytest.raises(ConfigError, match=r"http://nowhere:1 does not answer as a Ray dashboard .*its port is 8265"):
        handed_over("nowhere:1")


def test_without_ray_the_message_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray.job_submission", None)
    with pytest.raises(NotSupportedError, match=r"Ray is not installed here; run: .*ray.*--cluster auto"):
        handed_over()


def test_which_addresses_are_dashboards():
    assert submits("http://head:8265") and submits("head:8265")
    assert not any(map(submits, ("local", "auto", "processes")))
