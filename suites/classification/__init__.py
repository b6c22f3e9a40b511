"""Image classification: one label an image.

Every class that a config of the suite can name is here: `from suites.classification import ...`.
"""

from suites.engine.lazy import components

__getattr__, __dir__ = components("classification", data="suites.vision.settings")
