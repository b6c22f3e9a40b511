"""tokenizer.json: byte-level pairs, Unigram and WordPiece, with the special tokens that they put around texts."""

import json
import pickle

import numpy as np
import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import models, normalizers, pre_tokenizers, processors

from framework.errors import CheckpointError
from suites.nlp.sequences import Sequencer
from suites.nlp.tokenizers import JsonTokenizer, PublishedTokenizer, tokenizer_from
from suites.nlp.tokenizers.json_files import published_tokenizer

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())


def made(kind, around=True):
    """A small tokenizer as `tokenizers` writes it."""
    if kind == "byte pairs":
        vocab = {token: i for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>", *ALPHABET, "he", "Ġa"])}
        engine = Engine(models.BPE(vocab, [("h", "e"), ("Ġ", "a")], unk_token="<unk>"))
        engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        if around:
            engine.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    elif kind == "unigram":
        pieces = [
            ("<unk>", 0.0),
            ("<s>", 0.0),
            ("</s>", 0.0),
            ("▁a", -1.0),
            ("▁b", -1.0),
            ("▁", -2.0),
            ("he", -1.5),
            ("a", -2.0),
        ]
        engine = Engine(models.Unigram(pieces, unk_id=0))
        engine.normalizer = normalizers.Sequence(
            [normalizers.Strip(), normalizers.Replace(__import__("tokenizers").Regex(" {2,}"), " ")]
        )
        engine.pre_tokenizer = pre_tokenizers.Metaspace()
        if around:
            engine.post_processor = processors.TemplateProcessing(
                single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
            )
    else:
        vocab = {
            token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "he", "##a"])
        }
        engine = Engine(models.WordPiece(vocab, unk_token="[UNK]"))
        engine.normalizer, engine.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        if around:
            engine.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return engine


@pytest.mark.parametrize(
    ("kind", "between", "segments"), [("byte pairs", 2, 1), ("unigram", 2, 1), ("word pieces", 1, 2)]
)
def test_texts_and_pairs_are_those_of_the_file(kind, between, segments):
    engine = made(kind)
    tokenizer = JsonTokenizer(engine.to_str())
    assert (tokenizer.closings_between, tokenizer.segments, tokenizer.size) == (
        between,
        segments,
        engine.get_vocab_size(),
    )
    sequencer = Sequencer(tokenizer)
    for first, second in (("he a", None), ("a  he", "b a"), ("zz é", "he")):
        a, b = (None if text is None else sequencer.tokens([text])[0].ids for text in (first, second))
        found = sequencer.join(*sequencer.cut(a, b))
        theirs = engine.encode(first) if second is None else engine.encode(first, second)
        assert found.ids.tolist() == theirs.ids
        assert found.segment_ids.tolist() == (theirs.type_ids if segments > 1 else [0] * len(theirs.ids))
    copy = tokenizer_from(json.loads(json.dumps(tokenizer.metadata())))
    assert [t.ids.tolist() for t in copy.encode(["he a b"])] == [t.ids.tolist() for t in tokenizer.encode(["he a b"])]
    assert all(len(ids) for ids in tokenizer.encode_words(["he", "", "a"]))


def test_words_of_byte_pairs_stand_behind_a_space():
    tokenizer = JsonTokenizer(made("byte pairs").to_str())
    assert [tokenizer.vocabulary[i] for i in tokenizer.encode_words(["a"])[0]] == ["Ġa"]


@pytest.mark.parametrize("kind", ["byte pairs", "unigram", "word pieces"])
def test_a_tokenizer_without_its_special_tokens_is_an_error(kind):
    with pytest.raises(CheckpointError, match="puts 0 special tokens around a text"):
        JsonTokenizer(made(kind, around=False).to_str())


def test_special_tokens_are_those_that_are_said(tmp_path):
    (tmp_path / "tokenizer.json").write_text(made("word pieces").to_str())
    (tmp_path / "tokenizer_config.json").write_text('{"cls_token": "[CLS]", "mask_token": {"content": "[MASK]"}}')
    assert published_tokenizer(tmp_path).mask == 4
    (tmp_path / "tokenizer_config.json").write_text('{"cls_token": "<s>"}')
    with pytest.raises(CheckpointError, match=r"cls_token is said to be '<s>', and the tokenizer has '\[CLS\]'"):
        published_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "has no model with a vocabulary"),
        ('{"model": {"type": "BPE"}}', "has no model with a vocabulary"),
        ('{"model": {"type": "Neural", "vocab": {}}}', "model.type is 'Neural'"),
        ('{"model": {"type": "BPE", "vocab": {"a": 0}}}', "is no tokenizer that `tokenizers` reads"),
    ],
)
def test_damaged_files(text, message):
    with pytest.raises(CheckpointError, match=message):
        JsonTokenizer(text)


def test_an_expression_that_takes_exponential_time_is_refused():
    fields = json.loads(made("byte pairs").to_str())
    fields["pre_tokenizer"] = {
        "type": "Split",
        "pattern": {"Regex": "(a|a)*b"},
        "behavior": "Isolated",
        "invert": False,
    }
    with pytest.raises(CheckpointError, match=r"pre_tokenizer: pattern .*exponential time"):
        JsonTokenizer(json.dumps(fields))


def test_files_are_read_when_the_tokenizer_is_needed(tmp_path):
    tokenizer = PublishedTokenizer(str(tmp_path))
    (tmp_path / "tokenizer.json").write_text(made("unigram").to_str())
    assert tokenizer.size == 8 and tokenizer.metadata()["kind"] == "json"
    assert np.array_equal(
        pickle.loads(pickle.dumps(tokenizer)).encode(["a b"])[0].ids, tokenizer.encode(["a b"])[0].ids
    )
    with pytest.raises(CheckpointError, match=r"no tokenizer\.json and no vocab\.txt"):
        published_tokenizer(__file__)


@pytest.mark.parametrize(
    "model",
    [
        models.BPE({"a": 0, "b": 1, "<s>": 2, "</s>": 3}, [], unk_token="<unk>"),
        models.WordPiece({"a": 0, "b": 1, "<s>": 2, "</s>": 3}, unk_token="<unk>"),
        models.Unigram([("a", 0.0), ("b", -1.0), ("<s>", -2.0), ("</s>", -2.0)]),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_text_of_unknown_characters_is_one_error_where_no_token_stands_for_them(model):
    engine = Engine(model)
    engine.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    tokenizer = JsonTokenizer(engine.to_str(), where="mine/tokenizer.json")
    assert tokenizer.encode(["a"])[0].ids.tolist() == [0]
    with pytest.raises(CheckpointError, match=r"mine/tokenizer.json: cannot take these texts: a character of them has"):
        tokenizer.encode(["a", "中"])
