"""Text: classification, pairs, tagging and reading comprehension, on ragged batches without padding.

Every class that a config of the suite can name is here: `from suites.nlp import ...`.
"""

from suites.engine.lazy import components

__getattr__, __dir__ = components("nlp", data="suites.nlp.settings")
