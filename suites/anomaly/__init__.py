"""Defects found by networks that were shown good pictures alone: data sets, models, figures and heat maps.

Every class that a config of the suite can name is here: `from suites.anomaly import ...`.
"""

from suites.engine.lazy import components

__getattr__, __dir__ = components("anomaly", data="suites.vision.settings")
