"""What a run shows of itself: figures, plots, single cases, what its data held, and a page of all of it."""

from suites.engine.reporting.case import Case, Marked
from suites.engine.reporting.plots import Bars, Curves, Matrix, Plot
from suites.engine.reporting.tally import Tally

__all__ = ["Bars", "Case", "Curves", "Marked", "Matrix", "Plot", "Tally"]
