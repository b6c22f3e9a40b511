"""The tokenizer of a tokenizer.json, by the library `tokenizers`: byte-level pairs, Unigram, WordPiece.

Which special tokens stand around a text and between two is found by asking it, and compared with what is said beside.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from tokenizers import Encoding
from tokenizers import Tokenizer as Engine

from framework import patterns
from framework.errors import AttributeValueError, CheckpointError
from framework.outside import read_text
from suites.engine.registry import register
from suites.engine.weights.published import checkpoint_folder
from suites.nlp.tokenizers.base import Tokenizer, Tokens, clean, kept
from suites.nlp.tokenizers.folders import tokenizer_of
from suites.nlp.tokenizers.published_pieces import pieces_of

_MODELS = ("BPE", "Unigram", "WordPiece", "WordLevel")
_MOST = 10_000_000  # tokens
_PROBES = ("a", "b")
_UNKNOWN = ("[UNK]", "<unk>")
_MASKS = ("[MASK]", "<mask>")
# How GPT-4's, Llama 3's and Qwen2's cut words. Letters by \\p are unknown to our check; no part can begin at one place
# and end at two but for spaces, of which a run is taken whole by the last branch.
_TRUSTED = frozenset(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    + most
    + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    for most in ("", "{1,3}")
)
_ENDS = ("bos_token", "eos_token")  # of models that write
_NAMED = ("unk_token", "pad_token")  # templates of chats may name them
_CHAT = "chat_template"
_MOST_TEMPLATE = 1 << 18  # characters
_SAID = {"cls_token": "opening", "sep_token": "closing", "mask_token": "mask"}


@kept
class JsonTokenizer(Tokenizer):
    """What a tokenizer.json says.

    Args:
        text: of the file.
        said: what tokenizer_config.json or special_tokens_map.json call `cls_token`, `sep_token`, `mask_token`, and
            `bos_token`, `eos_token` of a model that writes: it may have nothing around a text, or but one before it;
            `unk_token`, `pad_token`, and its `chat_template`.
        where: the file, for messages.

    Raises:
        CheckpointError: it is damaged, puts no special tokens around a text, or others than are said, or cuts texts by
            an expression that may take more than linear time.
    """

    kind: ClassVar[str] = "json"

    def __init__(self, text: str, said: Mapping[str, str] | None = None, where: str = "tokenizer.json") -> None:
        fields = _checked(text, where)
        self._text, self._said, self._where = text, dict(said or {}), where
        try:
            self._engine = Engine.from_str(text)
            numbers = self._engine.get_vocab(with_added_tokens=True)
        except Exception as error:  # the library raises no other
            raise CheckpointError(f"{where}: is no tokenizer that `tokenizers` reads ({str(error)[:200]})") from None
        if not numbers or max(numbers.values()) >= _MOST:
            raise CheckpointError(f"{where}: has no tokens, or numbers of {_MOST} and more")
        self._engine.no_truncation()
        self._engine.no_padding()
        tokens = [""] * (max(numbers.values()) + 1)
        for token, number in numbers.items():
            if tokens[number]:
                raise CheckpointError(f"{where}: {tokens[number]!r} and {token!r} have the same number, {number}")
            tokens[number] = token
        for content, number in _added(fields):
            if numbers.get(content, number) != number:
                raise CheckpointError(
                    f"{where}: the added token {content!r} has the number {number}, which is that of "
                    f"{tokens[number] if number < len(tokens) else 'no token'!r}"
                )
        self.vocabulary = tokens
        self.opening, self.closing, between, segments = self._around(where, numbers)
        self.closings_between, self.segments = between, segments  # type: ignore[misc]
        other = self.closing if self.opening is None else self.opening
        self.unknown = next((numbers[token] for token in _UNKNOWN if token in numbers), other)
        mask = self._said.get("mask_token")
        self.mask = next((numbers[token] for token in ((mask,) if mask else _MASKS) if token in numbers), None)
        self._check_said(where)
        self.chat = self._said.get(_CHAT)
        self.around = {name: token for name, token in self._said.items() if name != _CHAT}
        self._space = " " if "ByteLevel" in _types(fields.get("pre_tokenizer")) else ""

    def _around(self, where: str, numbers: Mapping[str, int]) -> tuple[int | None, int, int, int]:
        """The tokens before and behind a text, how many stand between two, and how many kinds of segments there are."""
        first, second = (each.ids for each in self._encodings(_PROBES))
        one = self._engine.encode(_PROBES[0])
        stop = numbers.get(self._said.get("eos_token", ""))
        if stop is not None and one.ids[-len(first) :] == first and len(one.ids) <= len(first) + 1:
            return (one.ids[0] if len(one.ids) > len(first) else None), stop, 1, 1
        if stop is not None and one.ids[-1] == stop and not {"cls_token", "sep_token"} & self._said.keys():
            raise CheckpointError(
                f"{where}: puts its eos_token, {self.vocabulary[stop]!r}, behind every text, so that no text goes on; "
                "take it out of post_processor (in transformers: add_eos_token=False, then save_pretrained). If this "
                "is an encoder's, tokenizer_config.json must name its cls_token and sep_token"
            )
        two = self._engine.encode(*_PROBES)
        inner = one.ids[1 : 1 + len(first)]
        if len(one.ids) != len(first) + 2 or inner != first:
            if stop is None and self._said.get("eos_token"):
                said = self._said["eos_token"]
                raise CheckpointError(f"{where}: eos_token is said to be {said!r}, which is no token")
            raise CheckpointError(
                f"{where}: puts {len(one.ids) - len(first)} special tokens around a text; the encoders here were "
                "trained with one before it and one behind, such as [CLS] and [SEP]"
            )
        opening, closing = one.ids[0], one.ids[-1]
        between = len(two.ids) - len(first) - len(second) - 2
        if two.ids != [opening, *first, *[closing] * between, *second, closing] or between < 1:
            raise CheckpointError(f"{where}: joins two texts as {two.tokens}, in a way that is not known here")
        return opening, closing, between, 2 if len(set(two.type_ids)) > 1 else 1

    def _encodings(self, texts: Sequence[str]) -> list[Encoding]:
        """Pieces without special tokens; CheckpointError where a character has none, and unknown ones neither."""
        try:
            return list(self._engine.encode_batch(list(texts), add_special_tokens=False))
        except Exception as error:  # the library raises no other
            raise CheckpointError(
                f"{self._where}: cannot take these texts: a character of them has no token, and the file no token for "
                f"unknown ones ({str(error)[:200]})"
            ) from None

    def _check_said(self, where: str) -> None:
        for name, ours in _SAID.items():
            number, token = getattr(self, ours), self._said.get(name)
            found = None if number is None else self.vocabulary[number]
            if token is not None and token != found:
                raise CheckpointError(f"{where}: {name} is said to be {token!r}, and the tokenizer has {found!r}")

    def _encode(self, texts: list[str]) -> list[Tokens]:
        encodings = self._encodings(texts)
        return [Tokens(np.array(e.ids, np.int64), np.array(e.offsets, np.int64).reshape(-1, 2)) for e in encodings]

    def encode_words(self, words: Sequence[str]) -> list[np.ndarray]:
        """The ids of each word as it stands in a text, behind a space: int64 [1 or more]."""
        texts = [self._space + clean(word) for word in words]
        encodings = self._encodings(texts)
        return [np.array(e.ids or [self.unknown], np.int64) for e in encodings]

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens."""
        return str(self._engine.decode(list(ids), skip_special_tokens=True))

    def state(self) -> dict[str, Any]:
        """The file's text, and what is said beside it."""
        return {"text": self._text, "said": self._said}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> JsonTokenizer:
        """The tokenizer that `state` describes."""
        return cls(**state)


