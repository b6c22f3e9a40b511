#!/usr/bin/env python3
"""Claim: training with Winograd convolutions goes as with direct ones: the curves of the demo, side by side.

    python benchmarks/winograd_vs_direct.py [--steps N] [--picture docs/pictures/winograd_vs_direct.svg]

Trains configs/detection/yolov3_demo.yml, with 800 scenes an epoch, twice from the same start on the same batches,
with `runtime.conv_algorithm` auto and direct, and draws loss and AP50. The first losses agree to about 1e-7; then
rounding takes the two apart, as any change of rounding does, and they stay on the same curve. Runs are kept in `--runs`
and not repeated.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import ROOT

from suites.engine.train.hooks import Hook
from suites.engine.train.loop import TrainingLoop
from suites.engine.train.training import train

CONFIG = ROOT / "configs" / "detection" / "yolov3_demo.yml"
COLOURS = {"auto": "#c03020", "direct": "#2050b0"}
NAMES = {"auto": "Winograd", "direct": "direct"}
SMOOTH = 20  # steps that a point of the drawn loss is the mean of
WIDTH, HEIGHT, MARGIN = 520, 320, 48


class Curve(Hook):
    """Keeps every step's loss and every evaluation's AP50."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.figures: list[tuple[int, float]] = []

    def after_step(self, loop: TrainingLoop) -> None:
        """Keep the loss."""
        self.losses.append(sum(loop.losses.values()))

    def after_evaluation(self, loop: TrainingLoop, metrics: Mapping[str, float]) -> None:
        """Keep AP50."""
        self.figures.append((loop.step, metrics["AP50"]))


def run(algorithm: str, steps: int | None, runs: Path) -> dict:
    """Train with one algorithm, or read what an earlier run left: {"losses": [...], "ap50": [[step, AP50], ...]}."""
    kept = runs / f"{algorithm}.json"
    if not kept.exists():
        curve = Curve()
        # Short epochs, for more points of AP50: one every 50 steps.
        overrides = [f"runtime.conv_algorithm={algorithm}", "data.train.dataset.length=800"]
        overrides += [] if steps is None else [f"runtime.steps={steps}"]
        train(CONFIG, overrides, runs=runs, name=algorithm, overwrite=True, hooks=[curve])
        kept.write_text(json.dumps({"losses": curve.losses, "ap50": curve.figures}))
    return json.loads(kept.read_text())


@dataclass
class Panel:
    """One chart of the picture: lines over steps, drawn into SVG."""

    title: str
    left: float
    steps: int
    top: float
    lines: list[str] = field(default_factory=list)

    def place(self, step: float, value: float) -> tuple[float, float]:
        """The pixel of a point."""
        x = self.left + MARGIN + (WIDTH - 2 * MARGIN) * step / self.steps
        return x, HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * min(value / self.top, 1.0)

    def axes(self) -> None:
        """Frame, ticks and title."""
        (x0, y0), (x1, y1) = self.place(0, 0), self.place(self.steps, self.top)
        self.lines.append(f'<path d="M{x0:.0f} {y1:.0f}V{y0:.0f}H{x1:.0f}" fill="none" stroke="#888"/>')
        self.text((x0 + x1) / 2, y1 - 14, self.title)
        for part in range(5):
            x, y = self.place(self.steps * part / 4, self.top * part / 4)
            self.text(x, y0 + 18, f"{self.steps * part / 4:.0f}")
            self.text(x0 - 22, y + 4, f"{self.top * part / 4:.3g}")

    def text(self, x: float, y: float, text: str, colour: str = "#444") -> None:
        """A centred word."""
        self.lines.append(f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}" text-anchor="middle">{text}</text>')

    def curve(self, points: Sequence[tuple[float, float]], algorithm: str, rank: int) -> None:
        """A line, with its name."""
        pixels = " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.place(*p) for p in points))
        colour = COLOURS[algorithm]
        self.lines.append(f'<polyline points="{pixels}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        self.text(self.left + WIDTH - 100, HEIGHT / 2 + 18 * rank, NAMES[algorithm], colour)


def draw(curves: Mapping[str, dict], path: Path) -> None:
    """Write loss and AP50 of all curves side by side as an SVG picture."""
    steps = max(len(c["losses"]) for c in curves.values())
    smooth = {name: smoothed(c["losses"]) for name, c in curves.items()}
    loss = Panel(f"loss, mean of {SMOOTH} steps", 0, steps, max(value for _, value in smooth["direct"][1:]))
    figure = Panel("AP50 on held-out scenes", WIDTH, steps, 1.0)
    for panel in (loss, figure):
        panel.axes()
    for rank, (name, c) in enumerate(curves.items()):
        loss.curve(smooth[name], name, rank)
        figure.curve([(0, 0.0), *map(tuple, c["ap50"])], name, rank)
    body = "\n".join([*loss.lines, *figure.lines])
    size = f'width="{2 * WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12"'
    path.parent.mkdir(parents=True, exist_ok=True)
    paper = '<rect width="100%" height="100%" fill="#fff"/>'
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{paper}\n{body}\n</svg>\n')


def smoothed(losses: Sequence[float]) -> list[tuple[float, float]]:
    """(step, mean loss of the SMOOTH steps that end there)."""
    return [(i + SMOOTH, sum(losses[i : i + SMOOTH]) / SMOOTH) for i in range(0, len(losses) - SMOOTH + 1, SMOOTH // 2)]


def main(words: list[str] | None = None) -> None:
    """Train both, draw, and print how far apart they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, help="default: those of the config, minutes each")
    parser.add_argument("--only", choices=list(NAMES), help="train this one only and draw nothing")
    parser.add_argument("--runs", type=Path, default=Path("runs/curves"), help="where runs are kept (runs/curves)")
    parser.add_argument("--picture", type=Path, default=Path("runs/curves/winograd_vs_direct.svg"))
    a = parser.parse_args(words)
    a.runs.mkdir(parents=True, exist_ok=True)
    if a.only:
        run(a.only, a.steps, a.runs)
        return
    curves = {name: run(name, a.steps, a.runs) for name in NAMES}
    draw(curves, a.picture)
    for i in (0, 1, 10):
        first, second = (c["losses"][i] for c in curves.values())
        print(f"loss of step {i + 1}: {first:.7g} and {second:.7g}, apart by {abs(first / second - 1):.1e}")
    for name, c in curves.items():
        print(f"{NAMES[name]}: loss {smoothed(c['losses'])[-1][1]:.4g}, AP50 {c['ap50'][-1][1]:.4f} at the end")
    print(a.picture)


if __name__ == "__main__":
    main()
