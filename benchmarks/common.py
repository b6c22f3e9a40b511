"""What the benchmarks share: competitors measured in turns, medians with spread, the table, the results as JSON.

A figure is the median over rounds, with the smallest and largest. In each round every competitor runs once, in a fresh
process, so that a slow moment of a shared machine hits all alike; a ratio is taken within a round.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# SmolLM2-135M's sizes, a Llama form.
SMOLLM2_135M: dict[str, Any] = {
    "vocab_size": 49152, "width": 576, "layers": 30, "heads": 9, "kv_heads": 3, "hidden": 1536,
}  # fmt: skip
ROOT = Path(__file__).resolve().parents[1]
OURS = "paddock"
PEERS = ROOT / "benchmarks" / "peers"  # the peers' networks, run in their interpreter


@dataclass(frozen=True)
class Claim:
    """What is promised of a case: a ratio to the best peer that is reached at least, and one that is aimed at."""

    case: str
    least: float
    aim: float


@dataclass(frozen=True)
class Competitor:
    """Something that is measured: a command that prints one JSON line last, with "rate", "step_ms", "peak_rss_mb"."""

    name: str
    command: list[str]


def resident() -> float:
    """Megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def add_options(parser: argparse.ArgumentParser, cases: Sequence[str]) -> None:
    """Add the options that all comparisons take."""
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all of " + ", ".join(cases))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8, help="timed steps of one competitor in one round (8)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter with the peers installed")
    parser.add_argument("--prefix", type=shlex.split, default=[], help="put before each command: 'taskset -c 0,1'")
    parser.add_argument("--json", type=Path, help="write the results to this file")


def chosen_cases(arguments: argparse.Namespace, claims: Sequence[Claim]) -> list[Claim]:
    """The claims of the cases named on the command line, or all; ends the program at an unknown one."""
    known = {claim.case: claim for claim in claims}
    for case in arguments.cases:
        if case not in known:
            sys.exit(f"no case is called '{case}'; there are {', '.join(known)}")
    return [known[case] for case in arguments.cases or known]


def data_path(name: str) -> Path:
    """Where a file of the real data is looked for, such as "video/fight/fight.zip": $PADDOCK_DATA, ../shared/data."""
    return Path(os.environ.get("PADDOCK_DATA") or ROOT.parent / "shared" / "data") / name


def lacks(path: Path) -> str:
    """What is said where real data are missing."""
    return f"{path} is missing; set PADDOCK_DATA to the folder of the data sets (docs/howto/data.md has their sources)"


def find_real_data() -> None:
    """Let configs find the real data sets where `data_path` looks, unless PADDOCK_DATA says where they are."""
    os.environ.setdefault("PADDOCK_DATA", str(data_path("")))


def real_data(name: str) -> Path:
    """A file of the real data sets; ends the program with a message where it is missing."""
    path = data_path(name)
    if not path.exists():
        sys.exit(lacks(path))
    return path


def fold_figures(config: Path, each: Mapping[int, float]) -> dict[str, Any]:
    """What a cross-validation found: a figure of each fold, their mean and standard deviation."""
    values = list(each.values())
    return {
        "config": str(config),
        "folds": {fold: round(value, 4) for fold, value in each.items()},
        "mean": round(float(statistics.mean(values)), 4),
        "deviation": round(float(statistics.stdev(values)), 4) if len(values) > 1 else None,
    }


def add_rows(rows: int) -> Callable[[argparse.ArgumentParser], object]:
    """The option --rows with its default, for `run_claims`."""
    return lambda parser: parser.add_argument("--rows", type=int, default=rows, help=f"rows of the data ({rows:,})")


def has_modules(python: str, *modules: str) -> bool:
    """Whether an interpreter can import all of `modules`."""
    code = f"import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, {modules!r})))"
    try:
        return subprocess.run([python, "-c", code], capture_output=True).returncode == 0
    except OSError:
        return False


def time_steps(step: Callable[[], object], seconds: float, warmup: int = 2, least: int = 3) -> dict[str, Any]:
    """Run a step again and again; its median in ms, how often it ran, and the process's largest memory in MB."""
    for _ in range(warmup):
        step()
    times: list[float] = []
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(times) < least:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"step_ms": round(statistics.median(times) * 1e3, 4), "steps": len(times), "peak_rss_mb": memory}


def two_sided(script: str, case: str, peer: str, modules: Sequence[str], a: argparse.Namespace) -> list[Competitor]:
    """Ours, and the peer where its modules are installed: a script that runs one of them with --side."""

    def command(python: str, side: str) -> list[str]:
        return [python, script, "--side", side, "--seconds", str(a.seconds), "--threads", str(a.threads), case]

    found = [Competitor(OURS, command(sys.executable, OURS))]
    if has_modules(a.peer_python, *modules):
        return [*found, Competitor(peer, command(a.peer_python, peer))]
    print(f"{peer} is left out: {a.peer_python} has no {' or no '.join(modules)}", file=sys.stderr)
    return found


