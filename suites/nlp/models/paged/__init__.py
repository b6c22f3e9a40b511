"""Models that write with a cache of pages, for a generation engine."""

from suites.nlp.models.paged.language import PagedSteps
from suites.nlp.models.paged.translating import PagedPairs

__all__ = ["PagedPairs", "PagedSteps"]
