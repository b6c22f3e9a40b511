"""Tokenizers for models that write, learned from the training texts, whose ids become the text again: pieces of words,
and single characters."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE, Unigram

from framework.errors import AttributeValueError, DataError
from suites.engine.data.sources import read_file
from suites.engine.registry import register
from suites.engine.weights.pretrained import with_names
from suites.nlp.tokenizers.base import Tokenizer, Tokens, clean, kept

SPECIAL = ("<unk>", "<s>", "</s>")
_LONGEST = 1 << 30  # bytes of a text; sentencepiece leaves out longer ones without a word
_LEAST = 256 + len(SPECIAL)  # bytes
_MOST = 1 << 20  # pieces; the library takes room for all of them at once


@kept
@register("tokenizer", "SubwordTokenizer")
class SubwordTokenizer(Tokenizer):
    """Pieces of words, frequent ones whole, by the library `tokenizers`; 0 is unknown, 1 and 2 begin and end a text.

    Args:
        size: of the vocabulary at most, which is as many rows of an embedding.
        pieces: "bpe": bytes joined pair by pair (Sennrich et al. 2016), so that nothing is unknown; "unigram": the
            likeliest cut (Kudo 2018), where a character that was not seen in training is unknown.
        lower_case: take capital letters as small ones.
        vocabulary: file that `paddock data vocab` wrote; null learns it from the training texts.
    """

    kind: ClassVar[str] = "subwords"

    def __init__(
        self,
        size: int = 8000,
        pieces: Literal["bpe", "unigram"] = "bpe",
        lower_case: bool = False,
        vocabulary: str | None = None,
    ) -> None:
        if not _LEAST <= size <= _MOST:
            raise AttributeValueError(f"SubwordTokenizer: size is {size}; it must lie between {_LEAST} and {_MOST}")
        self._size, self._pieces, self._lower_case = size, pieces, lower_case
        self.unknown, self.opening, self.closing = range(len(SPECIAL))
        self.vocabulary: list[str] = []
        self._engine = self._new()
        if vocabulary is not None:
            self._read(read_file(with_names(vocabulary), "text_bytes"), vocabulary)

    def _new(self) -> Engine:
        bytewise = self._pieces == "bpe"
        engine = Engine(BPE() if bytewise else Unigram())
        if self._lower_case:
            engine.normalizer = normalizers.Lowercase()
        engine.pre_tokenizer = (
            pre_tokenizers.ByteLevel(add_prefix_space=True) if bytewise else pre_tokenizers.Metaspace()
        )
        engine.decoder = decoders.ByteLevel() if bytewise else decoders.Metaspace()
        return engine

    @property
    def size(self) -> int:
        """Rows that an embedding needs: `size`, known before the vocabulary is."""
        return self._size

    def learn(self, texts: Iterable[str]) -> None:
        """Learn the pieces of `texts`, the same of the same texts; DataError where they hold none."""
        held = False

        def cleaned() -> Iterator[str]:
            nonlocal held
            for text in texts:
                held = held or bool(text.strip())
                yield clean(text)

        engine = self._new()
        if self._pieces == "bpe":
            alphabet = pre_tokenizers.ByteLevel.alphabet()
            trainer = trainers.BpeTrainer(
                vocab_size=self._size, special_tokens=list(SPECIAL), show_progress=False, initial_alphabet=alphabet
            )
            engine.train_from_iterator(cleaned(), trainer)
        else:
            normalize = engine.normalizer.normalize_str if engine.normalizer else str
            engine.model = Unigram(_likeliest([normalize(text) for text in cleaned()], self._size), 0)
            engine.add_special_tokens(list(SPECIAL))
        if not held:
            raise DataError("SubwordTokenizer: the training texts are empty, so there are no pieces to learn")
        self._take(engine)

    def _take(self, engine: Engine) -> None:
        self._engine = engine
        engine.encode_special_tokens = True  # "</s>" in a text is a text, and ends none
        numbers = engine.get_vocab(with_added_tokens=True)
        self.vocabulary = [token for token, _ in sorted(numbers.items(), key=lambda item: item[1])]

    def _read(self, data: bytes, where: str) -> None:
        try:
            engine = Engine.from_str(data.decode("utf-8"))
            numbers = engine.get_vocab(with_added_tokens=True)
        except Exception as error:  # the library raises no other
            raise DataError(f"{where}: is no vocabulary that `paddock data vocab` wrote ({str(error)[:100]})") from None
        if tuple(numbers.get(token) for token in SPECIAL) != tuple(range(len(SPECIAL))):
            raise DataError(f"{where}: begins not with {', '.join(SPECIAL)}; make it by `paddock data vocab`")
        if len(numbers) > self._size:
            raise DataError(f"{where}: has {len(numbers)} pieces but size is {self._size}; raise size")
        self._take(engine)

    def _encode(self, texts: list[str]) -> list[Tokens]:
        if self.learns:
            raise DataError("SubwordTokenizer: it has no vocabulary yet; it is built when the training set is read")
        found = self._engine.encode_batch(texts, add_special_tokens=False)
        # Unigram's pieces hold the special tokens too: one that is spelled out is unknown, and ends no text.
        ids = [np.array([0 if i in (1, 2) else i for i in e.ids], np.int64) for e in found]
        return [Tokens(own, np.array(e.offsets, np.int64).reshape(-1, 2)) for own, e in zip(ids, found, strict=True)]

    def encode_words(self, words: Sequence[str]) -> list[np.ndarray]:
        """The ids of each word as it stands in a text, behind a space: int64 [1 or more]."""
        return [t.ids if len(t.ids) else np.array([self.unknown], np.int64) for t in self.encode(list(words))]

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        return str(self._engine.decode(list(ids), skip_special_tokens=True)).lstrip(" ")

    def written(self) -> str:
        """What `vocabulary` reads: the library's JSON."""
        return str(self._engine.to_str(pretty=True))

    def state(self) -> dict[str, Any]:
        """Vocabulary and options."""
        options = {"size": self._size, "pieces": self._pieces, "lower_case": self._lower_case}
        return {**options, "engine": self._engine.to_str()}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> SubwordTokenizer:
        """The tokenizer that `state` describes."""
        found = cls(state["size"], state["pieces"], state["lower_case"])
        found._read(state["engine"].encode(), "metadata")
        return found


