"""Texts written word by word: search and sampling over any model that tells the next word."""

from suites.nlp.writing.search import Hypothesis, Search
from suites.nlp.writing.writer import Limits, Prompt, Writer, steps

__all__ = ["Hypothesis", "Limits", "Prompt", "Search", "Writer", "steps"]
