"""What is asked of a text: a class, a number, a tag for each word, the answer to a question, a vector, hidden words."""

from suites.nlp.problems.base import Problem
from suites.nlp.problems.chain import ChainTagging
from suites.nlp.problems.classification import Classification, Regression
from suites.nlp.problems.pretraining import FillMask, Pretraining
from suites.nlp.problems.reading import Reading
from suites.nlp.problems.tagging import Tagging
from suites.nlp.problems.vectors import Vectors

__all__ = [
    "ChainTagging",
    "Classification",
    "FillMask",
    "Pretraining",
    "Problem",
    "Reading",
    "Regression",
    "Tagging",
    "Vectors",
]
