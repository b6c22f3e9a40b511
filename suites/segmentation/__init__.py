"""Semantic segmentation: a class for every pixel. Data sets, augmentation, models, losses and metrics.

Every class that a config of the suite can name is here: `from suites.segmentation import ...`.
"""

from suites.engine.lazy import components

__getattr__, __dir__ = components("segmentation", data="suites.vision.settings")
