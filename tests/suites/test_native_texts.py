"""Tokenizers in C++ give the tokens of Python's, for real texts and for random ones of all of Unicode."""

import json
import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import framework
from framework.graph.files import save_program
from suites.nlp.problems.classification import Classification
from suites.nlp.processor import TextProcessor
from suites.nlp.sequences import Sequencer
from suites.nlp.tokenizers.base import tokenizer_from
from suites.nlp.tokenizers.byte_pairs import RobertaTokenizer
from suites.nlp.tokenizers.json_files import _TRUSTED, JsonTokenizer
from suites.nlp.tokenizers.subwords import CharacterTokenizer, SubwordTokenizer
from suites.nlp.tokenizers.wordpiece import BertTokenizer, ErnieTokenizer
from tests.native import C, NativeError, NativePredictor, NativeTokenizer, PreparedTexts
from tools import unicode_tables

ROOT = Path(__file__).resolve().parents[2]
N, P = normalizers, pre_tokenizers


@cache
def real_texts():
    """Lines of our own documents, English and Chinese."""
    files = [*sorted((ROOT / "docs").rglob("*.md"))[:60], ROOT / "CHANGELOG.md"]
    lines = [line for file in files for line in file.read_text().splitlines() if line.strip()]
    return random.Random(0).sample(lines, min(len(lines), 1000))


# Characters that are special to some part of some tokenizer.
_ODD = (
    " \t\n\r\x0b\x0c\x00\x07\x1c\x1f\x7f\x85\xa0\xad\u1680\u2000\u2007\u200b\u200d\u2028\u202f\u2060\u3000\ufeff\ufffd"
    "'‘’\"“”!?.,;:-_—()[]{}<>/\\|@#$%^&*+=~`«»¡¿。、，；：（）【】"
    "aAzZ09éÉèñÑßẞİıŞșſK\u212a\u0301\u0300\u0308\u0327\u0345\u0334\u05b0\u0e38\u1100\u1161\u11a8가각힣"
    "ΆΣσςΑЙйёЁіІאבָّع٣٤०१२中文北京〇々ー々カガｶﾞﬁﬀ①½²³Ⅷ㈱㍿豈\U0002f800𠀀\U0001f600👨‍👩‍👧🇩🇪𝔘𝟘ǅǆǈ\u0f73\u0f71\u1e9b\u0323"
)


def random_texts(count, seed=0):
    rng, found = random.Random(seed), []
    for _ in range(count):
        kind, length = rng.randrange(5), rng.randrange(1, 30)
        if kind == 0:
            found.append("".join(rng.choice(_ODD) for _ in range(length)))
        elif kind == 1:
            codes = (c for c in iter(lambda: rng.randrange(0x110000), None) if not 0xD800 <= c < 0xE000)
            found.append("".join(chr(next(codes)) for _ in range(length)))
        elif kind == 2:
            start = rng.choice((0x80, 0x250, 0x370, 0x590, 0x900, 0xE00, 0x1E00, 0x2000, 0x3040, 0xA900, 0xFB00))
            ends = ("", "", " ", "\u0301")
            found.append("".join(chr(start + rng.randrange(300)) + rng.choice(ends) for _ in range(length)))
        else:
            words, gaps = rng.choice(real_texts()).split(), ("", " ", "  ")
            parts = (rng.choice((*words, rng.choice(_ODD))) + rng.choice(gaps) for _ in range(length))
            found.append("".join(parts))
    specials = ("[MASK]", "[CLS]", "[SEP]", "<mask>", "<s>", "</s>", "<unk>", "[UNK]", "  <mask>", "<|x|>", "<|x")
    return [t + rng.choice(specials) + t[:5] if rng.random() < 0.15 else t for t in found]


@cache
def all_texts():
    edges = ["", " ", "   ", "\n", "a", "é", "'s", " 's 'll 'LL 'ſ", "a" * 300, "ab" * 90, "  two  spaces  "]
    return [*edges, *real_texts(), *random_texts(1500)]


