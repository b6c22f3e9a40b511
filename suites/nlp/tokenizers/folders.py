"""The tokenizer in a checkpoint's folder: vocab.txt or tokenizer.json, with tokenizer_config.json field by field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from framework.errors import CheckpointError
from framework.outside import read_json
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
_ROBERTA_FIXED: dict[str, Any] = {"add_prefix_space": False, "unk_token": "<unk>", "errors": "replace"}
_TELLING = """
model_max_length max_len max_length tokenizer_class name_or_path special_tokens_map_file tokenizer_file vocab_file
padding_side truncation_side pad_to_multiple_of pad_token_type_id stride truncation_strategy padding is_local
model_input_names clean_up_tokenization_spaces added_tokens_decoder extra_special_tokens backend processor_class
trim_offsets init_inputs local_files_only bos_token eos_token cls_token sep_token pad_token mask_token
full_tokenizer_file additional_special_tokens
"""
_NO_EFFECT = frozenset(_TELLING.split())


def tokenizer_of(folder: Path) -> Tokenizer:
    """RoBERTa's where its two files are there, else BERT's.

    Raises CheckpointError for files that are missing or damaged, or ask for what these tokenizers do not do.
    """
    settings = folder / "tokenizer_config.json"
    fields = _object(settings) if settings.is_file() else {}
    if all((folder / name).is_file() for name in ("vocab.json", "merges.txt")):
        _check(fields, _ROBERTA_FIXED, settings)
        return RobertaTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    _check(fields, _FIXED, settings)
    whole = folder / "tokenizer.json"
    vocabulary, options = _whole(_object(whole), whole) if whole.is_file() else ([], {})
    given = {ours: fields[theirs] for theirs, ours in _OPTIONS.items() if fields.get(theirs) is not None}
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
        elif field not in _NO_EFFECT and field not in _OPTIONS:
            expect_off(field, value, str(path))


def _whole(fields: dict[str, Any], path: Path) -> tuple[list[str], dict[str, Any]]:
    """Vocabulary and options of tokenizer.json."""
    model, normalizer = fields.get("model") or {}, fields.get("normalizer") or {}
    wanted = (
        ("model.type", model.get("type", "WordPiece"), "WordPiece"),
        ("model.continuing_subword_prefix", model.get("continuing_subword_prefix", "##"), "##"),
        ("model.unk_token", model.get("unk_token", "[UNK]"), "[UNK]"),
        ("model.max_input_chars_per_word", model.get("max_input_chars_per_word", 100), 100),
        ("normalizer.type", normalizer.get("type"), "BertNormalizer"),
        ("normalizer.clean_text", normalizer.get("clean_text", True), True),
        ("pre_tokenizer.type", (fields.get("pre_tokenizer") or {}).get("type"), "BertPreTokenizer"),
    )
    for name, found, known in wanted:
        if found != known:
            raise CheckpointError(f"{path}: {name} is {found!r}; only {known!r} is known")
    added = [t["content"] for t in fields.get("added_tokens") or [] if not t.get("special")]
    if added:
        raise CheckpointError(f"{path}: added_tokens has {added[0]!r}, which is no special token; that is not known")
    numbers = model.get("vocab") or {}
    if sorted(numbers.values()) != list(range(len(numbers))):
        raise CheckpointError(f"{path}: the numbers of model.vocab are not 0 to {len(numbers) - 1}")
    options = {ours: normalizer[theirs] for theirs, ours in _NORMALIZER.items() if normalizer.get(theirs) is not None}
    return sorted(numbers, key=numbers.__getitem__), options


def _object(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path)
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: it holds a {type(found).__name__}, not an object")
    return found
