"""Plots as plain data, which suites make of an evaluation, and as SVG pictures for a page."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from framework.errors import CheckpointError

_MOST_POINTS = 500  # of a curve: more are not seen
_MOST_NAMED = 40  # rows of a matrix whose numbers can be read
_MOST_CURVES = 20  # in one plot


@dataclass(frozen=True)
class Curves:
    """Lines over one axis.

    Attributes:
        title, x, y: of the plot and its axes.
        series: (xs, ys) by name; a y that is null is a gap.
        marks: whether points are marked, of a few that are measured now and then.
    """

    title: str
    x: str
    y: str
    series: Mapping[str, tuple[Sequence[float], Sequence[float | None]]]
    marks: bool = False


@dataclass(frozen=True)
class Matrix:
    """How often what is true was taken for what.

    Attributes:
        title: of the plot.
        names: K classes.
        counts: [K, K], row true class, column predicted class.
    """

    title: str
    names: Sequence[str]
    counts: Sequence[Sequence[int]]


Plot = Curves | Matrix
_KINDS: dict[str, type[Plot]] = {"curves": Curves, "matrix": Matrix}


def to_plain(plot: Plot) -> dict[str, Any]:
    """A plot as JSON has it."""
    kind = next(name for name, each in _KINDS.items() if type(plot) is each)
    plain = asdict(plot)
    if isinstance(plot, Curves):
        plain["series"] = {name: [list(xs), list(ys)] for name, (xs, ys) in plot.series.items()}
    return {"kind": kind, **plain}


def from_plain(value: Any) -> Plot:
    """The plot of `to_plain`; CheckpointError for anything else."""
    try:
        given = dict(value)
        return _KINDS[given.pop("kind")](**given)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"plots.json: holds no plot ({type(error).__name__}: {error})") from None


def svg(plot: Plot) -> str:
    """The plot as an `<svg>` element, the same bytes for the same plot.

    Raises ImportError where matplotlib is missing.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: Any = {"svg.hashsalt": "paddock", "svg.fonttype": "none", "font.size": 9.0, "axes.spines.top": False}
    with matplotlib.rc_context({**style, "axes.spines.right": False, "text.parse_math": False}):
        figure = Figure(figsize=(5.2, 3.4) if isinstance(plot, Curves) else _matrix_size(plot), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.set_title(plot.title)
        if isinstance(plot, Curves):
            _draw_curves(axes, plot)
        else:
            _draw_matrix(axes, plot)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return text[text.index("<svg") :]


def _matrix_size(plot: Matrix) -> tuple[float, float]:
    side = min(9.0, 2.6 + 0.32 * len(plot.names))
    return side + 0.6, side


def _draw_curves(axes: Any, plot: Curves) -> None:
    shown = dict(list(plot.series.items())[:_MOST_CURVES])
    for name, (xs, ys) in shown.items():
        step = max(1, len(xs) // _MOST_POINTS)
        values = [np.nan if y is None else y for y in ys[::step]]
        axes.plot(xs[::step], values, label=name, linewidth=1.2, marker="." if plot.marks else None)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.grid(alpha=0.3)
    if len(shown) > 1:
        axes.legend(fontsize=7, ncols=1 + len(shown) // 8)


def _draw_matrix(axes: Any, plot: Matrix) -> None:
    counts = np.asarray(plot.counts, np.float64)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    if len(plot.names) > _MOST_NAMED:
        return
    axes.set_xticks(range(len(plot.names)), plot.names, rotation=90)
    axes.set_yticks(range(len(plot.names)), plot.names)
    for (row, column), share in np.ndenumerate(shares):
        if share >= 0.005:
            colour = "white" if share > 0.5 else "black"
            axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=6, color=colour)
