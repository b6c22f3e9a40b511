"""Object detection: data sets, augmentation, models, losses and metrics.

Every class that a config of the suite can name is here: `from suites.detection import ...`.
"""

from suites.engine.lazy import components

__getattr__, __dir__ = components("detection", data="suites.vision.settings")
