"""Metric learning: networks that give pictures vectors, of which those of one class lie near each other.

Every class that a config of the suite can name is here: `from suites.retrieval import ...`.
"""

from suites.engine.lazy import components

__getattr__, __dir__ = components("retrieval", data="suites.retrieval.settings")