def exported(folder, tokenizer, **more):
    processor = {"tokenizer": tokenizer.metadata(), **more}
    tensors = [framework.tensor(np.zeros(2, np.int64)) for _ in range(3)]
    for value, name in zip(tensors, ("ids", "offsets", "segment_ids"), strict=True):
        value.name = name
    program = framework.program(lambda *given: [x + 1 for x in given]).program_for(*tensors).program
    save_program(program, folder, extra={"suite": "nlp", "processor": processor})
    return NativePredictor(folder)


def assert_same(native, python, texts=None):
    texts = all_texts() if texts is None else texts
    wrong = [
        (text, found, tokens.ids.tolist())
        for text, tokens in zip(texts, python.encode(texts), strict=True)
        if (found := native.encode(text)) != tokens.ids.tolist()
    ]
    assert not wrong, (len(wrong), wrong[:3])


@cache
def pieces():
    """A vocabulary of WordPiece, learnt from our documents."""
    engine = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    engine.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    engine.train_from_iterator(real_texts(), trainers.WordPieceTrainer(vocab_size=3000, special_tokens=special))
    words = [token for token, _ in sorted(engine.get_vocab().items(), key=lambda item: item[1])]
    more = {c for c in _ODD if not c.isspace()} | {f"##{c}" for c in "́̈éß中ςñ0"} | {c.lower() for c in _ODD}
    return [*words, *sorted(more - set(words))]


BERT = [
    {},
    {"lower_case": False},
    {"lower_case": False, "strip_accents": True},
    {"strip_accents": False},
    {"chinese_characters": False},
]


@pytest.mark.parametrize("options", BERT, ids=str)
def test_berts_pieces(options, tmp_path):
    python = BertTokenizer(pieces(), **options)
    assert_same(NativeTokenizer(exported(tmp_path, python)), python)


@pytest.mark.parametrize("lower_case", [True, False])
def test_ernies_pieces(lower_case, tmp_path):
    python = ErnieTokenizer(pieces(), lower_case)
    assert_same(NativeTokenizer(exported(tmp_path, python)), python)


