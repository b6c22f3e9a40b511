"""Video classification: one label a clip.

Every class that a config of the suite can name is here: `from suites.video import ...`.
"""

from suites.engine.lazy import components

__getattr__, __dir__ = components("video", data="suites.vision.settings")
