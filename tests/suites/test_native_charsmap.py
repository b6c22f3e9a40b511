"""sentencepiece's tables of characters (`Precompiled` of T5, XLM-R) in C++ as the library `tokenizers` has them."""

import base64
import io
import json
import random
import struct
from functools import cache

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from tests.native import NativeError, NativeTokenizer
from tests.suites.test_native_texts import all_texts, real_texts
from tools.unicode_tables import charsmap

N, P = normalizers, pre_tokenizers
# Of each kind that decides where clusters end, and what sentencepiece's tables change.
_MIXED = (
    "a e é \u0301 \u0308 \u0327 \u200d \u200c \ufe0f \u20e3 1 © ® ™ ☺ \U0001f600 \U0001f468 \U0001f3fb \U0001f1e9 "
    "\U0001f1ea \u1100 \u1161 \u11a8 각 가 \u115f \ua960 \ud7b0 \ud7cb क \u094d ष \u0958 \u093c \u0903 র \u09cd "
    "\u0e33 ก \u0600 \u06dd \U000110bd \r \n \r\n \x00 \x07 \xad \u200b \u2028 \ufeff ﬁ ① ㍿ ｶ ﾞ か \u3099 ℌ "
    "ｆ\u3000 Å \u212b ß \u1e9b\u0323"
)
CLUSTERED = _MIXED.split(" ")


def clustered(count, seed=0):
    rng = random.Random(seed)
    return ["".join(rng.choice(CLUSTERED) for _ in range(rng.randrange(1, 9))) for _ in range(count)]