def _checked(text: str, where: str) -> dict[str, Any]:
    """The fields; CheckpointError for what is no tokenizer, and for an expression that is not safe."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{where}: is no JSON ({error})") from None
    model = fields.get("model") if isinstance(fields, dict) else None
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), (dict, list)):
        raise CheckpointError(f"{where}: has no model with a vocabulary")
    if model.get("type", "WordPiece" if "continuing_subword_prefix" in model else "BPE") not in _MODELS:
        raise CheckpointError(f"{where}: model.type is {str(model['type'])[:60]!r}; known are {', '.join(_MODELS)}")
    for part in ("normalizer", "pre_tokenizer", "post_processor"):
        for pattern in set(_expressions(fields.get(part))) - _TRUSTED:
            try:
                patterns.checked(pattern, use="findall")
            except AttributeValueError as error:
                raise CheckpointError(f"{where}: {part}: {error}") from None
    return dict(fields)


def _added(fields: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Text and number of each added token."""
    for each in fields.get("added_tokens") or ():
        if isinstance(each, dict) and isinstance(each.get("content"), str) and isinstance(each.get("id"), int):
            yield each["content"], each["id"]


def _expressions(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "Regex":
                yield str(inner)
            else:
                yield from _expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _expressions(inner)


def _types(value: Any) -> set[str]:
    """The types of a part and of those in it."""
    if isinstance(value, dict):
        return {str(value.get("type"))} | {name for inner in value.values() for name in _types(inner)}
    return {name for inner in value for name in _types(inner)} if isinstance(value, list) else set()


def published_tokenizer(name: str | Path) -> Tokenizer:
    """The tokenizer of a checkpoint by the name of its weights: tokenizer.json, else the files of before.

    Raises CheckpointError where there is none, or it asks for what is not done here.
    """
    folder = checkpoint_folder(name)
    file = folder / "tokenizer.json"
    if not file.is_file():
        if not any((folder / other).is_file() for other in ("vocab.txt", "vocab.json")):
            if (pieces := pieces_of(folder)) is not None:
                return pieces
            raise CheckpointError(
                f"{name}: has no tokenizer.json and no vocab.txt; transformers writes one: "
                "AutoTokenizer.from_pretrained(NAME).save_pretrained(FOLDER)"
            )
        return tokenizer_of(folder)
    try:
        return JsonTokenizer(read_text(file), dict(_said(folder)), str(file))
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{file}: is no UTF-8 text (byte {error.start})") from None


def _said(folder: Path) -> Iterator[tuple[str, str]]:
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        path = folder / file
        if not path.is_file():
            continue
        try:
            fields = json.loads(read_text(path))
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{path}: is no JSON ({error})") from None
        for name in (*_SAID, *_ENDS, *_NAMED):
            value = fields.get(name) if isinstance(fields, dict) else None
            text = value.get("content") if isinstance(value, dict) else value
            if isinstance(text, str):
                yield name, text
        yield from _template(fields, path)
    if (template := folder / "chat_template.jinja").is_file():
        yield from _template({_CHAT: read_text(template)}, template)


def _template(fields: Any, path: Path) -> Iterator[tuple[str, str]]:
    """The template of chats, of several the one called default."""
    found = fields.get(_CHAT) if isinstance(fields, dict) else None
    if isinstance(found, list):
        named = [each for each in found if isinstance(each, dict) and each.get("name") == "default"]
        found = named[0].get("template") if named else None
    if isinstance(found, str):
        if len(found) > _MOST_TEMPLATE:
            raise CheckpointError(f"{path}: its chat_template has {len(found)} characters; {_MOST_TEMPLATE} are read")
        yield _CHAT, found


@register("tokenizer")
class PublishedTokenizer(Tokenizer):
    """The tokenizer of published weights; its files are read when it is first needed, so a run needs them no more.

    Args:
        weights: their name, such as `hf:OWNER/NAME`, or a checkpoint's folder.
    """

    kind: ClassVar[str] = "published"

    def __init__(self, weights: str) -> None:
        self._weights = weights

    @cached_property
    def _own(self) -> Tokenizer:
        return published_tokenizer(self._weights)

    vocabulary = property(lambda self: self._own.vocabulary)
    unknown = property(lambda self: self._own.unknown)
    opening = property(lambda self: self._own.opening)
    closing = property(lambda self: self._own.closing)
    mask = property(lambda self: self._own.mask)
    closings_between = property(lambda self: self._own.closings_between)
    segments = property(lambda self: self._own.segments)
    chat = property(lambda self: self._own.chat)
    around = property(lambda self: self._own.around)

    def _encode(self, texts: list[str]) -> list[Tokens]:
        return self._own._encode(texts)

    def encode_words(self, words: Sequence[str]) -> list[np.ndarray]:
        """The ids of each word, int64 [1 or more]."""
        return self._own.encode_words(words)

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        return self._own.text(ids)

    def state(self) -> dict[str, Any]:
        """That of the weights' tokenizer."""
        return self._own.state()

    def metadata(self) -> dict[str, Any]:
        """Kind and state of the weights' tokenizer, which a run keeps."""
        return self._own.metadata()

    @classmethod
    def restore(cls, state: dict[str, Any]) -> PublishedTokenizer:
        """The tokenizer that `state` describes: the weights' name."""
        return cls(**state)
