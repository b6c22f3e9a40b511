"""WordPiece tokenizers, by the `tokenizers` library: BERT's (exact to Hugging Face's, spans too) and ERNIE's.

BERT: clean the text, put spaces around Chinese characters, split at spaces and punctuation, then cut each word
greedily into the longest pieces of the vocabulary (Wu et al. 2016; Devlin et al. 2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from tokenizers import AddedToken, Regex
from tokenizers import Tokenizer as Engine
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer, Lowercase, Normalizer
from tokenizers.normalizers import Sequence as NormalizerSequence
from tokenizers.pre_tokenizers import BertPreTokenizer, PreTokenizer, Split

from framework.errors import DataError
from suites.engine.registry import register
from suites.nlp.tokenizers.base import Tokenizer, Tokens, kept, read_vocabulary

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_NEEDED = ("[UNK]", "[CLS]", "[SEP]")
_LONGEST_WORD = 100  # characters; a longer one is unknown, as in BERT's own code
Self = TypeVar("Self", bound="_WordPieceTokenizer")


class _WordPieceTokenizer(Tokenizer):
    """What both have: a vocabulary, the special tokens in it, and the library's engine."""

    def __init__(self, vocabulary: Sequence[str], normalizer: Normalizer | None, splitter: PreTokenizer) -> None:
        """Args: tokens by number, what is done to a text, what cuts it to words."""
        self.vocabulary = vocabulary
        numbers = {token: number for number, token in enumerate(vocabulary) if token}
        missing = [token for token in _NEEDED if token not in numbers]
        if missing:
            raise DataError(
                f"{self.kind} tokenizer: the vocabulary of {len(vocabulary)} tokens lacks {', '.join(missing)}; "
                "is it one of a BERT or ERNIE model?"
            )
        self.unknown, self.opening, self.closing = (numbers[token] for token in _NEEDED)
        self.mask = numbers.get("[MASK]")
        model = WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=_LONGEST_WORD)
        self._engine = Engine(model)
        if normalizer is not None:
            self._engine.normalizer = normalizer
        self._engine.pre_tokenizer = splitter
        found = [token for token in _SPECIAL if token in numbers]
        self._engine.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in found])

    def _encode(self, texts: list[str]) -> list[Tokens]:
        encodings = self._engine.encode_batch(texts, add_special_tokens=False)
        return [Tokens(np.array(e.ids, np.int64), np.array(e.offsets, np.int64).reshape(-1, 2)) for e in encodings]

    def encode_words(self, words: Sequence[str]) -> list[np.ndarray]:
        """The ids of each word, int64 [1 or more]."""
        return [t.ids if len(t.ids) else np.array([self.unknown], np.int64) for t in self.encode(words)]

    @classmethod
    def restore(cls: type[Self], state: dict[str, Any]) -> Self:
        """The tokenizer that `state` describes."""
        return cls(**state)


@kept
@register("tokenizer", "BertTokenizer")
class BertTokenizer(_WordPieceTokenizer):
    """BERT's tokenizer, also of ERNIE 1.0, 2.0 and 3.0 as Hugging Face has them.

    Args:
        vocabulary: file with a token a line (or `token<TAB>number`), or the tokens themselves.
        lower_case: for "uncased" models and the Chinese ones.
        strip_accents: take accents off; null does so where `lower_case` is set.
        chinese_characters: each Chinese character is a word.
    """

    kind: ClassVar[str] = "bert"

    def __init__(
        self,
        vocabulary: str | list[str],
        lower_case: bool = True,
        strip_accents: bool | None = None,
        chinese_characters: bool = True,
    ) -> None:
        self._options = {
            "lower_case": lower_case,
            "strip_accents": strip_accents,
            "chinese_characters": chinese_characters,
        }
        normalizer = BertNormalizer(
            clean_text=True,
            handle_chinese_chars=chinese_characters,
            strip_accents=strip_accents,
            lowercase=lower_case,
        )
        tokens = read_vocabulary(vocabulary) if isinstance(vocabulary, str) else vocabulary
        super().__init__(tokens, normalizer, BertPreTokenizer())

    def state(self) -> dict[str, Any]:
        """Vocabulary and options."""
        return {"vocabulary": list(self.vocabulary), **self._options}


@kept
@register("tokenizer", "ErnieTokenizer")
class ErnieTokenizer(_WordPieceTokenizer):
    """The tokenizer of Baidu's ERNIE kit: words are runs of Latin letters and digits, all else single characters.

    Unlike BERT's it neither cleans the text nor takes accents off, and splits `caf\u00e9` into `caf` and `\u00e9`.

    Args:
        vocabulary: file with `token<TAB>number` lines (or a token a line), or the tokens themselves.
        lower_case: as all published ERNIE models.
    """

    kind: ClassVar[str] = "ernie"

    def __init__(self, vocabulary: str | list[str], lower_case: bool = True) -> None:
        self._lower_case = lower_case
        tokens = read_vocabulary(vocabulary) if isinstance(vocabulary, str) else vocabulary
        normalizer = NormalizerSequence([Lowercase()]) if lower_case else None
        super().__init__(tokens, normalizer, Split(Regex(r"[a-zA-Z0-9]+|\S"), behavior="removed", invert=True))

    def state(self) -> dict[str, Any]:
        """Vocabulary and options."""
        return {"vocabulary": list(self.vocabulary), "lower_case": self._lower_case}
