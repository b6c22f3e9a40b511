"""Reading text in pictures: finding lines, turning them upright, reading them. Data sets, models, losses and metrics.

Every class that a config of the suite can name is here: `from suites.ocr import ...`.
"""

from suites.engine.lazy import components

__getattr__, __dir__ = components("ocr", data="suites.ocr.settings")
