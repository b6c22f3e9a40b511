"""LexicalAnalysis: a sentence as words, each with its part of speech or the kind of its name (LAC)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.engine.contract.batch import Batch
from suites.engine.registry import register
from suites.nlp.datasets import Tagged
from suites.nlp.problems.chain import ChainTagging
from suites.nlp.user_words import UserWords

_INSIDE = "I-"


@register("problem")
class LexicalAnalysis(ChainTagging):
    """Words and their kinds by one tag for each character (Jiao et al. 2018, arXiv:1807.01882).

    A character whose tag begins with I goes on with the word before, whatever its kind; any other begins a word, whose
    kind is that of its first character. Spaces are characters, as in Baidu's LAC.

    Args:
        dictionary: lines of phrases that are cut as a user knows them, see `UserWords`; evaluation does not look at it.
    """

    def __init__(self, dictionary: Sequence[str] = ()) -> None:
        super().__init__("characters")
        self._dictionary = UserWords(dictionary, "problem.dictionary") if dictionary else None

    def parse(self, line: str) -> Tagged:
        """A sentence, all of its characters."""
        if not line:
            raise DataError("the text is empty")
        return Tagged(tuple(line))

    def results(
        self, outputs: Mapping[str, np.ndarray], batch: Batch, examples: Sequence[Tagged], classes: Sequence[str]
    ) -> list[dict[str, Any]]:
        """`words` of each sentence: text and kind."""
        tagged = super().results(outputs, batch, examples, classes)
        found = []
        for example, own in zip(examples, tagged, strict=True):
            tags = own["tags"]
            if self._dictionary is not None and len(tags) == len(example.words):
                tags = self._dictionary.applied(example.words, tags)
            found.append({"words": words_of(example.words, tags)})
        return found

    def describe(self, example: Tagged, result: dict[str, Any]) -> str:
        """The words, as `text/kind`."""
        return " ".join(f"{word['text']}/{word['kind']}" for word in result["words"])


def words_of(characters: Sequence[str], tags: Sequence[str]) -> list[dict[str, str]]:
    """The words that tags make of characters, one tag each."""
    words: list[dict[str, str]] = []
    for character, tag in zip(characters, tags, strict=True):
        if words and tag.startswith(_INSIDE):
            words[-1]["text"] += character
        else:
            words.append({"text": character, "kind": tag.removeprefix("B-").removeprefix(_INSIDE)})
    return words
