"""PublishedPieces: a checkpoint's tokenizer that is a sentencepiece model alone, of the families that came as such.

XLM-RoBERTa, CamemBERT, ALBERT and DeBERTa-v2 and v3 put other numbers and special tokens around the same library
(Kudo and Richardson 2018), as the tokenizers of transformers 4 did that ran it.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from framework.errors import CheckpointError
from framework.outside import read_bytes, read_json_object
from framework.patterns import checked
from suites.nlp.fields import expect_off
from suites.nlp.tokenizers.base import Tokenizer, Tokens, kept

_SPACE = "\u2581"  # how sentencepiece writes the space before a word
_TELLING = """
model_max_length tokenizer_class name_or_path special_tokens_map_file tokenizer_file vocab_file padding_side
truncation_side model_input_names clean_up_tokenization_spaces backend processor_class sp_model_kwargs vocab_type
additional_special_tokens extra_special_tokens added_tokens_decoder bos_token eos_token cls_token sep_token pad_token
unk_token mask_token add_prefix_space trim_offsets
"""
_WITHOUT_EFFECT = frozenset(_TELLING.split())


@dataclass(frozen=True)
class _Family:
    """What a family puts around the model.

    Attributes:
        file: its usual name.
        before: tokens that have numbers before the model's own.
        shift: added to the numbers of the model.
        special: opening, closing, padding and unknown token.
        mask: the mask token, behind all others where the model does not have it.
        between: closing tokens between two texts.
        segments: see `Tokenizer`.
        switches: what tokenizer_config.json may switch, with the usual values.
    """

    file: str
    special: tuple[str, str, str, str]
    mask: str
    before: tuple[str, ...] = ()
    shift: int = 0
    between: int = 1
    segments: int = 2
    switches: Mapping[str, bool] | None = None


_BRACKETS = ("[CLS]", "[SEP]", "[PAD]", "[UNK]")
_ANGLES = ("<s>", "</s>", "<pad>", "<unk>")
FAMILIES = {
    "xlm-roberta": _Family("sentencepiece.bpe.model", _ANGLES, "<mask>", ("<s>", "<pad>", "</s>", "<unk>"), 1, 2, 1),
    "camembert": _Family(
        "sentencepiece.bpe.model",
        _ANGLES,
        "<mask>",
        ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"),
        4,
        2,
        1,
    ),
    "albert": _Family(
        "spiece.model",
        ("[CLS]", "[SEP]", "<pad>", "<unk>"),
        "[MASK]",
        switches={"do_lower_case": True, "keep_accents": False, "remove_space": True},
    ),
    "deberta-v2": _Family("spm.model", _BRACKETS, "[MASK]", switches={"do_lower_case": False}),
}


@kept
class PublishedPieces(Tokenizer):
    """A sentencepiece model with the numbers and special tokens of a family.

    Args:
        model: the bytes of the sentencepiece model.
        family: one of `FAMILIES`.
        switches: those of the family; others are as usual.
        where: the file, for messages.

    Raises:
        CheckpointError: it is no such model, or lacks the family's special tokens.
    """

    kind: ClassVar[str] = "published pieces"

    def __init__(
        self, model: bytes, family: str, switches: Mapping[str, bool] | None = None, where: str = "tokenizer"
    ) -> None:
        from sentencepiece import SentencePieceProcessor

        self._model, self._family = model, family
        f = FAMILIES[family]
        self._switches = {**(f.switches or {}), **(switches or {})}
        try:
            self._processor = SentencePieceProcessor(model_proto=model)
            pieces = [self._processor.IdToPiece(i) for i in range(self._processor.GetPieceSize())]
        except (RuntimeError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{where}: is no sentencepiece model ({error})") from None
        own = [*f.before, *pieces[len(f.before) - f.shift :]] if f.before else pieces
        numbers = {token: number for number, token in enumerate(own)}
        if f.mask not in numbers:
            numbers[f.mask] = len(own)
            own = [*own, f.mask]
        if family == "camembert":  # the model's own <s> and </s> count, behind those that are not used
            numbers |= {token: self._processor.PieceToId(token) + f.shift for token in ("<s>", "</s>")}
        missing = [token for token in f.special if token not in numbers]
        if missing:
            raise CheckpointError(f"{where}: the model has no token {', '.join(missing)}, as those of {family} have")
        self.vocabulary = own
        opening, closing, _, unknown = (numbers[token] for token in f.special)
        self.opening, self.closing, self.unknown, self.mask = opening, closing, unknown, numbers[f.mask]
        self.closings_between, self.segments = f.between, f.segments  # type: ignore[misc]
        self._special = {token: numbers[token] for token in (*f.special, f.mask)}
        self._splitter = checked("|".join(map(re.escape, sorted(self._special, key=len, reverse=True))))

    def _encode(self, texts: list[str]) -> list[Tokens]:
        return [self._tokens(text) for text in texts]

    def _tokens(self, text: str) -> Tokens:
        """The tokens of the parts between special tokens that stand in the text, and those."""
        found: list[tuple[int, int, int]] = []
        end = 0
        for special in self._splitter.finditer(text):
            found += self._part(text[end : special.start()], end)
            found.append((self._special[special[0]], *special.span()))
            end = special.end()
        found += self._part(text[end:], end)
        ids, *spans = zip(*found, strict=True) if found else ((), (), ())
        return Tokens(np.array(ids, np.int64), np.array(spans, np.int64).T.reshape(-1, 2))

    def _part(self, text: str, first: int) -> list[tuple[int, int, int]]:
        """Number, first character and the one after the last of each token; `first` is the text's own place."""
        if not text.strip():
            return []
        changed, places = _changed(text, self._switches, self._family)
        mapping = self._processor.encode_as_offset_mapping(changed)
        found = []
        for piece, (start, end) in zip(mapping["pieces"], mapping["offsets"], strict=True):
            while start < end and changed[start] in (" ", _SPACE):  # a piece holds the space before it
                start += 1
            at = first + places[min(start, len(places) - 1)][0]
            last = first + places[end - 1][1] if start < end else at
            cut = self._cut_number(piece) if self._family == "albert" else [piece]
            lengths = list(accumulate((len(part.lstrip(_SPACE)) for part in cut), initial=0))
            for part, left, right in zip(cut, lengths, lengths[1:], strict=False):
                whole = len(cut) == 1
                span = (at, last) if whole else (min(at + left, last), min(at + right, last))
                found.append((self._number(part), *span))
        return found

    def _number(self, piece: str) -> int:
        number: int = self._processor.PieceToId(piece)
        return self.unknown if number == self._processor.unk_id() else number + FAMILIES[self._family].shift

    def _cut_number(self, piece: str) -> list[str]:
        """ALBERT's way with a comma behind a digit: the digits are cut again, the comma stands alone."""
        if len(piece) < 2 or piece[-1] != "," or not piece[-2].isdigit():
            return [piece]
        parts: list[str] = self._processor.EncodeAsPieces(piece[:-1].replace(_SPACE, ""))
        if piece[0] != _SPACE and parts[0][0] == _SPACE:
            parts = parts[1:] if len(parts[0]) == 1 else [parts[0][1:], *parts[1:]]
        return [*parts, ","]

    def encode_words(self, words: Sequence[str]) -> list[np.ndarray]:
        """The ids of each word as it stands in a text, behind a space: int64 [1 or more]."""
        found = [tokens.ids for tokens in self.encode(list(words))]
        return [ids if len(ids) else np.array([self.unknown], np.int64) for ids in found]

    def state(self) -> dict[str, Any]:
        """The model (base64), its family and the switches."""
        return {
            "model": base64.b64encode(self._model).decode(),
            "family": self._family,
            "switches": dict(self._switches),
        }

    @classmethod
    def restore(cls, state: dict[str, Any]) -> PublishedPieces:
        """The tokenizer that `state` describes."""
        switches = {str(name): bool(value) for name, value in state["switches"].items()}
        return cls(base64.b64decode(state["model"], validate=True), state["family"], switches)


