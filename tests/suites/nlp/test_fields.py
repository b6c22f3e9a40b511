"""Checkpoints of encoders that are nearly ours: read rightly, or refused by the field that makes them another's."""

import json

import pytest

from framework.errors import CheckpointError, DataError
from suites.nlp.models.bert_config import config_from_json
from suites.nlp.tokenizers.folders import tokenizer_of

SIZES = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
    "type_vocab_size": 1,
}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cafe", "café", "Cafe", "中", "国", "中国", "##s"]


@pytest.mark.parametrize("kind", ["roberta", "camembert", "xlm-roberta", "data2vec-text"])
def test_positions_of_robertas_kin_begin_behind_the_padding(kind):
    assert config_from_json({**SIZES, "model_type": kind, "pad_token_id": 1}).first_position == 2
    assert config_from_json({**SIZES, "model_type": kind, "pad_token_id": 5}).first_position == 6


@pytest.mark.parametrize(
    "kind", ["xlm-roberta-xl", "roberta-prelayernorm", "electra", "deberta", "distilbert", "xlnet"]
)
def test_another_kind_of_network_is_refused_by_its_name(kind):
    with pytest.raises(CheckpointError, match=f"model_type is '{kind}'; known are bert"):
        config_from_json({**SIZES, "model_type": kind})


@pytest.mark.parametrize(
    "field",
    [
        {"is_decoder": True},
        {"add_cross_attention": True},
        {"position_embedding_type": "relative_key"},
        {"embedding_size": 4},
        {"pruned_heads": {"0": [1]}},
        {"quantization_config": {"bits": 4}},
        {"auto_map": {"AutoModel": "modeling.New"}},
        {"rope_theta": 10000.0},
        {"adapters": ["a"]},
    ],
    ids=str,
)
def test_a_field_that_changes_the_numbers_is_an_error_never_skipped(field):
    with pytest.raises(CheckpointError, match=f"config.json: {next(iter(field))} is "):
        config_from_json({**SIZES, "model_type": "bert", **field})


@pytest.mark.parametrize("value", ["x", [1], {"a": 1}, True, -1, 1 << 31, float("nan"), 1e999], ids=str)
@pytest.mark.parametrize(
    "field", ["vocab_size", "hidden_size", "layer_norm_eps", "hidden_dropout_prob", "pad_token_id"]
)
def test_a_size_that_is_no_number_is_refused_by_its_field(field, value):
    with pytest.raises(CheckpointError, match=rf"config\.json: .*{field}.* is .*; it must be a"):
        config_from_json({**SIZES, "model_type": "roberta", field: value})


@pytest.mark.parametrize("value", ["7", True, -2])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_number_of_a_special_token_is_a_whole_number(kind, value):
    with pytest.raises(
        CheckpointError, match=r"config\.json: (sep|pad)_token_id is .*(no token|whole number|must be a)"
    ):
        config_from_json({**SIZES, "model_type": kind, "sep_token_id" if kind == "bert" else "pad_token_id": value})


@pytest.mark.parametrize("value", [[1], {"a": 1}, 7], ids=str)
def test_an_activation_that_is_no_text_is_refused(value):
    with pytest.raises(CheckpointError, match=r"hidden_act is .*; known are"):
        config_from_json({**SIZES, "model_type": "bert", "hidden_act": value})


def test_fields_that_are_off_or_only_tell_pass():
    off = {"pruned_heads": {}, "quantization_config": None, "rope_theta": None, "is_decoder": False, "new_thing": False}
    config_from_json({**SIZES, "model_type": "bert", "architectures": ["BertModel"], "torch_dtype": "float32", **off})


@pytest.fixture
def folder(tmp_path):
    """Makes a checkpoint's folder with a vocabulary and settings of its tokenizer."""

    def make(settings=None, whole=None, vocab=True):
        if vocab:
            (tmp_path / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
        if settings is not None:
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        if whole is not None:
            (tmp_path / "tokenizer.json").write_text(json.dumps(whole))
        return tmp_path

    return make


def tokens(folder, text):
    return [WORDS[i] for i in tokenizer_of(folder).encode([text])[0].ids]


def whole(**changes):
    normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
    return {
        "normalizer": {**normalizer, "lowercase": True, **changes},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "vocab": {word: i for i, word in enumerate(WORDS)}, "unk_token": "[UNK]"},
        "added_tokens": [{"content": "[CLS]", "special": True}],
    }


