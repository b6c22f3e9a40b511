"""Pictures that networks draw: from noise, from another picture, or by a class. Data sets, models, steps and figures.

Every class that a config of the suite can name is here: `from suites.generation import ...`.
"""

from suites.engine.lazy import components

__getattr__, __dir__ = components("generation", data="suites.vision.settings")
