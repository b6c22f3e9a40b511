"""The page of a run, or of several beside each other: one HTML file that asks nothing of the network.

It is made from what is in the run folders: `metrics.jsonl`, `metrics.json`, `plots.json`, `pictures`, `config.yml`,
`environment.json`, `log.txt`. Every word of theirs is escaped, and the page may run no script.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2

from framework.atomic import write_text
from framework.errors import CheckpointError, DataError
from suites.engine.reporting.journal import FILE
from suites.engine.reporting.lines import read_lines
from suites.engine.reporting.plots import Curves, Plot, from_plain, svg

PAGE = "report.html"
_PICTURES, _WIDTH, _QUALITY = 12, 480, 80  # how many, pixels of each, JPEG's quality
_LOG_LINES = 400
_MOST_BYTES = 64 << 20  # of a file that is read whole

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 1500px; padding: 0 16px 48px; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; border-bottom: 1px solid #ddd; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); gap: 16px; }
.grid svg, .grid img { width: 100%; height: auto; } figure { margin: 0; } figcaption { color: #666; font-size: .85em; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; } td, th { padding: 2px 10px; text-align: left; }
tr:nth-child(even) { background: #f5f5f5; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { overflow-x: auto; background: #f5f5f5; padding: 8px; font-size: .85em; } summary { cursor: pointer; }
"""


