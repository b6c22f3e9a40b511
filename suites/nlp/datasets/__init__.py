"""Text data sets: rows of labelled texts or pairs, sentences with a tag for each word, questions on
passages, plain documents, pairs to write one text from the other."""

from suites.nlp.datasets.base import Document, Labelled, Pair, Passage, Question, Sentence, Tagged, TextDataset
from suites.nlp.datasets.dialogues import Dialogues
from suites.nlp.datasets.documents import Documents
from suites.nlp.datasets.knowledge_dialogues import KnowledgeDialogues
from suites.nlp.datasets.pairs import DrawnPairs, Pairs
from suites.nlp.datasets.passages import SquadJson
from suites.nlp.datasets.prose import Prose
from suites.nlp.datasets.rows import Csv, JsonLines, TextLines, Tsv
from suites.nlp.datasets.tags import CharTags, TaggedTsv
from suites.nlp.datasets.texts import Texts

__all__ = [
    "CharTags",
    "Csv",
    "Dialogues",
    "Document",
    "Documents",
    "DrawnPairs",
    "JsonLines",
    "KnowledgeDialogues",
    "Labelled",
    "Pair",
    "Pairs",
    "Passage",
    "Prose",
    "Question",
    "Sentence",
    "SquadJson",
    "Tagged",
    "TaggedTsv",
    "TextDataset",
    "TextLines",
    "Texts",
    "Tsv",
]