def _changed(text: str, switches: Mapping[str, bool], family: str) -> tuple[str, list[tuple[int, int]]]:
    """What the model sees of a text, and for each of its characters the first and the end of what it comes from."""
    parts = [(c, (i, i + 1)) for i, c in enumerate(text)]
    if family == "albert":
        parts = _quotes(_single_spaces(parts) if switches["remove_space"] else parts)
        if not switches["keep_accents"]:
            parts = [
                (plain, place)
                for c, place in parts
                for plain in unicodedata.normalize("NFKD", c)
                if not unicodedata.combining(plain)
            ]
    seen = "".join(c for c, _ in parts)
    if switches.get("do_lower_case"):
        places = [place for c, place in parts for _ in c.lower()]
        return seen.lower(), places
    return seen, [place for _, place in parts]


def _single_spaces(parts: list[tuple[str, tuple[int, int]]]) -> list[tuple[str, tuple[int, int]]]:
    found: list[tuple[str, tuple[int, int]]] = []
    for c, place in parts:
        if not c.isspace():
            found.append((c, place))
        elif found and found[-1][0] != " ":
            found.append((" ", place))
    return found[:-1] if found and found[-1][0] == " " else found


def _quotes(parts: list[tuple[str, tuple[int, int]]]) -> list[tuple[str, tuple[int, int]]]:
    """Two backticks, and then two apostrophes, become one quotation mark."""
    for pair in ("``", "''"):
        found: list[tuple[str, tuple[int, int]]] = []
        i = 0
        while i < len(parts):
            if i + 1 < len(parts) and parts[i][0] + parts[i + 1][0] == pair:
                found.append(('"', (parts[i][1][0], parts[i + 1][1][1])))
                i += 2
            else:
                found.append(parts[i])
                i += 1
        parts = found
    return parts


