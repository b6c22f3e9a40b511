"""What a run shows of itself: figures kept line by line, plots of a suite, and a page of both."""

from suites.engine.reporting.plots import Curves, Matrix, Plot

__all__ = ["Curves", "Matrix", "Plot"]
