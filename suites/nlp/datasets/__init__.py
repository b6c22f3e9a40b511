"""Text data sets: rows of labelled texts or pairs, sentences with a tag for each word, questions on passages."""

from suites.nlp.datasets.base import Labelled, Question, Tagged, TextDataset
from suites.nlp.datasets.passages import SquadJson
from suites.nlp.datasets.rows import JsonLines, Tsv
from suites.nlp.datasets.tags import CharTags, TaggedTsv

__all__ = [
    "CharTags",
    "JsonLines",
    "Labelled",
    "Question",
    "SquadJson",
    "Tagged",
    "TaggedTsv",
    "TextDataset",
    "Tsv",
]
