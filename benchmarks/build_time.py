#!/usr/bin/env python3
"""Claim: the native module builds from clean in under 4 minutes on 2 cores, in at most 4 GB.

    python benchmarks/build_time.py [--jobs 2]

Configures and builds in an empty folder, without a compiler cache. Memory is the largest sum of the resident sizes of
all processes of the build, looked at ten times a second. CPU time does not depend on what else the machine is doing.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import ROOT, finish

LIMIT_S, LIMIT_GB = 240, 4.0


def tree_bytes(root: int) -> int:
    """Resident bytes of a process and all below it."""
    parents, sizes = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            parents[int(entry)], sizes[int(entry)] = int(fields[1]), int(fields[21]) * resource.getpagesize()
    family = {root}
    while True:
        more = {p for p, parent in parents.items() if parent in family} - family
        if not more:
            return sum(sizes.get(p, 0) for p in family)
        family |= more


def run(command: list[str]) -> int:
    """Run to the end; return the largest memory of its processes in bytes. Ends the program if it fails."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT)
        peak = 0
        while process.poll() is None:
            peak = max(peak, tree_bytes(process.pid))
            time.sleep(0.1)
        if process.returncode != 0:
            log.seek(0)
            sys.exit(f"{' '.join(command)} failed:\n{log.read()[-2000:]}")
    return peak


def build(jobs: int) -> dict[str, Any]:
    """Build once in a new folder; return seconds, CPU seconds and gigabytes."""
    tool = shutil.which("cmake", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if tool is None:
        sys.exit("build_time: cmake is not there; pip install cmake ninja nanobind")
    with tempfile.TemporaryDirectory() as folder:
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        configure = [tool, "-S", str(ROOT), "-B", folder, "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}"]
        peak = run([*configure, "-DCMAKE_CXX_COMPILER_LAUNCHER="])
        peak = max(peak, run([tool, "--build", folder, "--parallel", str(jobs)]))
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"jobs": jobs, "seconds": round(wall, 1), "cpu_seconds": round(spent, 1), "peak_gb": round(peak / 1e9, 2)}


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Build, print and return the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time (2)")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    a = parser.parse_args(words)
    result = build(a.jobs)
    print(
        f"clean build, {a.jobs} jobs: {result['seconds']} s (limit {LIMIT_S} s), {result['cpu_seconds']} s of CPU, "
        f"{result['peak_gb']} GB (limit {LIMIT_GB} GB)"
    )
    finish("build_time", result, a.json)
    return result


if __name__ == "__main__":
    main()