def run_claims(
    name: str,
    doc: str | None,
    claims: Sequence[Claim],
    competitors: Callable[[str, argparse.Namespace], list[Competitor]],
    run: Callable[[argparse.Namespace], object],
    words: list[str] | None,
    *,
    baseline: str | None = None,
    modes: Sequence[str] = (),
    options: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
    figures: Callable[[dict[str, list[dict]]], dict[str, Any]] = lambda found: {},
    told: Callable[[Mapping[str, Any]], str] | None = None,
    agree: Callable[[str, argparse.Namespace], str] | None = None,
) -> list[dict]:
    """The command line of a comparison: measure the cases, print the table, return the results by case.

    Args:
        name: of the benchmark, in the file of results.
        doc: the script's description.
        claims: what is promised, a case each.
        competitors: ours and the peers of a case.
        run: measures one side, where the process was started with --side (one of a case's competitors).
        words: of the command line; None for the process's.
        baseline: the competitor that memory is compared with.
        modes: of the peer, for --modes.
        options: adds the script's own to the parser.
        figures: further ones of a case, of the measurements by competitor.
        told: a line about a case's results, printed behind the table.
        agree: with the script's own option --agree, what is printed of a case in place of its times.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, [claim.case for claim in claims])
    if modes:
        parser.add_argument("--modes", nargs="+", choices=modes, default=list(modes))
    options(parser)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    a = parser.parse_args(words)
    if a.side:
        run(a)
        return []
    if agree is not None and a.agree:
        for claim in chosen_cases(a, claims):
            print(agree(claim.case, a), flush=True)
        return []
    results = []
    for claim in chosen_cases(a, claims):
        found = in_turns(competitors(claim.case, a), a.rounds, a.prefix)
        results.append(compare(claim, found, baseline=baseline) | figures(found))
    print(table(results))
    if told is not None:
        for result in results:
            print(told(result))
    finish(name, results, a.json)
    return results


def measure(command: list[str]) -> dict[str, Any]:
    """The JSON line that a benchmark process prints last, with its wall time as "wall_s"; raises RuntimeError."""
    start = time.perf_counter()
    out = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    wall = time.perf_counter() - start
    lines = out.stdout.strip().splitlines()
    if out.returncode != 0 or not lines:
        raise RuntimeError((out.stderr.strip().splitlines() or ["it printed nothing"])[-1])
    return {**json.loads(lines[-1]), "wall_s": round(wall, 3)}


def in_turns(competitors: Sequence[Competitor], rounds: int, prefix: Sequence[str] = ()) -> dict[str, list[dict]]:
    """The measurements of each competitor, one a round; one that fails is named and left out from then on."""
    found: dict[str, list[dict]] = {c.name: [] for c in competitors}
    for turn in range(rounds):
        for c in competitors:
            if c.name not in found:
                continue
            try:
                found[c.name].append(measure([*prefix, *c.command]))
            except RuntimeError as error:
                if c.name == OURS:
                    raise
                print(f"  {c.name} failed and is left out: {error}", file=sys.stderr)
                del found[c.name]
                continue
            latest = found[c.name][-1]
            progress = f"  round {turn + 1}: {c.name} {latest['rate']} {latest['unit']}, {latest['peak_rss_mb']} MB"
            print(progress, file=sys.stderr, flush=True)
    return found


def compare(claim: Claim, found: Mapping[str, Sequence[Mapping[str, Any]]], baseline: str | None = None) -> dict:
    """The results of one case: rates, memory and, in each round, the ratio of ours to the best peer's.

    Args:
        claim: what is promised.
        found: measurements by competitor, as of `in_turns`.
        baseline: the competitor that memory is compared with.
    """
    peers = [name for name in found if name != OURS]
    rates = {name: [m["rate"] for m in measured] for name, measured in found.items()}
    memory = {name: max(m["peak_rss_mb"] for m in measured) for name, measured in found.items()}
    ratios = [ours / max(rates[p][i] for p in peers) for i, ours in enumerate(rates[OURS])] if peers else []
    best = max(peers, key=lambda p: statistics.median(rates[p]), default=None)
    return {
        "case": claim.case,
        "unit": found[OURS][0]["unit"],
        "least": claim.least,
        "aim": claim.aim,
        "rates": rates,
        "best_peer": best,
        "ratios": [round(r, 4) for r in ratios],
        "peak_rss_mb": memory,
        "memory_ratio": round(memory[OURS] / memory[baseline], 4) if baseline in memory else None,
    }


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median with the smallest and largest: `1.42 [1.38, 1.47]`."""
    if not values:
        return "-"
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]"


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """The results of `compare` as a Markdown table."""
    header = ("case", "unit", "ours", "best peer", "", "ratio", "at least", "aim", "memory")
    rows = [header, ("---",) * len(header)]
    for r in results:
        best = r["best_peer"]
        memory = "-" if r["memory_ratio"] is None else f"{r['memory_ratio']:.2f}x"
        rows.append(
            (
                r["case"],
                r["unit"],
                spread(r["rates"][OURS]),
                best or "none",
                spread(r["rates"][best]) if best else "-",
                spread(r["ratios"]),
                f"{r['least']:.2f}",
                f"{r['aim']:.2f}",
                memory,
            )
        )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def environment() -> dict[str, Any]:
    """The machine and what was running on it."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = models[0] if models else cpu
    isa = subprocess.run(
        [sys.executable, "-c", "from framework import _core; print(_core.active_isa())"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    ).stdout.strip()
    return {"cpu": cpu, "cores": os.cpu_count(), "isa": isa, "load": os.getloadavg()[0], "date": time.strftime("%F")}


def finish(name: str, results: Any, path: Path | None) -> None:
    """Write results with the machine they were measured on, if a file is named."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            json.dumps({"benchmark": name, "environment": environment(), "results": results}, indent=1) + "\n"
        )
