"""The environment report of a run: what one needs to know to repeat it or to explain a difference."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from framework import programs
from framework.extras import DISTRIBUTION

_PACKAGES = (DISTRIBUTION, "numpy", "opencv-python-headless", "pycocotools", "safetensors", "tensorboardX")


def report() -> dict[str, Any]:
    """Return versions, machine and threads, fit for JSON."""
    from framework import current_device, num_threads

    device = current_device()
    packages = _PACKAGES if device == "cpu" else (*_PACKAGES, "jax", "jaxlib")
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": num_threads(),
        "device": device,
        "packages": {name: package_version(name) for name in packages},
        "commit": _commit(),
        "command": sys.argv,
    }


def package_version(name: str) -> str:
    """Return the installed version of a package, or that there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def _commit() -> str:
    """The source's git commit, marked `+changes` if files differ from it; empty outside a checkout."""
    root = Path(__file__).resolve().parents[3]
    if not (
        root / ".git"
    ).exists():  # a repository around an installed copy is another's, and its settings run programs
        return ""
    here = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    try:
        commit = programs.run("git", ("rev-parse", "HEAD"), seconds=10, cwd=str(root), env=here)
        changes = programs.run("git", ("diff", "--quiet", "HEAD"), seconds=10, cwd=str(root), env=here)
    except (OSError, programs.ProgramError):
        return ""
    return "" if commit.returncode else commit.stdout.strip() + ("+changes" if changes.returncode else "")
