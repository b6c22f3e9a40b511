"""Plots as plain data, which suites make of an evaluation, and as SVG pictures for a page."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from framework.errors import CheckpointError

_MOST_POINTS = 500  # of a curve: more are not seen
_MOST_NAMED = 40  # rows of a matrix whose numbers can be read
_MOST_CURVES = 20  # in one plot
_SHOWN = 8  # classes in a line
_TITLE = 46  # characters in a line of a title
_MOST_TICKS, _LEAST_BARS = 9, 6  # names below bars; bars that a plot has room for at least


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


def never_predicted(plots: Iterable[Plot]) -> str:
    """Which classes no prediction named although samples have them, by the confusions among some plots, in one line."""
    names = [
        str(plot.names[column])
        for plot in plots
        if isinstance(plot, Matrix)
        for column, row in enumerate(plot.counts)
        if column < len(row)
        and any(row)
        and not str(plot.names[column]).startswith("(")  # such as "(background)"
        and not any(each[column] for each in plot.counts if column < len(each))
    ]
    names = list(dict.fromkeys(names))
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"never predicted, though the evaluation set has them: {', '.join(names[:_SHOWN])}{more}"


@dataclass(frozen=True)
class Bars:
    """Shares of some ranges or names, a bar each; several series stand side by side.

    Attributes:
        title, x: of the plot and its axis.
        names: B of the bars, in order.
        counts: [B] by series; each series is drawn as shares of its sum.
    """

    title: str
    x: str
    names: Sequence[str]
    counts: Mapping[str, Sequence[float]]


Plot = Curves | Matrix | Bars
_KINDS: dict[str, type[Plot]] = {"curves": Curves, "matrix": Matrix, "bars": Bars}


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
        plot = _KINDS[given.pop("kind")](**given)
        _check(plot)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"plots.json: holds no plot ({type(error).__name__}: {error})") from None
    return plot


def _check(plot: Plot) -> None:
    """ValueError or TypeError for what cannot be drawn."""
    if not isinstance(plot.title, str):
        raise TypeError("the title is no text")
    if isinstance(plot, Matrix):
        if np.asarray(plot.counts, np.float64).shape != (len(plot.names), len(plot.names)):
            raise ValueError(f"counts are not {len(plot.names)} x {len(plot.names)}")
    elif isinstance(plot, Bars):
        for counts in plot.counts.values():
            if np.asarray(counts, np.float64).shape != (len(plot.names),):
                raise ValueError(f"counts are not {len(plot.names)}")
    else:
        for xs, ys in plot.series.values():
            if np.asarray(xs, np.float64).shape != np.asarray(ys, np.float64).shape:
                raise ValueError("a curve has other x than y")


def svg(plot: Plot) -> str:
    """The plot as an `<svg>` element, the same bytes for the same plot.

    Raises ImportError where matplotlib is missing.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: Any = {"svg.hashsalt": "paddock", "svg.fonttype": "none", "font.size": 9.0, "axes.spines.top": False}
    with matplotlib.rc_context({**style, "axes.spines.right": False, "text.parse_math": False}):
        figure = Figure(figsize=_matrix_size(plot) if isinstance(plot, Matrix) else (5.2, 3.4), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.set_title(textwrap.fill(plot.title, _TITLE))
        if isinstance(plot, Curves):
            _draw_curves(axes, plot)
        elif isinstance(plot, Bars):
            _draw_bars(axes, plot)
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


def _draw_bars(axes: Any, plot: Bars) -> None:
    width = 0.8 / max(len(plot.counts), 1)
    for place, (name, counts) in enumerate(plot.counts.items()):
        shares = 100 * np.asarray(counts, np.float64) / max(float(np.sum(counts)), 1.0)
        at = np.arange(len(shares)) + width * (place - (len(plot.counts) - 1) / 2)
        axes.bar(at, shares, width, label=name)
    step = max(1, -(-len(plot.names) // _MOST_TICKS))
    axes.set_xlim(-0.6, max(len(plot.names), _LEAST_BARS) - 0.4)
    axes.set_xticks(range(0, len(plot.names), step), plot.names[::step])
    axes.set_xlabel(plot.x)
    axes.set_ylabel("% of each set" if len(plot.counts) > 1 else "%")
    axes.grid(alpha=0.3, axis="y")
    if len(plot.counts) > 1:
        axes.legend(fontsize=7)


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
