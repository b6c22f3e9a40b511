"""Jobs: a run handed to a Ray cluster through its dashboard, where it goes on without this machine.

https://docs.ray.io/en/latest/cluster/running-applications/job-submission/sdk.html
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from framework.errors import ConfigError, NotSupportedError
from framework.extras import install_command

_PORT = 8265
_ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


def submits(address: str) -> bool:
    """Whether an address is a dashboard's, to which a run is handed as a job."""
    return address not in ("local", "auto", "processes")


def submit(
    address: str,
    source: Path,
    overrides: Sequence[str],
    runs: Path,
    name: str | None,
    *,
    resume: bool,
    overwrite: bool,
    imports: Sequence[str],
    poll: float = 2.0,
) -> bool:
    """Start `paddock train SOURCE --cluster auto` as a job, and show what it says until it ends.

    The config and all paths in it are those of the cluster's machines. Ctrl-C leaves the job running.

    Returns whether it came to its end.

    Raises ConfigError where the dashboard cannot be reached, or the job fails; NotSupportedError where Ray is missing.
    """
    words = ["paddock", "train", str(source), "--cluster", "auto", "--runs", str(runs)]
    words += [] if name is None else ["--name", name]
    words += ["--resume"] * resume + ["--overwrite"] * overwrite
    words += [w for text in overrides for w in ("-o", text)] + [w for text in imports for w in ("--import", text)]
    url = address if "://" in address else f"http://{address}"
    client = _client(url)
    job = client.submit_job(entrypoint=shlex.join(words))
    print(f"job {job}; it goes on without this command: ray job logs --address {url} --follow {job}", flush=True)
    shown = 0
    while True:
        state = str(getattr(client.get_job_status(job), "value", ""))
        text = str(client.get_job_logs(job))
        print(text[shown:], end="", flush=True)
        shown = len(text)
        if state in _ENDED:
            break
        time.sleep(poll)
    if state == "FAILED":
        raise ConfigError(f"--cluster {address}: job {job} failed; the end of its log is above")
    return state == "SUCCEEDED"


def _client(url: str) -> Any:
    """Ray's own client of the dashboard, which knows about tokens."""
    try:
        from ray.job_submission import JobSubmissionClient
    except ImportError:
        raise NotSupportedError(
            f"--cluster {url}: Ray is not installed here; run: {install_command('cluster')}; or start the run on the "
            "cluster with --cluster auto"
        ) from None
    try:
        return JobSubmissionClient(url)
    except (ConnectionError, RuntimeError, OSError) as error:
        raise ConfigError(
            f"--cluster: {url} does not answer as a Ray dashboard ({str(error).splitlines()[0]}); its port is {_PORT} "
            "where nobody changed it"
        ) from None
