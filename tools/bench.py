"""Time a workload on this machine: `python tools/bench.py [CASE ...] [--threads N] [--seconds S] [--device NAME]`.

Prints one JSON line a case: {"case", "unit", "rate", "step_ms", "steps", "peak_rss_mb"}; on a device other than the CPU
also "device" and "first_step_s", which is mostly compilation. `rate` is the median over the timed steps. A training
step is forward, loss, backward and the optimizer's update, in float32, as one Program. The
cases stand in tools/bench_cases; most have a peer of the same network, shapes and mathematics in
benchmarks/peers/torch_cases.py, and benchmarks/training_vs_torch.py runs both in turns and gives the ratio. `--profile`
shows where the time goes and keeps it in runs/bench/CASE. `python tools/bench.py loader CONFIG` is
`paddock bench loader CONFIG`: whether loading or training holds a run up.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.bench_cases import ctr, detection, images, text, video

if TYPE_CHECKING:
    from suites.engine.train.profiling import StepProfile
    from tools.bench_cases.common import Step

# By what a case's name begins with; images/s for the others.
UNITS = {"nextvlad": "videos/s", "bert": "sentences/s"}
UNITS |= dict.fromkeys(("tsn", "tsm", "stnet", "nonlocal", "i3d"), "clips/s")
UNITS |= dict.fromkeys(("deepfm", "lr_", "fm_", "din_", "dcnv2"), "samples/s")

CASES: dict[str, Callable[[], tuple[Step, int]]] = {
    name: case for suite in (images, detection, video, text, ctr) for name, case in suite.CASES.items()
}


def measure(case: str, seconds: float, profile: StepProfile | None = None, device: str = "cpu") -> dict[str, Any]:
    """The JSON fields of one case; the first two steps are not timed, nor are those that are profiled."""
    import framework

    with framework.device(device):
        start = time.perf_counter()
        step, items = _finished(CASES[case]())
        step()
        first = time.perf_counter() - start
        step()
        fields = _timed(case, step, items, seconds, profile)
    return fields if device == "cpu" else {**fields, "device": device, "first_step_s": round(first, 2)}


def _finished(case: tuple[Step, int]) -> tuple[Step, int]:
    """The step, which also waits for its results: on a device a run returns before it is done."""
    from framework.graph.trees import flatten

    step, items = case

    def whole() -> None:
        results: list[Any] = []
        flatten(step(), results)
        for result in results[:1]:  # all of them are there when one is
            result.numpy()

    return whole, items


def _timed(case: str, step: Step, items: int, seconds: float, profile: StepProfile | None) -> dict[str, Any]:
    if profile is not None:
        for _ in range(profile.length):
            with profile.step():
                step()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    median = statistics.median(times)
    return {
        "case": case,
        "unit": next((unit for start, unit in UNITS.items() if case.startswith(start)), "images/s"),
        "rate": round(items / median, 3),
        "step_ms": round(median * 1e3, 2),
        "steps": len(times),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main(words: list[str] | None = None) -> int:
    """Measure the cases named on the command line and return the exit status."""
    from suites.engine.cli.bench import main as of_config
    from suites.engine.hosts.devices import add_device_option
    from suites.engine.train.profiling import StepProfile, add_profile_option

    words = sys.argv[1:] if words is None else words
    if words[:1] == ["loader"]:
        return of_config(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all of " + ", ".join(CASES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8)
    add_device_option(parser, "cpu")
    add_profile_option(parser, "steps")
    a = parser.parse_args(words)
    unknown = [case for case in a.cases if case not in CASES]
    if unknown:
        parser.error(f"no case is called '{unknown[0]}'; there are {', '.join(CASES)}")
    from framework import set_num_threads

    set_num_threads(a.threads)
    for case in a.cases or CASES:
        profile = StepProfile(Path("runs/bench") / case) if a.profile else None
        print(json.dumps(measure(case, a.seconds, profile, a.device or "cpu")), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
