"""Click-through rates: declared features of a log, models from LR to DIEN, and the figures of the field.

Every class that a config of the suite can name is here: `from suites.ctr import ...`.
"""

from suites.engine.lazy import components

__getattr__, __dir__ = components("ctr", data="suites.ctr.settings")
