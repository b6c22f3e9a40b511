"""Models that write with a cache of pages, for a generation engine."""

from suites.nlp.models.paged.kinds import Kind, kind_of
from suites.nlp.models.paged.language import PagedSteps
from suites.nlp.models.paged.recurrent import PagedRnn, PagedStates
from suites.nlp.models.paged.translating import PagedPairs

__all__ = ["Kind", "PagedPairs", "PagedRnn", "PagedStates", "PagedSteps", "kind_of"]