@dataclass(frozen=True)
class _Run:
    """What a run folder holds, as far as a page shows it."""

    path: Path
    config: str
    environment: dict[str, Any]
    figures: dict[str, Any]
    lines: list[dict[str, Any]]
    plots: list[tuple[str, Plot]]  # with the name of the evaluation set, "" for the main one
    log: list[str]

    @classmethod
    def read(cls, path: Path) -> _Run:
        """A run folder; CheckpointError where it is none."""
        if not (path / "config.yml").is_file():
            raise CheckpointError(f"{path}: is no run (config.yml); name folders that `paddock train` made")
        sets = _json(path / "plots.json")
        return cls(
            path,
            _text(path / "config.yml"),
            _json(path / "environment.json"),
            _json(path / "metrics.json"),
            read_lines(path / FILE),
            [(name, from_plain(plot)) for name, plots in sets.items() for plot in plots],
            _text(path / "log.txt").splitlines()[-_LOG_LINES:],
        )

    @property
    def name(self) -> str:
        """Of the folder."""
        return self.path.resolve().name

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Lines of training steps."""
        return [line for line in self.lines if "loss" in line]

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """Lines of evaluations."""
        return [line for line in self.lines if isinstance(line.get("figures"), dict)]


def write_page(runs: Sequence[Path], output: Path, further: Sequence[Plot] = ()) -> Path:
    """Write the page of one run, or of several beside each other.

    Args:
        runs: their folders, the one the page is about first.
        output: the file.
        further: plots of the first run that its suite made.

    Raises CheckpointError for a folder that is no run, ImportError where matplotlib is missing.
    """
    found = [_Run.read(path) for path in runs]
    first = found[0]
    title = first.name if len(found) == 1 else f"{first.name} and {len(found) - 1} more"
    parts = [f"<h1>{_say(title)}</h1>", _about(first)]
    if len(found) > 1:
        parts += ["<h2>Beside each other</h2>", _comparison(found)]
    parts += ["<h2>Figures</h2>", _figures(first.figures), "<h2>Curves</h2>", _grid(_curves(found))]
    own = [*further, *(_of_set(name, plot) for name, plot in first.plots)]
    if own:
        parts += ["<h2>Evaluation</h2>", _grid(own)]
    parts += _pictures(first.path / "pictures")
    parts += [
        "<h2>Run</h2>",
        _folded("Config", first.config),
        _folded("Environment", json.dumps(first.environment, indent=2)),
        _folded(f"Log, the last {len(first.log)} lines", "\n".join(first.log)),
    ]
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    head = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{_say(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
    )
    write_text(output, head + "\n".join(parts) + "</body></html>\n")
    return output


def _about(run: _Run) -> str:
    last = run.steps[-1] if run.steps else None
    words = [] if last is None else [f"{last['step']} steps"]
    seconds = [line["seconds"] for line in run.steps if line.get("seconds")]
    if seconds:
        middle = sorted(seconds)[len(seconds) // 2]
        waits = [line["wait"] / line["seconds"] for line in run.steps if line.get("seconds")]
        words.append(f"{middle:.3g} s a step (median), {sum(waits) / len(waits):.0%} of it waiting for data")
    return f"<p>{_say(', '.join(words))}</p>" if words else "<p>No step has been logged yet.</p>"


def _figures(figures: dict[str, Any]) -> str:
    """Those of the whole set, and those of classes folded away."""
    if not figures:
        return "<p>Nothing has been evaluated yet.</p>"
    whole = {name: value for name, value in figures.items() if "/" not in name}
    classes = {name: value for name, value in figures.items() if "/" in name}
    more = f"<details><summary>{len(classes)} of classes and sets</summary>{_table(classes)}</details>"
    return _table(whole) + (more if classes else "")


def _table(figures: dict[str, Any]) -> str:
    rows = (f'<tr><td>{_say(k)}</td><td class="number">{_number(v)}</td></tr>' for k, v in figures.items())
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def _comparison(runs: Sequence[_Run]) -> str:
    names = list(dict.fromkeys(name for run in runs for name in run.figures if "/" not in name))
    head = "".join(f"<th>{_say(name)}</th>" for name in ["run", *names])
    rows = []
    for run in runs:
        cells = "".join(f'<td class="number">{_number(run.figures.get(name))}</td>' for name in names)
        rows.append(f"<tr><td>{_say(run.name)}</td>{cells}</tr>")
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _curves(runs: Sequence[_Run]) -> list[Curves]:
    """Loss, learning rate and speed, and each figure of the evaluations; of several runs in the same plots."""
    plots = [_of_steps(runs, "loss", "Loss", "loss")]
    terms = list(dict.fromkeys(name for line in runs[0].steps for name in line.get("losses", ())))
    if len(terms) > 1:
        of_term = {name: _points(runs[0].steps, lambda line, name=name: line["losses"].get(name)) for name in terms}
        plots.append(Curves("Loss by term", "step", "loss", of_term))
    plots.append(_of_steps(runs, "lr", "Learning rate", "rate"))
    plots.append(_of_steps(runs, "seconds", "Seconds a step", "seconds"))
    names = dict.fromkeys(n for run in runs for line in run.evaluations for n in line["figures"] if "/" not in n)
    for name in [n for n in names if n not in ("step", "epoch", "skipped")]:
        series = {run.name: _points(run.evaluations, lambda line, n=name: line["figures"].get(n)) for run in runs}
        plots.append(Curves(name, "step", name, series, marks=True))
    return [plot for plot in plots if any(len(xs) for xs, _ in plot.series.values())]


def _of_steps(runs: Sequence[_Run], key: str, title: str, y: str) -> Curves:
    return Curves(title, "step", y, {run.name: _points(run.steps, lambda line: line.get(key)) for run in runs})


def _points(lines: Sequence[dict[str, Any]], value: Any) -> tuple[list[float], list[float | None]]:
    return [line["step"] for line in lines], [value(line) for line in lines]


def _of_set(name: str, plot: Plot) -> Plot:
    return replace(plot, title=f"{name}: {plot.title}") if name else plot


def _grid(plots: Sequence[Plot]) -> str:
    if not plots:
        return "<p>Nothing has been logged yet.</p>"
    return '<div class="grid">' + "".join(f"<figure>{svg(plot)}</figure>" for plot in plots) + "</div>"


def _pictures(folder: Path) -> list[str]:
    """The pictures of a folder, small, or what was told in text; those of `worst` come with their captions."""
    parts = []
    for title, place in (("Pictures", folder), ("Worst", folder / "worst")):
        words = _json(place / "worst.json")
        shown = [_figure(path, str(words.get(path.name, ""))) for path in sorted(place.glob("*.jpg"))[:_PICTURES]]
        if shown := [figure for figure in shown if figure]:
            parts += [f"<h2>{title}</h2>", f'<div class="grid">{"".join(shown)}</div>']
    text = _text(folder / "examples.txt")
    return parts + ([f"<h2>Examples</h2><pre>{_say(text[:100_000])}</pre>"] if text else [])


def _figure(path: Path, caption: str) -> str:
    image = cv2.imread(str(path))
    if image is None:
        return ""
    factor = _WIDTH / image.shape[1]
    if factor < 1:
        image = cv2.resize(image, (_WIDTH, max(1, round(image.shape[0] * factor))), interpolation=cv2.INTER_AREA)
    done, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    if not done:
        raise DataError(f"{path}: cannot be written as a JPEG")
    source = f"data:image/jpeg;base64,{base64.b64encode(data.tobytes()).decode()}"
    words = f"{path.name}{': ' if caption else ''}{caption}"
    return f'<figure><img alt="{_say(path.name)}" src="{source}"><figcaption>{_say(words)}</figcaption></figure>'


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{_say(title)}</summary><pre>{_say(text)}</pre></details>"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else "" if value is None else _say(str(value))


def _say(text: str) -> str:
    return html.escape(text)


def _text(path: Path) -> str:
    """A text file; nothing where there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace")


def _json(path: Path) -> dict[str, Any]:
    """A JSON object; an empty one where there is no file. CheckpointError for a damaged one."""
    text = _text(path)
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CheckpointError(f"{path}: is damaged ({error}); evaluate the run again") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: holds no JSON object; evaluate the run again")
    return found