def _likeliest(texts: list[str], size: int) -> list[tuple[str, float]]:
    """At most `size` pieces with their log-probabilities, the special ones first, by sentencepiece's EM.

    That of the library `tokenizers` numbers nearly equal pieces anew each time. Of more characters than three quarters
    of `size` the rarest are unknown.
    """
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    counts = Counter(character for text in texts for character in text if not character.isspace())
    special = [(token, 0.0) for token in SPECIAL]
    if not counts:
        return special
    often = sorted(counts, key=lambda character: (-counts[character], character))
    rare = {ord(character): " " for character in often[size * 3 // 4 :]}
    model = io.BytesIO()
    SentencePieceTrainer.Train(
        sentence_iterator=(text.translate(rare) for text in texts), model_writer=model, model_type="unigram",
        vocab_size=size, hard_vocab_limit=False, character_coverage=1.0, normalization_rule_name="identity",
        max_sentence_length=_LONGEST, num_threads=1, unk_id=0, bos_id=1, eos_id=2, pad_id=-1, minloglevel=2,
    )  # fmt: skip
    learnt = SentencePieceProcessor(model_proto=model.getvalue())
    return special + [(learnt.IdToPiece(k), learnt.GetScore(k)) for k in range(len(SPECIAL), learnt.GetPieceSize())]


@kept
@register("tokenizer", "CharacterTokenizer")
class CharacterTokenizer(Tokenizer):
    """Single characters, spaces and ends of lines among them; 0 is unknown, 1 and 2 begin and end a text.

    Args:
        max_size: of the vocabulary, which is as many rows of an embedding; the rarest characters are left out.
        vocabulary: the characters by number, the special ones first; null takes those of the training texts.
    """

    kind: ClassVar[str] = "characters"

    def __init__(self, max_size: int = 5000, vocabulary: list[str] | None = None) -> None:
        if max_size <= len(SPECIAL):
            raise AttributeValueError(f"CharacterTokenizer: max_size is {max_size}; it must be above {len(SPECIAL)}")
        self._max_size = max_size
        self.unknown, self.opening, self.closing = range(len(SPECIAL))
        self.vocabulary: list[str] = list(vocabulary or ())
        if self.vocabulary and (tuple(self.vocabulary[: len(SPECIAL)]) != SPECIAL or len(self.vocabulary) > max_size):
            raise DataError(
                f"CharacterTokenizer: the vocabulary has {len(self.vocabulary)} entries and starts with "
                f"{', '.join(self.vocabulary[:3])}; it must start with {', '.join(SPECIAL)} and have {max_size} at most"
            )
        self._numbers = {c: number for number, c in enumerate(self.vocabulary)}

    @property
    def size(self) -> int:
        """Rows that an embedding needs: `max_size`, known before the vocabulary is."""
        return self._max_size

    def learn(self, texts: Iterable[str]) -> None:
        """Number the characters of `texts`, the most frequent first."""
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(clean(text))
        frequent = sorted(counts, key=lambda c: (-counts[c], c))[: self._max_size - len(SPECIAL)]
        if not frequent:
            raise DataError("CharacterTokenizer: the training texts hold no characters")
        self.vocabulary = [*SPECIAL, *frequent]
        self._numbers = {c: number for number, c in enumerate(self.vocabulary)}

    def _encode(self, texts: list[str]) -> list[Tokens]:
        if self.learns:
            raise DataError("CharacterTokenizer: it has no vocabulary yet; it is built when the training set is read")
        return [self._tokens(text) for text in texts]

    def _tokens(self, text: str) -> Tokens:
        places = np.arange(len(text), dtype=np.int64)
        ids = np.fromiter((self._numbers.get(c, self.unknown) for c in text), np.int64, len(text))
        return Tokens(ids, np.stack([places, places + 1], axis=1))

    def encode_words(self, words: Sequence[str]) -> list[np.ndarray]:
        """The ids of each word's characters, int64 [1 or more]."""
        return [t.ids if len(t.ids) else np.array([self.unknown], np.int64) for t in self.encode(list(words))]

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids; an unknown character is U+FFFD."""
        return "".join("\ufffd" if i == self.unknown else self.vocabulary[i] for i in ids if i not in (1, 2))

    def state(self) -> dict[str, Any]:
        """The characters."""
        return {"max_size": self._max_size, "vocabulary": list(self.vocabulary)}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> CharacterTokenizer:
        """The tokenizer that `state` describes."""
        return cls(**state)
