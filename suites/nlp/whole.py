"""Published models of texts as a whole, by the architecture that their config.json names: classes of texts, tags of
tokens, answers to questions, hidden words, how texts go on; and vectors of texts, where sentence-transformers'
modules.json says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from framework.errors import CheckpointError
from suites.engine.registry import register
from suites.engine.weights.published import SENTENCES, WHOLE, WholeModel, checkpoint_folder, names_of_labels
from suites.nlp.models.language_names import describe_writer
from suites.nlp.models.published_config import describe, encoder_config
from suites.nlp.sentences import sentences_of
from suites.nlp.tokenizers.json_files import published_tokenizer
from suites.nlp.writing.generation_config import search_of

_LONGEST = 512  # tokens; what is longer is cut, or falls into windows
_MODERN_HEAD = {"classifier_activation": "gelu", "classifier_bias": False, "decoder_bias": True}


@register(WHOLE, "ForSequenceClassification")
def classifier(fields: Mapping[str, Any], where: str, name: str) -> WholeModel:
    """A class for each text."""
    if fields.get("problem_type") not in (None, "single_label_classification"):
        raise CheckpointError(f"{where}: problem_type is {fields['problem_type']!r}; only one class a text is read")
    names = names_of_labels(fields, where)
    encoder = _encoder(fields, where, name, "classifier")
    model = {"type": "SequenceClassifier", "head": "published", "num_classes": len(names), "encoder": encoder}
    return _whole(fields, where, name, model, names, {"type": "Classification"})


@register(WHOLE, "ForTokenClassification")
def tagger(fields: Mapping[str, Any], where: str, name: str) -> WholeModel:
    """A tag for each word, as of names of persons and places."""
    names = names_of_labels(fields, where)
    encoder = _encoder(fields, where, name, "none")
    model = {"type": "TokenClassifier", "head": "published", "num_classes": len(names), "encoder": encoder}
    return _whole(fields, where, name, model, names, {"type": "Tagging", "words": "spaces"})


@register(WHOLE, "ForQuestionAnswering")
def reader(fields: Mapping[str, Any], where: str, name: str) -> WholeModel:
    """An answer to each question, out of a passage."""
    model = {"type": "SpanPredictor", "head": "published", "encoder": _encoder(fields, where, name, "none")}
    return _whole(fields, where, name, model, [], {"type": "Reading"})


@register(WHOLE, "ForMaskedLM")
def filler(fields: Mapping[str, Any], where: str, name: str) -> WholeModel:
    """The words of hidden tokens."""
    if fields.get("tie_word_embeddings") is False:
        raise CheckpointError(f"{where}: tie_word_embeddings is false; only heads are read that share the word table")
    for field, known in _MODERN_HEAD.items() if fields.get("model_type") == "modernbert" else ():
        if fields.get(field, known) != known:
            raise CheckpointError(f"{where}: {field} is {fields[field]!r}; only {known!r} is computed")
    model = {"type": "MaskedLanguageModel", "encoder": _encoder(fields, where, name, "none")}
    return _whole(fields, where, name, model, [], {"type": "FillMask"})


@register(WHOLE, "LMHeadModel")
@register(WHOLE, "ForCausalLM")
def writer(fields: Mapping[str, Any], where: str, name: str) -> WholeModel:
    """How a text goes on, as GPT-2, Llama and Qwen2 write it."""
    model = describe_writer(fields, where, "model", name)
    tokenizer = published_tokenizer(name)
    if tokenizer.closing is None:
        raise CheckpointError(f"{where}: its tokenizer_config.json names no eos_token, so no text would end")
    found = search_of(checkpoint_folder(name), fields, tokenizer.closing, model["vocab_size"])
    asked = {"search": found} if found else {}
    overrides = {
        "model": {"$replace": model},
        "data.tokenizer": {"$replace": {"type": "PublishedTokenizer", "weights": name}},
        "data.classes": [],
        "data.max_length": min(_LONGEST, model["max_length"]),
        "problem": {"$replace": {"type": "LanguageModeling", "opens": tokenizer.opening is not None, **asked}},
    }
    return WholeModel("nlp/gpt_tinyshakespeare", [f"{path}={json.dumps(value)}" for path, value in overrides.items()])


@register(WHOLE, SENTENCES)
def sentence_encoder(fields: Mapping[str, Any], where: str, name: str) -> WholeModel:
    """A vector for each text, pooled as sentence-transformers' files say."""
    upper, lower = published_tokenizer(name).encode(["A", "a"])
    said = sentences_of(checkpoint_folder(name), lower_case=upper.ids.tolist() == lower.ids.tolist())
    model = {"type": "TextVectors", "encoder": _encoder(fields, where, name, "none")}
    problem = {"type": "Vectors", "pooling": said.pooling or "mean", "normalize": said.normalize}
    return _whole(fields, where, name, model, [], problem, said.max_length)


def _encoder(fields: Mapping[str, Any], where: str, name: str, summary: str) -> dict[str, Any]:
    return {**describe(fields, where, "encoder", name), "summary": summary}


def _whole(
    fields: Mapping[str, Any],
    where: str,
    name: str,
    model: Mapping[str, Any],
    names: list[str],
    problem: Mapping[str, Any],
    longest: int | None = None,
) -> WholeModel:
    longest = min(longest or _LONGEST, encoder_config(fields, where).max_length)
    overrides = {
        "model": {"$replace": {**model, "weights": name}},
        "data.tokenizer": {"$replace": {"type": "PublishedTokenizer", "weights": name}},
        "data.num_classes": len(names) or None,
        "data.classes": names,
        "data.max_length": longest,
        "problem": {"$replace": dict(problem)},
    }
    return WholeModel("nlp/classify", [f"{path}={json.dumps(value)}" for path, value in overrides.items()])