@cache
def byte_pairs(size=2000):
    engine = Tokenizer(models.BPE(unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    engine.train_from_iterator(real_texts(), trainer)
    return engine.to_str()


@pytest.mark.parametrize("prefix_space", [True, False])
def test_robertas_byte_pairs(prefix_space, tmp_path):
    model = json.loads(byte_pairs())["model"]
    vocabulary = [token for token, _ in sorted(model["vocab"].items(), key=lambda item: item[1])]
    merges = ["#version: 0.2", *(" ".join(pair) for pair in model["merges"]), ""]
    python = RobertaTokenizer(vocabulary, merges, prefix_space)
    assert_same(NativeTokenizer(exported(tmp_path, python)), python)


@pytest.mark.parametrize(("kind", "lower_case"), [("bpe", False), ("bpe", True), ("unigram", False), ("unigram", True)])
def test_pieces_that_were_learnt(kind, lower_case, tmp_path):
    python = SubwordTokenizer(1500, kind, lower_case)
    python.learn(real_texts())
    assert_same(NativeTokenizer(exported(tmp_path, python)), python)


def test_single_characters(tmp_path):
    python = CharacterTokenizer(300)
    python.learn(real_texts())
    assert_same(NativeTokenizer(exported(tmp_path, python)), python)


def learnt(model, trainer, normalizer, splitter):
    engine = Tokenizer(model)
    if normalizer is not None:
        engine.normalizer = normalizer
    engine.pre_tokenizer = splitter
    engine.train_from_iterator(real_texts(), trainer)
    return engine


def _unigram(normalizer, splitter):
    trainer = trainers.UnigramTrainer(vocab_size=1500, unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"])
    return lambda: learnt(models.Unigram(), trainer, normalizer, splitter)


def _bpe(normalizer, splitter, **options):
    special = ["<unk>", "<s>", "</s>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet() if "ByteLevel" in str(splitter) else []
    trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=special, initial_alphabet=alphabet)
    return lambda: learnt(models.BPE(unk_token="<unk>", **options), trainer, normalizer, splitter)


def _split(number):
    part = pre_tokenizers.Split(Regex(sorted(_TRUSTED)[number]), "isolated")
    return pre_tokenizers.Sequence([part, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _word_piece():
    engine = learnt(
        models.WordPiece(unk_token="[UNK]"),
        trainers.WordPieceTrainer(vocab_size=1500, special_tokens=["[UNK]", "[CLS]", "[SEP]"]),
        normalizers.Sequence([N.NFD(), N.StripAccents(), N.Lowercase(), N.Strip()]),
        pre_tokenizers.Whitespace(),
    )  # fmt: skip
    engine.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return engine


def _added(make, **how):
    def build():
        engine = make()
        from tokenizers import AddedToken

        engine.add_special_tokens(["<|x|>", "<|x|><|x|>"])
        engine.add_tokens([AddedToken("<mask>", **how), AddedToken("Paddock", normalized=True)])
        return engine

    return build


ENGINES = {
    "unigram_nfkc": _unigram(N.NFKC(), P.Metaspace()),
    "unigram_nfkd_first": _unigram(N.Sequence([N.NFKD(), N.Lowercase()]), P.Metaspace(prepend_scheme="first")),
    "unigram_whole": _unigram(N.NFC(), P.Metaspace(prepend_scheme="never", split=False)),
    "bpe_words": _bpe(N.Sequence([N.Replace("``", '"'), N.Prepend(" ")]), P.WhitespaceSplit()),
    "bpe_fused": _bpe(N.NFC(), P.Metaspace(), fuse_unk=True),
    "bpe_bytes_nfc": _bpe(N.NFC(), P.ByteLevel(add_prefix_space=True)),
    "bpe_gpt4_one_digit": _bpe(None, _split(0)),
    "bpe_gpt4_three_digits": _bpe(N.NFC(), _split(1), ignore_merges=True),
    "bpe_bert_words": _bpe(None, P.Sequence([P.WhitespaceSplit(), P.BertPreTokenizer()])),
    "word_piece": _word_piece,
    "added": _added(_bpe(None, P.ByteLevel()), lstrip=True, rstrip=True),
    "added_in_normal_text": _added(_bpe(N.Lowercase(), P.ByteLevel()), normalized=True),
}


@pytest.mark.parametrize("name", ENGINES)
def test_a_tokenizer_json_gives_the_tokens_that_the_library_gives(name, tmp_path):
    engine = ENGINES[name]()
    (tmp_path / "tokenizer.json").write_text(engine.to_str())
    native = NativeTokenizer(tmp_path / "tokenizer.json")
    texts = all_texts()
    expected = [found.ids for found in engine.encode_batch(texts, add_special_tokens=False)]
    wrong = [(t, f, e) for t, e in zip(texts, expected, strict=True) if (f := native.encode(t)) != e]
    assert not wrong, (len(wrong), wrong[:3])
    for token, number in list(engine.get_vocab().items())[::50]:
        assert native.number(token) == number
    assert native.number("no such token") == -1


def test_whole_words(tmp_path):
    engine = Tokenizer(models.WordLevel({"<unk>": 0, "the": 1, "model": 2, ".": 3}, unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    (tmp_path / "t.json").write_text(engine.to_str())
    native = NativeTokenizer(tmp_path / "t.json")
    texts = all_texts()
    assert [native.encode(t) for t in texts] == [e.ids for e in engine.encode_batch(texts)]


def processor_of(tokenizer, pair, truncation, length=24):
    return TextProcessor(Classification(pair=pair), Sequencer(tokenizer, (), length, truncation), ["a", "b"])


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("kind", ["bert", "roberta", "json", "template"])
def test_a_batch_of_texts_is_joined_as_in_python(kind, pair, tmp_path):
    for truncation in ("longest_first", "only_first", "only_second", "half") if pair else ("longest_first",):
        python = processor_of(made(kind), pair, truncation)
        more = {name: value for name, value in python.metadata().items() if name != "tokenizer"}
        model = exported(tmp_path / truncation, python.sequencer.tokenizer, **more)
        texts = [t for t in all_texts()[:400] if t]
        seconds = texts[::-1] if pair else None
        items = [python.from_json([a, b] if pair else a) for a, b in zip(texts, seconds or texts, strict=True)]
        expected, found = python.prepare(items), PreparedTexts(model, texts, seconds)
        for index, name in enumerate(("ids", "offsets", "segment_ids")):
            assert found.input(index).tolist() == expected[name].tolist(), name


def made(kind):
    """A tokenizer with tokens around texts."""
    if kind == "bert":
        return BertTokenizer(pieces())
    if kind == "roberta":
        model = json.loads(byte_pairs())["model"]
        vocabulary = [token for token, _ in sorted(model["vocab"].items(), key=lambda item: item[1])]
        return RobertaTokenizer(vocabulary, [" ".join(pair) for pair in model["merges"]])
    if kind == "json":
        return JsonTokenizer(_word_piece().to_str())
    engine = Tokenizer.from_str(byte_pairs())
    engine.decoder = decoders.ByteLevel()
    engine.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B:1 </s>:1", special_tokens=[("<s>", 0), ("</s>", 2)]
        ),
    ])  # fmt: skip
    return JsonTokenizer(engine.to_str())


def change(**parts):
    return lambda d: d.update(parts)


def model_change(**parts):
    return lambda d: d["model"].update(parts)


BAD = {
    "an unknown normalizer": (change(normalizer={"type": "Nmt"}), "the normalizer Nmt is not done"),
    "an unknown splitter": (change(pre_tokenizer={"type": "Digits"}), "the pre-tokenizer Digits is not done"),
    "an unknown model": (model_change(type="Neural"), "the model Neural is not done"),
    "another expression": (
        change(pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}),
        r"the expression \(a\+\)\+\$ is not done",
    ),
    "another behaviour": (
        change(pre_tokenizer={"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Removed"}),
        "a Split that is not by an expression whose matches are isolated",
    ),
    "a first word behind others": (
        change(pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}]}),
        "a Metaspace of the first word behind others",
    ),
    "bytes for unknown": (model_change(byte_fallback=True), "byte_fallback of BPE is not done"),
    "a suffix": (model_change(end_of_word_suffix="</w>"), "a BPE with 'end_of_word_suffix' is not done"),
    "dropout": (model_change(dropout=0.1), "dropout is not done"),
    "a single word": (
        lambda d: d["added_tokens"][0].update(single_word=True), "an added token that is a single word is not done"
    ),
    "another number": (lambda d: d["added_tokens"][1].update(id=77), "whose number does not go on behind"),
    "a merge of none": (lambda d: d["model"]["merges"].append(["a", "no"]), "the merge 'a no' names what is no token"),
    "a merge of three": (lambda d: d["model"]["merges"].append("a b c"), "a merge that is no two tokens"),
    "no vocabulary": (lambda d: d["model"].pop("vocab"), "a model without a vocabulary is not done"),
    "a list of tokens": (model_change(vocab=[]), "a vocabulary that is no object is not done"),
    "a number twice": (
        lambda d: d["model"]["vocab"].update(zz=d["model"]["vocab"]["a"]), "'(a|zz)' and '(a|zz)' have the same number"
    ),
    "an added token's number twice": (
        lambda d: (d["model"]["vocab"].update({"<gap>": len(d["model"]["vocab"]) + 1}),
                   d["added_tokens"].append({"id": len(d["model"]["vocab"]), "content": "<new>", "special": True})),
        "'<gap>' and '<new>' have the same number",
    ),
    "a negative number": (lambda d: d["model"]["vocab"].update(a=-1), "the number of a token is none"),
    "no model": (lambda d: d.pop("model"), "a text that is no tokenizer.json is not done"),
    "a number as type": (change(normalizer={"type": 3}), "a part whose 'type' is a whole number"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_tokenizer_that_asks_for_something_else_is_refused_by_its_name(name, tmp_path):
    change, words = BAD[name]
    data = json.loads(byte_pairs())
    change(data)
    (tmp_path / "t.json").write_text(json.dumps(data))
    with pytest.raises(NativeError, match=words):
        NativeTokenizer(tmp_path / "t.json")


def test_what_is_no_file_no_json_or_no_utf8_is_refused(tmp_path):
    bad = ((b"{", "t.json: not valid JSON"), (b'{"a": "\xff"}', "not UTF-8"), (b"[]", "is no tokenizer"))
    for content, words in bad:
        (tmp_path / "t.json").write_bytes(content)
        with pytest.raises(NativeError, match=words):
            NativeTokenizer(tmp_path / "t.json")
    with pytest.raises(NativeError, match="cannot be opened"):
        NativeTokenizer(tmp_path / "none.json")
    (tmp_path / "t.json").write_text(byte_pairs())
    native = NativeTokenizer(tmp_path / "t.json")
    for text in (b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"):
        with pytest.raises(NativeError, match="the text is no UTF-8"):
            native.encode(text)


def test_exports_whose_texts_are_prepared_otherwise_are_refused(tmp_path):
    metadata = processor_of(BertTokenizer(pieces()), False, "half").metadata()
    del metadata["tokenizer"]
    for number, (more, words) in enumerate((
        ({"problem": {"type": "Reading"}}, "the export's problem is Reading; this library joins texts for"),
        ({"transforms": [{"type": "RemoveSpaces"}]}, "the export changes texts by transforms"),
        ({"characters": {"length": 8}}, "the export reads the characters of words, which this library does not spell"),
        ({"max_length": 7}, "max_length of the export"),
        ({"problem": {"type": "Classification", "pair": True}}, "text 0 is single; the model takes pairs"),
    )):  # fmt: skip
        model = exported(tmp_path / str(number), BertTokenizer(pieces()), **{**metadata, **more})
        with pytest.raises(NativeError, match=words):
            PreparedTexts(model, ["a"])
    model = exported(tmp_path / "whole", BertTokenizer(pieces()), **metadata)
    with pytest.raises(NativeError, match="text 0 is a pair; the model takes single texts"):
        PreparedTexts(model, ["a"], ["b"])
    assert PreparedTexts(model.clone(), ["", "a b"]).input(1).tolist()[-1] > 4
    with pytest.raises(NativeError, match="these are no pictures"):
        PreparedTexts(model, ["a"]).boxes(0, np.zeros((1, 4)))


def test_a_long_word_takes_linear_time_and_no_deep_stack(tmp_path):
    (tmp_path / "t.json").write_text(byte_pairs())
    native, engine = NativeTokenizer(tmp_path / "t.json"), Tokenizer.from_str(byte_pairs())
    for text in ("a" * 200_000, "the" * 60_000, "é\u0301" * 20_000, "<mask>" * 20_000):
        assert native.encode(text) == engine.encode(text, add_special_tokens=False).ids
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0)], unk_id=0, byte_fallback=False))
    unigram.save(str(tmp_path / "u.json"))
    assert NativeTokenizer(tmp_path / "u.json").encode("中" * 3_000_000) == [0]  # minutes, were it quadratic


def test_a_character_without_a_token_is_an_error_where_the_unknown_token_is_missing(tmp_path):
    data = json.loads(Tokenizer(models.BPE({"a": 0}, [], unk_token="<unk>")).to_str())
    (tmp_path / "t.json").write_text(json.dumps(data))
    native = NativeTokenizer(tmp_path / "t.json")
    assert native.encode("aa") == [0, 0]
    with pytest.raises(NativeError, match="a character is no token, and the vocabulary lacks <unk>"):
        native.encode("ab")


@pytest.mark.parametrize("kind", ["bert", "json"])
def test_metadata_lead_to_the_same_tokenizer_in_both(kind, tmp_path):
    python = made(kind)
    again = tokenizer_from(json.loads(json.dumps(python.metadata())))
    assert_same(NativeTokenizer(exported(tmp_path, python)), again, all_texts()[:200])


@pytest.mark.slow
def test_the_tables_are_what_the_installed_library_says():
    assert unicode_tables.FILE.read_text() == unicode_tables.text()


def test_a_tokenizer_that_is_none_has_no_numbers():
    assert C.paddock_token_number(None, b"a") == -1