def pieces_of(folder: Path) -> PublishedPieces | None:
    """The tokenizer of a checkpoint's folder whose sentencepiece model is all that it has; None where it has none.

    Raises CheckpointError for a family that is not known, and for settings whose effect is not.
    """
    present = [file for file in dict.fromkeys(f.file for f in FAMILIES.values()) if (folder / file).is_file()]
    if not present:
        return None
    path = folder / present[0]
    kind = _fields(folder / "config.json").get("model_type")
    family = FAMILIES.get(str(kind))
    if family is None or family.file != present[0]:
        raise CheckpointError(
            f"{path}: how models of the type {str(kind)[:60]!r} use it is not known; known are "
            f"{', '.join(f'{name} ({f.file})' for name, f in FAMILIES.items())}; transformers writes tokenizer.json: "
            "AutoTokenizer.from_pretrained(NAME).save_pretrained(FOLDER)"
        )
    return PublishedPieces(read_bytes(path, "text_bytes"), str(kind), _switches(folder, family), str(path))


def _switches(folder: Path, family: _Family) -> dict[str, bool]:
    path = folder / "tokenizer_config.json"
    known = family.switches or {}
    called = dict(zip(("cls_token", "sep_token", "pad_token", "unk_token"), family.special, strict=True))
    called["mask_token"] = family.mask
    found: dict[str, bool] = {}
    for field, value in _fields(path).items():
        text = value.get("content") if isinstance(value, dict) and "content" in value else value
        if field in known and isinstance(value, bool):
            found[field] = value
        elif field in called and text not in (None, called[field]):
            raise CheckpointError(f"{path}: {field} is {str(text)[:60]!r}; only {called[field]!r} is known")
        elif field not in _WITHOUT_EFFECT and field not in known:
            expect_off(field, value, str(path))
    return found


def _fields(path: Path) -> dict[str, Any]:
    return read_json_object(path) if path.is_file() else {}