CASES = [
    ({"do_lower_case": True}, "Café", ["cafe"]),
    ({"do_lower_case": True, "strip_accents": False}, "Café", ["café"]),
    ({"do_lower_case": False, "strip_accents": True}, "Café", ["Cafe"]),
    ({"tokenize_chinese_chars": True}, "中国", ["中", "国"]),
    ({"tokenize_chinese_chars": False}, "中国", ["中国"]),
]


@pytest.mark.parametrize(("settings", "text", "expected"), CASES, ids=str)
def test_accents_and_chinese_characters_are_as_the_settings_say(folder, settings, text, expected):
    assert tokens(folder(settings), text) == expected


@pytest.mark.parametrize(("settings", "text", "expected"), CASES, ids=str)
def test_a_folder_without_vocab_txt_is_read_from_tokenizer_json(folder, settings, text, expected):
    assert tokens(folder(settings, whole(), vocab=False), text) == expected


def test_without_settings_tokenizer_json_counts(folder):
    assert tokens(folder(None, whole(lowercase=False, handle_chinese_chars=False)), "Cafe 中国") == ["Cafe", "中国"]


@pytest.mark.parametrize(
    "settings",
    [
        {"do_basic_tokenize": False},
        {"never_split": ["a"]},
        {"tokenizer_class": "BertJapaneseTokenizer"},
        {"unk_token": "<unk>"},
        {"word_tokenizer_type": "mecab"},
    ],
    ids=str,
)
def test_settings_that_are_not_known_are_an_error(folder, settings):
    with pytest.raises(CheckpointError, match=f"tokenizer_config.json: {next(iter(settings))} is "):
        tokenizer_of(folder(settings))


def test_a_tokenizer_of_another_kind_is_refused(folder):
    for changed in ({"model": {"type": "Unigram"}}, {"pre_tokenizer": {"type": "Whitespace"}}, {"normalizer": None}):
        with pytest.raises(CheckpointError, match=r"tokenizer\.json: .* is .*; only .* is known"):
            tokenizer_of(folder(None, {**whole(), **changed}, vocab=False))


@pytest.mark.parametrize("value", [7, 1e999, "text", [7], {"a": [2]}, True], ids=str)
@pytest.mark.parametrize(
    "place",
    [
        ("model",),
        ("model", "vocab"),
        ("normalizer",),
        ("normalizer", "lowercase"),
        ("pre_tokenizer",),
        ("added_tokens",),
    ],
    ids="-".join,
)
def test_a_field_of_another_type_is_refused_by_its_file(folder, place, value):
    fields = whole()
    within = fields if len(place) == 1 else fields[place[0]]
    within[place[-1]] = value
    if (place[-1], value) == ("lowercase", True):
        assert tokens(folder(None, fields, vocab=False), "Cafe") == ["cafe"]
        return
    if (place, value) == (("model",), {"a": [2]}):  # an object, without a vocabulary
        with pytest.raises(DataError, match=r"vocab\.txt: no such file"):
            tokenizer_of(folder(None, fields, vocab=False))
        return
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: "):
        tokenizer_of(folder(None, fields, vocab=False))


@pytest.mark.parametrize("value", [7, 1e999, "text", [1]], ids=str)
@pytest.mark.parametrize("field", ["do_lower_case", "strip_accents", "tokenize_chinese_chars"])
def test_a_switch_that_is_neither_on_nor_off_is_refused(folder, field, value):
    with pytest.raises(CheckpointError, match=rf"tokenizer_config\.json: {field} is '.*'; it must be true or false"):
        tokenizer_of(folder({field: value}))


@pytest.mark.parametrize(
    "changes", [{"vocab": {"a": "b"}}, {"vocab": {"a": 0.0}}, {"merges": 5}, {"merges": [5]}], ids=str
)
def test_byte_pairs_of_another_type_are_refused_by_their_file(folder, changes):
    fields = {"pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {}, "merges": [], **changes}}
    with pytest.raises((CheckpointError, DataError), match=r"tokenizer"):
        tokenizer_of(folder(None, fields, vocab=False))


@pytest.mark.parametrize("field", ["vocab_size", "max_position_embeddings", "num_hidden_layers"])
def test_a_network_that_no_file_could_fill_is_refused_before_it_is_made(field):
    with pytest.raises(CheckpointError, match=r"has too many bytes|at most 4096 are made"):
        config_from_json({**SIZES, "model_type": "bert", "hidden_size": 64, field: 2**31 - 1})
