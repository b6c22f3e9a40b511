"""What is asked of a text: a class, a number, a tag for each word, the answer to a question, a vector, hidden words,
another text, how a text goes on."""

from suites.nlp.problems.base import Problem
from suites.nlp.problems.both_ways import BiLanguageModeling
from suites.nlp.problems.chain import ChainTagging
from suites.nlp.problems.classification import Classification, Regression
from suites.nlp.problems.language_modeling import LanguageModeling
from suites.nlp.problems.lexical import LexicalAnalysis
from suites.nlp.problems.pretraining import FillMask, Pretraining
from suites.nlp.problems.reading import Reading
from suites.nlp.problems.reranking import Reranking
from suites.nlp.problems.sentence_vectors import SentenceVectors
from suites.nlp.problems.tagging import Tagging
from suites.nlp.problems.text_to_text import TextToText
from suites.nlp.problems.vectors import Vectors

__all__ = [
    "BiLanguageModeling",
    "ChainTagging",
    "Classification",
    "FillMask",
    "LanguageModeling",
    "LexicalAnalysis",
    "Pretraining",
    "Problem",
    "Reading",
    "Regression",
    "Reranking",
    "SentenceVectors",
    "Tagging",
    "TextToText",
    "Vectors",
]
