"""The tokenizer in a checkpoint's folder: vocab.txt or tokenizer.json, with tokenizer_config.json field by field."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from framework.errors import CheckpointError
from framework.outside import read_json_object
from suites.nlp.fields import expect_off
from suites.nlp.tokenizers.base import Tokenizer
from suites.nlp.tokenizers.byte_pairs import RobertaTokenizer
from suites.nlp.tokenizers.wordpiece import BertTokenizer

_OPTIONS = {
    "do_lower_case": "lower_case",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "chinese_characters",
}
_NORMALIZER = {
    "lowercase": "lower_case",
    "strip_accents": "strip_accents",
    "handle_chinese_chars": "chinese_characters",
}
_CLASSES = ("Bert", "DistilBert", "Ernie", "MPNet", "Electra", "PreTrained", "Tokenizers", "Roberta")
_FIXED: dict[str, Any] = {
    "do_basic_tokenize": True,
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "mask_token": "[MASK]",
}
_ROBERTA_FIXED: dict[str, Any] = {
    "unk_token": "<unk>",
    "cls_token": "<s>",
    "bos_token": "<s>",
    "sep_token": "</s>",
    "eos_token": "</s>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
    "errors": "replace",
}
_ADDED = ("additional_special_tokens", "extra_special_tokens", "added_tokens_decoder")
_TELLING = """
model_max_length max_len max_length tokenizer_class name_or_path special_tokens_map_file tokenizer_file vocab_file
padding_side truncation_side pad_to_multiple_of pad_token_type_id stride truncation_strategy padding is_local
model_input_names clean_up_tokenization_spaces backend processor_class
trim_offsets init_inputs local_files_only bos_token eos_token cls_token sep_token pad_token mask_token
full_tokenizer_file add_prefix_space
"""
_TYPES: dict[type, str] = {dict: "an object", list: "a list", bool: "true or false"}
Part = TypeVar("Part", dict[str, Any], list[Any], bool)
_NO_EFFECT = frozenset(_TELLING.split())


def tokenizer_of(folder: Path) -> Tokenizer:
    """RoBERTa's where its two files are there, or tokenizer.json has byte-level pairs; else BERT's.

    Raises CheckpointError for files that are missing or damaged, or ask for what these tokenizers do not do.
    """
    settings, whole = folder / "tokenizer_config.json", folder / "tokenizer.json"
    fields = read_json_object(settings) if settings.is_file() else {}
    json = read_json_object(whole) if whole.is_file() else {}
    pairs = all((folder / name).is_file() for name in ("vocab.json", "merges.txt"))
    roberta = pairs or _part(json, "model", dict, whole).get("type") == "BPE"
    fixed = _ROBERTA_FIXED if roberta else _FIXED
    _check(fields, fixed, settings)
    _check_added(folder, fixed, json)
    if roberta:
        vocabulary, merges, space = _byte_pairs(json, whole) if json else ([], [], bool(fields.get("add_prefix_space")))
        if pairs:
            return RobertaTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), space)
        return RobertaTokenizer(vocabulary, merges, space)
    vocabulary, options = _whole(json, whole) if json else ([], {})
    given = _switches(fields, _OPTIONS, settings)
    vocab: str | list[str] = str(folder / "vocab.txt")
    if vocabulary and not (folder / "vocab.txt").is_file():
        vocab = vocabulary
    return BertTokenizer(vocab, **{"lower_case": True, **options, **given})


def _check(fields: dict[str, Any], fixed: dict[str, Any], path: Path) -> None:
    name = str(fields.get("tokenizer_class") or "Bert")
    if name.removesuffix("Fast").removesuffix("Tokenizer").removesuffix("Backend") not in _CLASSES:
        raise CheckpointError(f"{path}: tokenizer_class is '{name}'; known are BertTokenizer and RobertaTokenizer")
    for field, value in fields.items():
        text = value.get("content") if isinstance(value, dict) and "content" in value else value
        if field in fixed:
            if text is not None and text != fixed[field]:
                raise CheckpointError(f"{path}: {field} is {text!r}; only {fixed[field]!r} is known")
        elif field not in _NO_EFFECT and field not in _OPTIONS and field not in _ADDED:
            expect_off(field, value, str(path))


def _check_added(folder: Path, fixed: dict[str, Any], whole: dict[str, Any]) -> None:
    """Raise CheckpointError for tokens beside the usual ones, which would be cut into pieces here."""
    extra = folder / "added_tokens.json"
    found = [(extra, token) for token in (read_json_object(extra) if extra.is_file() else {})]
    found += [
        (folder / "tokenizer.json", _content(token))
        for token in _part(whole, "added_tokens", list, folder / "tokenizer.json")
    ]
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        fields = read_json_object(folder / name) if (folder / name).is_file() else {}
        for field in _ADDED:
            value = fields.get(field)
            listed = value.values() if isinstance(value, dict) else _part(fields, field, list, folder / name)
            found += [(folder / name, _content(token)) for token in listed]
        if name == "special_tokens_map.json":
            found += [(folder / name, _content(token)) for field, token in fields.items() if field not in _ADDED]
    for path, token in found:
        if token not in fixed.values():
            raise CheckpointError(f"{path}: has the token {token!r:.60} of its own, which is not known here")


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, dict) else token


def _byte_pairs(fields: dict[str, Any], path: Path) -> tuple[list[str], list[str], bool]:
    """Vocabulary, merges and whether texts begin with a space, of tokenizer.json."""
    model, splitter = (_part(fields, name, dict, path) for name in ("model", "pre_tokenizer"))
    wanted = (
        ("normalizer", fields.get("normalizer"), None),
        ("pre_tokenizer.type", splitter.get("type"), "ByteLevel"),
        ("pre_tokenizer.use_regex", splitter.get("use_regex", True), True),
        ("model.dropout", model.get("dropout"), None),
        ("model.continuing_subword_prefix", model.get("continuing_subword_prefix") or "", ""),
        ("model.end_of_word_suffix", model.get("end_of_word_suffix") or "", ""),
        ("model.byte_fallback", model.get("byte_fallback", False), False),
        ("model.ignore_merges", model.get("ignore_merges", False), False),
    )
    _expect(wanted, path)
    merges = [
        " ".join(map(str, pair)) if isinstance(pair, list) else str(pair) for pair in _part(model, "merges", list, path)
    ]
    return _numbered(_part(model, "vocab", dict, path), path), merges, bool(splitter.get("add_prefix_space"))


def _expect(wanted: Iterable[tuple[str, Any, Any]], path: Path) -> None:
    for name, found, known in wanted:
        if found != known:
            raise CheckpointError(f"{path}: {name} is {found!r}; only {known!r} is known")


def _numbered(numbers: dict[str, int], path: Path) -> list[str]:
    if any(type(number) is not int for number in numbers.values()) or sorted(numbers.values()) != list(
        range(len(numbers))
    ):
        raise CheckpointError(f"{path}: the numbers of model.vocab are not 0 to {len(numbers) - 1}")
    return sorted(numbers, key=numbers.__getitem__)


def _whole(fields: dict[str, Any], path: Path) -> tuple[list[str], dict[str, Any]]:
    """Vocabulary and options of tokenizer.json."""
    model, normalizer, splitter = (_part(fields, name, dict, path) for name in ("model", "normalizer", "pre_tokenizer"))
    wanted = (
        ("model.type", model.get("type", "WordPiece"), "WordPiece"),
        ("model.continuing_subword_prefix", model.get("continuing_subword_prefix", "##"), "##"),
        ("model.unk_token", model.get("unk_token", "[UNK]"), "[UNK]"),
        ("model.max_input_chars_per_word", model.get("max_input_chars_per_word", 100), 100),
        ("normalizer.type", normalizer.get("type"), "BertNormalizer"),
        ("normalizer.clean_text", normalizer.get("clean_text", True), True),
        ("pre_tokenizer.type", splitter.get("type"), "BertPreTokenizer"),
    )
    _expect(wanted, path)
    return _numbered(_part(model, "vocab", dict, path), path), _switches(normalizer, _NORMALIZER, path)


def _switches(fields: dict[str, Any], names: dict[str, str], path: Path) -> dict[str, bool]:
    """The fields that are on or off, by our names; those that are null keep their default."""
    return {ours: _part(fields, theirs, bool, path) for theirs, ours in names.items() if fields.get(theirs) is not None}


def _part(fields: dict[str, Any], name: str, kind: type[Part], path: Path) -> Part:
    """A field of that type; an empty one where it is missing or null."""
    found = fields.get(name)
    if found is not None and not isinstance(found, kind):
        raise CheckpointError(f"{path}: {name} is {str(found)[:60]!r}; it must be {_TYPES[kind]}")
    return kind() if found is None else found
