"""SentencePieceTokenizer: the tokenizer of ERNIE-Tiny, by the `sentencepiece` library (Kudo and Richardson 2018)."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from framework.errors import DataError
from suites.engine.data.sources import read_file
from suites.engine.registry import register
from suites.engine.weights.pretrained import with_names
from suites.nlp.tokenizers.base import Tokenizer, Tokens, kept, read_vocabulary
from suites.nlp.tokenizers.segmentation import Segmenter, read_dictionary

_SPECIAL = ("[UNK]", "[CLS]", "[SEP]")
_SPACE = "\u2581"  # how sentencepiece writes the space before a word


@kept
@register("tokenizer", "SentencePieceTokenizer")
class SentencePieceTokenizer(Tokenizer):
    """Chinese words by a dictionary, each cut to the most probable pieces of a unigram model.

    Args:
        model: the sentencepiece model file, such as `spm_cased_simp_sampled.model`.
        vocabulary: file with a token a line or `token<TAB>number`; null takes the model's own numbers.
        dictionary: text file with a word a line, or `dict.wordseg.pickle`, by whose longest matches the text is cut
            before the model sees it; null leaves the text as it is.
        window: characters of the longest word that is looked up.
        lower_case: as ERNIE-Tiny does.
    """

    kind: ClassVar[str] = "sentencepiece"

    def __init__(
        self,
        model: str,
        vocabulary: str | None = None,
        dictionary: str | None = None,
        window: int = 5,
        lower_case: bool = True,
    ) -> None:
        words = read_dictionary(with_names(dictionary)) if dictionary is not None else None
        tokens = read_vocabulary(vocabulary) if vocabulary is not None else None
        self._build(model, read_file(with_names(model), "text_bytes"), tokens, words, window, lower_case)

    def _build(
        self, who: str, model: bytes, tokens: list[str] | None, words: list[str] | None, window: int, lower_case: bool
    ) -> None:
        from sentencepiece import SentencePieceProcessor

        self._model = model
        try:
            self._processor = SentencePieceProcessor(model_proto=model)
            pieces = [self._processor.IdToPiece(i) for i in range(self._processor.GetPieceSize())]
        except (RuntimeError, UnicodeDecodeError) as error:
            raise DataError(f"{who}: is no sentencepiece model ({error})") from None
        self._words = words
        self._window = window
        self._segmenter = Segmenter(words, window) if words is not None else None
        self._lower_case = lower_case
        self.vocabulary = tokens if tokens is not None else pieces
        self._numbers = {token: number for number, token in enumerate(self.vocabulary) if token}
        unknown, opening, closing = (self._number_of(token) for token in _SPECIAL)
        if unknown is None:
            unknown = self._processor.unk_id()
        self.unknown, self.opening, self.closing = unknown, opening, closing

    def _number_of(self, token: str) -> int | None:
        plain = {"[UNK]": "<unk>", "[CLS]": "<s>", "[SEP]": "</s>"}[token]
        return self._numbers.get(token, self._numbers.get(plain))

    def _encode(self, texts: list[str]) -> list[Tokens]:
        return [self._tokens(text) for text in texts]

    def _tokens(self, text: str) -> Tokens:
        cased = text.lower() if self._lower_case and len(text.lower()) == len(text) else text
        parts = self._segmenter(cased) if self._segmenter else [(0, len(cased))]
        ids: list[int] = []
        spans: list[tuple[int, int]] = []
        joined = " ".join(cased[start:end] for start, end in parts)
        places = [place for start, end in parts for place in (*range(start, end), end)][:-1]
        found = self._processor.encode_as_offset_mapping(joined)
        for piece, (first, end) in zip(found["pieces"], found["offsets"], strict=True):
            while first < end and joined[first] == " ":  # a piece holds the space before it
                first += 1
            ids.append(self._numbers.get(piece, self.unknown))
            start = places[min(first, len(places) - 1)] if places else 0
            spans.append((start, places[end - 1] + 1 if first < end else start))
        return Tokens(np.array(ids, np.int64), np.array(spans, np.int64).reshape(-1, 2))

    def encode_words(self, words: Sequence[str]) -> list[np.ndarray]:
        """The number of each word as one piece, as at a word's start, else as inside one, else unknown; int64 [1]."""
        cased = [word.lower() if self._lower_case else word for word in words]
        found = [self._numbers.get(_SPACE + w, self._numbers.get(w, self.unknown)) for w in cased]
        return [np.array([number], np.int64) for number in found]

    def state(self) -> dict[str, Any]:
        """The model (base64), vocabulary, dictionary and options."""
        return {
            "model": base64.b64encode(self._model).decode(),
            "tokens": list(self.vocabulary),
            "words": self._words,
            "window": self._window,
            "lower_case": self._lower_case,
        }

    @classmethod
    def restore(cls, state: dict[str, Any]) -> SentencePieceTokenizer:
        """The tokenizer that `state` describes."""
        self = cls.__new__(cls)
        model = base64.b64decode(state["model"], validate=True)
        self._build("metadata", model, state["tokens"], state["words"], int(state["window"]), bool(state["lower_case"]))
        return self
