"""The page of a run, or of several beside each other: one HTML file that asks nothing of the network.

It is made from what is in the run folders: `metrics.jsonl`, `metrics.json`, `plots.json`, `data.json`, `pictures`,
`config.yml`, `environment.json`, `log.txt`. Every word of theirs is escaped, and the page may run no script. A damaged
file costs its part of the page, with a note; pictures and plots have 3 MiB in all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from framework.atomic import write_text
from framework.confined import confine, expect_no_way_out
from suites.engine.reporting.gallery import gallery, left_out
from suites.engine.reporting.holdings import holdings, size_plots
from suites.engine.reporting.html import Room, folded, grid, note, number, say, table
from suites.engine.reporting.plots import Curves, Plot, never_predicted, svg
from suites.engine.reporting.reading import Run
from suites.engine.reporting.tally import TRAIN, Tally

PAGE = "report.html"
_CASES = 12  # pictures and cases of a part; of several runs they share them
_LEAST_CASES = 4
_MOST_FIGURES = 24  # curves of evaluations
_CONFIG = 100_000  # characters
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 1500px; padding: 0 16px 48px; color: #222; }
h1 { font-size: 1.5em; overflow-wrap: anywhere; } h3 { font-size: 1em; }
h2 { font-size: 1.15em; margin-top: 2em; border-bottom: 1px solid #ddd; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); gap: 16px; }
.grid svg, .grid img { width: 100%; height: auto; } figure { margin: 0; min-width: 0; } .wide { grid-column: 1 / -1; }
.grid .wide img { max-width: 960px; } figcaption { color: #666; font-size: .85em; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; } td, th { padding: 2px 10px; text-align: left; }
tr:nth-child(even) { background: #f5f5f5; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { overflow-x: auto; background: #f5f5f5; padding: 8px; font-size: .85em; } summary { cursor: pointer; }
.text { background: #f5f5f5; padding: 8px; margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
mark { border-radius: 3px; padding: 0 2px; } .wrong { background: #ffc9c9; } .right { background: #c3f0ca; }
.note { background: #fff6d6; padding: 6px 10px; overflow-wrap: anywhere; }
"""


