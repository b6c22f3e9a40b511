"""Points of objects in pictures: people, faces, animals. Data sets, transforms, models and metrics.

Every class that a config of the suite can name is here: `from suites.keypoints import ...`.
"""

from suites.engine.lazy import components

__getattr__, __dir__ = components("keypoints", data="suites.vision.settings")
