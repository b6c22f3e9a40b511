"""Networks of points."""