@cache
def trained(rule):
    """(table, pieces with scores) of a model that sentencepiece learns from our documents."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(real_texts()), model_writer=file, vocab_size=1200, normalization_rule_name=rule,
        minloglevel=2, num_threads=1,
    )  # fmt: skip
    model = sentencepiece_model_pb2.ModelProto.FromString(file.getvalue())
    return model.normalizer_spec.precompiled_charsmap, [(piece.piece, piece.score) for piece in model.pieces]


def assert_same(engine, folder, texts):
    (folder / "tokenizer.json").write_text(engine.to_str())
    native = NativeTokenizer(folder / "tokenizer.json")
    expected = [found.ids for found in engine.encode_batch(texts, add_special_tokens=False)]
    wrong = [(t, f, e) for t, e in zip(texts, expected, strict=True) if (f := native.encode(t)) != e]
    assert not wrong, (len(wrong), wrong[:3])


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nmt_nfkc_cf", "nfkc"])
@pytest.mark.parametrize("form", ["xlm_roberta", "t5"])
def test_models_of_sentencepiece_give_the_tokens_that_the_library_gives(rule, form, tmp_path):
    table, pieces = trained(rule)
    engine = Tokenizer(models.Unigram(pieces, unk_id=0))
    if form == "xlm_roberta":
        engine.normalizer = N.Precompiled(table)
        engine.pre_tokenizer = P.Sequence([P.WhitespaceSplit(), P.Metaspace()])
    else:  # as converters write it today
        engine.normalizer = N.Sequence([N.Precompiled(table), N.Strip(left=False), N.Replace(Regex(" {2,}"), "▁")])
        engine.pre_tokenizer = P.Metaspace(prepend_scheme="always")
    assert_same(engine, tmp_path, [*all_texts(), *clustered(3000)])


def by_bytes(table):
    """A tokenizer whose tokens are the bytes of the changed text."""
    engine = Tokenizer(models.BPE({c: i for i, c in enumerate(P.ByteLevel.alphabet())}, []))
    engine.normalizer = N.Precompiled(table)
    engine.pre_tokenizer = P.ByteLevel(add_prefix_space=False, use_regex=False)
    return engine


@pytest.mark.parametrize("seed", range(6))
def test_clusters_end_where_the_library_ends_them(seed, tmp_path):
    rng = random.Random(seed)
    characters = sorted({c for text in CLUSTERED for c in text if c != "\0"})
    keys = rng.sample(characters, len(characters) * 2 // 3)
    keys += ["".join(rng.choice(characters) for _ in range(2)) for _ in range(40)]
    rules = {key: rng.choice(("", "x", "[y]", "日本", "\u0301", key * 2)) for key in keys}
    assert_same(by_bytes(charsmap(rules)), tmp_path, clustered(4000, seed))


def test_every_character_between_others_is_cut_as_the_library_cuts_it(tmp_path):
    """Neighbours that attach, join and link, with a table by which a cluster differs from its characters."""
    rules = {"a": "Y", "\u0301": "X", "©": "Y", "\u0915": "Z", "\u1161": "V", "\u0958": "Q", "각": "K"}
    rng = random.Random(0)
    around = ("a", "©", "\u0915", "\u094d", "\u200d", "\u1100", "\u1161", "\u0301", "\u0958", "각", "\r")
    codes = [*range(0x3000), *rng.sample(range(0x3000, 0xD800), 3000), *range(0xE0000, 0xE01F0)]
    codes += rng.sample(range(0x10000, 0x20000), 6000)
    texts = ["".join((rng.choice(around), rng.choice(around), chr(c), rng.choice(around), "\u0301a")) for c in codes]
    assert_same(by_bytes(charsmap(rules)), tmp_path, texts)


def written(folder, table):
    data = json.loads(by_bytes(charsmap({"a": "b"})).to_str())
    data["normalizer"]["precompiled_charsmap"] = table
    (folder / "t.json").write_text(json.dumps(data))
    return folder / "t.json"


def changed(units=None, texts=None, size=None):
    table = charsmap({"a": "b"})
    count = struct.unpack_from("<I", table)[0] // 4
    own = list(struct.unpack_from(f"<{count}I", table, 4))
    for at, unit in (units or {}).items():
        own[at] = unit
    head = struct.pack("<I", 4 * count if size is None else size)
    return head + struct.pack(f"<{count}I", *own) + (table[4 + 4 * count :] if texts is None else texts)


LEAF = next(
    at for at, unit in enumerate(struct.unpack_from("<768I", charsmap({"a": "b"}), 4)) if unit >> 31
)  # fmt: skip
BAD = {
    "no bytes": (b"", "has no header"),
    "half a header": (b"\1\0", "has no header"),
    "no units": (b"\0\0\0\0", "has 0 units"),
    "fewer bytes than it says": (changed(size=1 << 30), "is cut off"),
    "too many units": (struct.pack("<I", 4 << 19) + bytes(4 << 19), "has 524288 units"),
    "a step out of it": (changed({0: 0x1FFFFF << 10}), "leads out of itself"),
    "a text beyond the end": (changed({LEAF: 1 << 31 | 3}), "names a text that is none"),
    "a text within a character": (changed({LEAF: 1 << 31 | 1}, "é\0".encode()), "names a text that is none"),
    "texts that are none": (changed(texts=b"\xff\0"), "texts that are no UTF-8"),
}


@pytest.mark.parametrize("name", BAD)
def test_damaged_tables_are_refused_when_they_are_loaded(name, tmp_path):
    table, words = BAD[name]
    with pytest.raises(NativeError, match=f"the table of the normalizer Precompiled .*{words}"):
        NativeTokenizer(written(tmp_path, base64.b64encode(table).decode()))


def test_a_table_that_is_no_base64_is_refused(tmp_path):
    for text in ("AAA", "AA*A", "é==="):
        with pytest.raises(NativeError, match="Precompiled is no Base64"):
            NativeTokenizer(written(tmp_path, text))
    with pytest.raises(NativeError, match="a part whose 'precompiled_charsmap' is null"):
        NativeTokenizer(written(tmp_path, None))
    (tmp_path / "t.json").write_text(by_bytes(charsmap({"a": "b"})).to_str().replace("precompiled_charsmap", "other"))
    with pytest.raises(NativeError, match="a part whose 'precompiled_charsmap' is missing"):
        NativeTokenizer(tmp_path / "t.json")
