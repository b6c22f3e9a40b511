"""Jobs: a run handed to a Ray cluster over the HTTP interface of its dashboard, where it goes on without this machine.

https://docs.ray.io/en/latest/cluster/running-applications/job-submission/rest.html
"""

from __future__ import annotations

import json
import shlex
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from framework.errors import ConfigError

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

    Raises ConfigError where the dashboard cannot be reached, or the job fails.
    """
    words = ["paddock", "train", str(source), "--cluster", "auto", "--runs", str(runs)]
    words += [] if name is None else ["--name", name]
    words += ["--resume"] * resume + ["--overwrite"] * overwrite
    words += [w for text in overrides for w in ("-o", text)] + [w for text in imports for w in ("--import", text)]
    base = _base(address)
    job = str(_ask(f"{base}/api/jobs/", {"entrypoint": shlex.join(words)})["submission_id"])
    print(f"job {job}; it goes on without this command: ray job logs --address {base} --follow {job}", flush=True)
    shown = 0
    while True:
        state = str(_ask(f"{base}/api/jobs/{job}")["status"])
        text = str(_ask(f"{base}/api/jobs/{job}/logs").get("logs", ""))
        print(text[shown:], end="", flush=True)
        shown = len(text)
        if state in _ENDED:
            break
        time.sleep(poll)
    if state == "FAILED":
        raise ConfigError(f"--cluster {address}: job {job} failed; the end of its log is above")
    return state == "SUCCEEDED"


def _base(address: str) -> str:
    whole = address if "://" in address else f"http://{address}"
    return whole.rstrip("/")


def _ask(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            found: dict[str, Any] = json.loads(response.read())
            return found
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ConfigError(
            f"--cluster: {url} does not answer as a Ray dashboard ({reason}); its port is {_PORT} where nobody "
            "changed it"
        ) from None