def write_page(runs: Sequence[Path], output: Path, further: Sequence[Plot] = ()) -> Path:
    """Write the page of one run, or of several beside each other.

    Args:
        runs: their folders, the one the page is about first.
        output: the file.
        further: plots of the first run that its suite made.

    Raises CheckpointError for a folder that is no run, ImportError where matplotlib is missing.
    """
    found = [Run.read(path) for path in runs]
    for run in found:
        expect_no_way_out(run.path)  # nor is a picture shown that lies elsewhere
        confine(run.path)
    first, room = found[0], Room()
    title = first.name if len(found) == 1 else f"{first.name} and {len(found) - 1} more"
    parts = [_about(first)]
    if len(found) > 1:
        parts += ["<h2>Beside each other</h2>", _comparison(found)]
    parts += ["<h2>Figures</h2>", *_all_figures(first), "<h2>Curves</h2>"]
    parts.append(_plots(_curves(found), room) or "<p>Nothing has been logged yet.</p>")
    most = max(_LEAST_CASES, _CASES // len(found))
    names = {id(run): f" of {run.name}" if len(found) > 1 else "" for run in found}
    for run in found:
        parts += _evaluation(run, names[id(run)], room, most, further if run is first else ())
    for run in found:
        parts += _data(run.tallies, names[id(run)], room)
    for run in found:
        parts += [
            f"<h2>Run{say(names[id(run)])}</h2>",
            folded("Config", run.config[:_CONFIG]),
            folded("Environment", run.environment[:_CONFIG]),
            folded(f"Log, the last {len(run.log)} lines", "\n".join(run.log)),
        ]
    for run in found:
        for name in dict.fromkeys(name for name, _ in run.plots):
            if text := never_predicted(plot for at, plot in run.plots if at == name):
                run.note(f"{name}: {text}" if name else text)
    notes = [note(f"{run.name}: {text}" if len(found) > 1 else text) for run in found for text in run.notes]
    head = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{say(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
    )
    body = [f"<h1>{say(title)}</h1>", *notes, left_out(room), *parts]
    write_text(output, head + "\n".join(body) + "</body></html>\n")
    return output


def _about(run: Run) -> str:
    words = [f"{run.steps[-1]['step']} steps"] if run.steps else []
    timed = [line for line in run.steps if line["seconds"] and line["wait"] is not None]
    if timed:
        middle = sorted(line["seconds"] for line in timed)[len(timed) // 2]
        waits = sum(line["wait"] / line["seconds"] for line in timed) / len(timed)
        words.append(f"{middle:.3g} s a step (median), {waits:.0%} of it waiting for data")
    return f"<p>{say(', '.join(words))}</p>" if words else "<p>No step has been logged yet.</p>"


def _all_figures(run: Run) -> list[str]:
    """Those of the best weights, then those of the last evaluation, where that is another one."""
    if not run.last:
        return [_figures(run.figures)]
    heads = [
        f"<h3>{which}: step {number(run_figures.get('step'))}, weights/{which.lower()}.safetensors</h3>"
        for which, run_figures in (("Best", run.figures), ("Last", run.last))
    ]
    return [heads[0], _figures(run.figures), heads[1], _figures(run.last)]


def _figures(figures: Mapping[str, Any]) -> str:
    """Those of the whole set, and those of classes folded away."""
    if not figures:
        return "<p>Nothing has been evaluated yet.</p>"
    whole = [(name, value) for name, value in figures.items() if "/" not in name]
    classes = [(name, value) for name, value in figures.items() if "/" in name]
    more = f"<details><summary>{len(classes)} of classes and sets</summary>{table([], classes)}</details>"
    return table([], whole) + (more if classes else "")


def _comparison(runs: Sequence[Run]) -> str:
    """A row a run, its figures as columns."""
    names = list(dict.fromkeys(name for run in runs for name in run.figures if "/" not in name))
    return table(["run", *names], [[run.name, *(run.figures.get(name) for name in names)] for run in runs])


def _evaluation(run: Run, of: str, room: Room, most: int, further: Sequence[Plot]) -> list[str]:
    """Plots, pictures and cases of a run's last evaluation."""
    own = [*further, *(replace(plot, title=f"{name}: {plot.title}") if name else plot for name, plot in run.plots)]
    drawn = _plots(own, room)
    return [*([f"<h2>Evaluation{say(of)}</h2>", drawn] if drawn else []), *gallery(run, of, room, most)]


def _data(tallies: Mapping[str, Tally], of: str, room: Room) -> list[str]:
    """What the sets of a run held."""
    tallies = dict(sorted(tallies.items(), key=lambda item: (item[0] != TRAIN, item[0])))
    parts = [_plots(size_plots(tallies), room), *holdings(tallies)]
    return [f"<h2>Data{say(of)}</h2>", *parts] if any(parts) else []


def _plots(plots: Sequence[Plot], room: Room) -> str:
    figures = (room.take(f"<figure>{svg(plot)}</figure>") for plot in plots)
    drawn = [figure for figure in figures if figure]
    return grid(drawn) if drawn else ""


def _curves(runs: Sequence[Run]) -> list[Curves]:
    """Loss, learning rate and speed, and each figure of the evaluations; of several runs in the same plots."""
    plots = [_of_steps(runs, "loss", "Loss", "loss")]
    terms = list(dict.fromkeys(name for line in runs[0].steps for name in line["losses"]))
    if len(terms) > 1:
        of_term = {name: _points(runs[0].steps, "losses", name) for name in terms}
        plots.append(Curves("Loss by term", "step", "loss", of_term))
    plots.append(_of_steps(runs, "lr", "Learning rate", "rate"))
    plots.append(_of_steps(runs, "seconds", "Seconds a step", "seconds"))
    names = dict.fromkeys(n for run in runs for line in run.evaluations for n in line["figures"] if "/" not in n)
    for name in [n for n in names if n not in ("step", "epoch", "skipped")][:_MOST_FIGURES]:
        series = {run.name: _points(run.evaluations, "figures", name) for run in runs}
        plots.append(Curves(name, "step", name, series, marks=True))
    return [plot for plot in plots if any(len(xs) for xs, _ in plot.series.values())]


def _of_steps(runs: Sequence[Run], key: str, title: str, y: str) -> Curves:
    return Curves(title, "step", y, {run.name: _points(run.steps, key) for run in runs})


def _points(
    lines: Sequence[dict[str, Any]], key: str, name: str | None = None
) -> tuple[list[float], list[float | None]]:
    """Steps, and the value of a key of each line; with `name`, that of the values below the key."""
    values = (line.get(key) for line in lines) if name is None else (line[key].get(name) for line in lines)
    return [line["step"] for line in lines], list(values)
