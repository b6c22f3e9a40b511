"""Tokenizers give the tokens and places that the models' authors' programs give, whatever the text."""

import json
import unicodedata
import zipfile

import numpy as np
import pytest

from framework.errors import AttributeValueError, CheckpointError, DataError
from suites.nlp.tokenizers import (
    BertTokenizer,
    ErnieTokenizer,
    SentencePieceTokenizer,
    WordTokenizer,
    tokenizer_from,
)
from suites.nlp.tokenizers.base import read_vocabulary
from suites.nlp.tokenizers.segmentation import Segmenter, read_dictionary

VOCABULARY = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "un", "##aff", "##able", ",", "!", "你", "好",
    "cafe", "Cafe", "a", "##b", "##c", "1", "##2", "e", "\u0301", "ß", "-", "$",
]  # fmt: skip

STRINGS = [
    "", " ", "\t\n\r", "Hello, world!", "unaffable unaffables", "你好hello你好", "CAFÉ café Cafe\u0301", "a" * 99,
    "a" * 100, "a" * 101, "😀 hello 😀😀", "a\u200db\u200bc\ufeffhello", "\x00hello\x7f\x1fworld", "\ufffdhello",
    "hello\u00a0world\u3000hello\u2028world", "[SEP] hello [MASK]", "[sep]", "ßẞ ﬁ Ⅷ ②", "ＨＥＬＬＯ，１２",
    "한국어 テスト カタカナ",
    "\U00020000\U0002a6dfhello", "\ue000hello\uf8ff", "e\u0301\u0301\u0301", "12-12,12$!", "ǅ ŉ İ i̇", "hello" * 30,
    "，。！？「」《》……——", "\u0604\u0605 नमस्ते ไทย", "👩‍👩‍👧‍👦 🇨🇳 ❤️", "\u2018hello\u2019 \u201cworld\u201d",
]  # fmt: skip


def is_control(c):
    return c not in "\t\n\r" and unicodedata.category(c).startswith("C")


def is_space(c):
    return c in " \t\n\r" or unicodedata.category(c) == "Zs"


def is_punctuation(c):
    code = ord(c)
    ascii_mark = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return ascii_mark or unicodedata.category(c).startswith("P")


def is_chinese(c):
    ranges = (
        (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
        (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
    )  # fmt: skip
    return any(a <= ord(c) <= b for a, b in ranges)


def bert_words(text, lower):
    """Google's BasicTokenizer in its own words."""
    kept = "".join(" " if is_space(c) else c for c in text if c not in "\x00\ufffd" and not is_control(c))
    spread = "".join(f" {c} " if is_chinese(c) else c for c in kept)
    for word in spread.split():
        if lower:
            word = "".join(c for c in unicodedata.normalize("NFD", word.lower()) if unicodedata.category(c) != "Mn")
        run = ""
        for c in word:
            if is_punctuation(c):
                yield from ([run] if run else [])
                yield c
                run = ""
            else:
                run += c
        yield from ([run] if run else [])


def word_pieces(word, known):
    if len(word) > 100:
        return ["[UNK]"]
    pieces, start = [], 0
    while start < len(word):
        ends = [e for e in range(len(word), start, -1) if ("##" * (start > 0)) + word[start:e] in known]
        if not ends:
            return ["[UNK]"]
        pieces.append(("##" * (start > 0)) + word[start : ends[0]])
        start = ends[0]
    return pieces


def reference(text, vocabulary, lower):
    known = set(vocabulary)
    return [piece for word in bert_words(text, lower) for piece in word_pieces(word, known)]


def corpus(shared_data, stride):
    """Every `stride`-th line of English and Chinese data sets, simplified and traditional."""
    names = (
        ("nlp/sst2/sst2.zip", "train.tsv"),
        ("nlp/chnsenticorp/chnsenticorp.zip", "train.tsv"),
        ("nlp/ocnli/ocnli.zip", "dev.json"),
        ("nlp/drcd/drcd.zip", "DRCD_dev.json"),
    )
    texts = [zipfile.ZipFile(shared_data(zip_)).read(name).decode() for zip_, name in names]
    return [line for text in texts for line in text.replace('"', "\n").split("\n")][::stride]


@pytest.mark.parametrize("lower", [True, False])
def test_bert_gives_the_pieces_of_its_definition(lower):
    tokenizer = BertTokenizer(VOCABULARY, lower_case=lower)
    # Where the two programs of Hugging Face differ, the faster one counts: private characters stay, special tokens
    # in a text are special, and its Unicode tables are newer than Python's.
    strings = [s for s in STRINGS if "[" not in s and "\ue000" not in s and "\u0604" not in s]
    for text, tokens in zip(strings, tokenizer.encode(strings), strict=True):
        assert [VOCABULARY[i] for i in tokens.ids] == reference(text, VOCABULARY, lower), text


SLICES = pytest.mark.parametrize("stride", [97, pytest.param(7, marks=pytest.mark.slow)])


@SLICES
def test_bert_gives_the_pieces_of_its_definition_on_a_corpus(shared_data, stride):
    vocabulary = read_vocabulary(str(shared_data("nlp/vocab/bert_chinese_vocab.txt")))
    texts = corpus(shared_data, stride)
    tokenizer = BertTokenizer(vocabulary)
    for text, tokens in zip(texts, tokenizer.encode(texts), strict=True):
        assert [vocabulary[i] for i in tokens.ids] == reference(text, vocabulary, True), text
        changed = text.lower()
        for i, (start, end) in zip(tokens.ids, tokens.spans.tolist(), strict=True):
            piece = vocabulary[i].removeprefix("##")
            if piece != "[UNK]" and len(changed) == len(text):
                plain = unicodedata.normalize("NFD", changed[start:end])
                assert "".join(c for c in plain if unicodedata.category(c) != "Mn" and not is_control(c)) == piece


@SLICES
def test_bert_equals_hugging_faces_fast_tokenizer(shared_data, stride):
    """The same engine set up by Hugging Face's description of BERT (its tokenizer.json), places too."""
    from tokenizers import Tokenizer

    vocabulary = read_vocabulary(str(shared_data("nlp/vocab/bert_chinese_vocab.txt")))
    special = [
        {"id": vocabulary.index(t), "content": t, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    ]  # fmt: skip
    described = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "post_processor": None,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": None,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {t: i for i, t in enumerate(vocabulary)}},
    }  # fmt: skip
    theirs = Tokenizer.from_str(json.dumps(described))
    texts = [*STRINGS, *corpus(shared_data, stride)]
    ours = BertTokenizer(vocabulary).encode(texts)
    for tokens, expected in zip(ours, theirs.encode_batch(texts, add_special_tokens=False), strict=True):
        assert tokens.ids.tolist() == expected.ids
        assert [tuple(span) for span in tokens.spans.tolist()] == expected.offsets


def test_unpaired_surrogates_and_long_texts_are_tokenized():
    tokenizer = BertTokenizer(VOCABULARY)
    (tokens,) = tokenizer.encode(["hello \ud83d world\udc00"])
    assert [VOCABULARY[i] for i in tokens.ids] == ["hello", "world"] and tokens.spans.tolist() == [[0, 5], [8, 13]]
    (tokens,) = tokenizer.encode(["你" * 100_000])
    assert len(tokens.ids) == 100_000 and tokens.spans[-1].tolist() == [99_999, 100_000]
    (tokens,) = tokenizer.encode(["a" * 100_000])
    assert tokens.ids.tolist() == [tokenizer.unknown]


def test_words_have_a_token_at_least():
    ids = BertTokenizer(VOCABULARY).encode_words(["unaffable", "\u200b", "你"])
    assert [[VOCABULARY[i] for i in word] for word in ids] == [["un", "##aff", "##able"], ["[UNK]"], ["你"]]


def test_ernie_splits_at_everything_but_letters_and_digits():
    tokenizer = ErnieTokenizer([*VOCABULARY, "c", "##a", "##f"])
    (tokens,) = tokenizer.encode(["Hello你 caf\u00e912!"])
    assert [tokenizer.vocabulary[i] for i in tokens.ids] == ["hello", "你", "c", "##a", "##f", "[UNK]", "1", "##2", "!"]
    assert tokens.spans[-1].tolist() == [13, 14]


def test_ernies_vocabulary_has_numbers(shared_data, tmp_path):
    vocabulary = read_vocabulary(str(shared_data("nlp/vocab/ernie_vocab.txt")))
    assert len(vocabulary) == 17964 and vocabulary[:6] == ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "，", "的"]
    tokenizer = ErnieTokenizer(str(shared_data("nlp/vocab/ernie_vocab.txt")))
    assert (tokenizer.opening, tokenizer.closing) == (1, 2)
    (tmp_path / "v.txt").write_text("[PAD]\t0\nx\t3\n\t2\n")
    assert read_vocabulary(str(tmp_path / "v.txt")) == ["[PAD]", "", "", "x"]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "the vocabulary is empty"),
        (b"[PAD]\t0\nx\n", r"v.txt:2: expects 'token<TAB>number' as in the first line, found 'x'"),
        (b"[PAD]\t0\nx\t-1\n", r"v.txt:2: expects 'token<TAB>number'"),
        (b"[PAD]\t0\nx\t0\n", r"v.txt:2: 'x' has number 0, which is '\[PAD\]'s"),
        (b"\xff\xfe", "is no UTF-8 text"),
        (b"[PAD]\nhello\n", r"of 2 tokens lacks \[UNK\], \[CLS\], \[SEP\]"),
    ],
)
def test_wrong_vocabularies_are_refused(tmp_path, content, match):
    (tmp_path / "v.txt").write_bytes(content)
    with pytest.raises(DataError, match=match):
        BertTokenizer(str(tmp_path / "v.txt"))


def test_words_are_numbered_by_frequency():
    tokenizer = WordTokenizer("words", min_count=2, max_size=6)
    assert tokenizer.learns and tokenizer.size == 6
    tokenizer.learn(["b a a C c", "a c b d", "e e"])
    assert tokenizer.vocabulary == ["[PAD]", "[UNK]", "[SEP]", "a", "c", "b"] and not tokenizer.learns
    (tokens,) = tokenizer.encode(["A  d c [PAD]"])
    assert tokens.ids.tolist() == [3, 1, 4, 1] and tokens.spans.tolist() == [[0, 1], [3, 4], [5, 6], [7, 12]]
    assert [i.tolist() for i in tokenizer.encode_words(["B", "x"])] == [[5], [1]]


def test_pieces_can_be_characters_with_their_runs():
    tokenizer = WordTokenizer("characters", ngrams=2)
    tokenizer.learn(["我们us 2026"])
    (tokens,) = tokenizer.encode(["我们2026"])
    assert len(tokens.ids) == 5 and tokens.ids.tolist().count(tokenizer.unknown) == 1  # "们2026" was never seen
    assert tokens.spans.tolist() == [[0, 1], [1, 2], [2, 6], [0, 2], [1, 6]]


def test_word_vocabularies_are_checked(tmp_path):
    with pytest.raises(DataError, match="no vocabulary yet"):
        WordTokenizer().encode(["a"])
    with pytest.raises(DataError, match="no piece occurs 3 times or more"):
        WordTokenizer(min_count=3).learn(["a b"])
    with pytest.raises(DataError, match=r"must start with \[PAD\], \[UNK\], \[SEP\]"):
        WordTokenizer(vocabulary=["a", "b", "c"])
    with pytest.raises(DataError, match="has 5 pieces but max_size is 4"):
        WordTokenizer(max_size=4, vocabulary=["[PAD]", "[UNK]", "[SEP]", "a", "b"])
    with pytest.raises(AttributeValueError, match="ngrams 0"):
        WordTokenizer(ngrams=0)


def test_longest_words_of_a_dictionary_are_taken():
    segmenter = Segmenter(["中国", "中国人", "人民", "ab"], window=5)
    text = "中国人民 abc中"
    assert [text[a:b] for a, b in segmenter(text)] == ["中国人", "民", "ab", "c", "中"]
    assert segmenter("") == [] and segmenter("  \n") == []


# pickle.dumps({"中国", "人民"}), protocols 4, and 2 as Python 2 wrote a list of UTF-8 texts
NEW = b"\x80\x04\x95\x16\x00\x00\x00\x00\x00\x00\x00\x8f\x94("
NEW += b"\x8c\x06\xe4\xb8\xad\xe5\x9b\xbd\x8c\x06\xe4\xba\xba\xe6\xb0\x91\x90."
OLD = b"\x80\x02]q\x00(U\x06\xe4\xb8\xad\xe5\x9b\xbdq\x01U\x06\xe4\xba\xba\xe6\xb0\x91q\x02e."


def test_words_of_a_pickled_dictionary_are_read_without_loading_it(tmp_path):
    for content in (NEW, OLD):
        (tmp_path / "dict.wordseg.pickle").write_bytes(content)
        assert read_dictionary(str(tmp_path / "dict.wordseg.pickle")) == ["中国", "人民"]
    (tmp_path / "x.pickle").write_bytes(b"what?")
    with pytest.raises(DataError, match=r"x.pickle: is no pickle"):
        read_dictionary(str(tmp_path / "x.pickle"))
    (tmp_path / "x.pickle").write_bytes(b"N.")
    with pytest.raises(DataError, match=r"x.pickle: holds no words"):
        read_dictionary(str(tmp_path / "x.pickle"))


@pytest.fixture(scope="module")
def piece_model(tmp_path_factory):
    """A sentencepiece model of a few hundred pieces, trained on the spot."""
    import sentencepiece

    folder = tmp_path_factory.mktemp("spm")
    rng = np.random.default_rng(0)
    words = ["中国", "人民", "天气", "很好", "今天", "hello", "world", "我们", "喜欢", "吃饭"]
    (folder / "text.txt").write_text("\n".join(" ".join(rng.choice(words, 8)) for _ in range(300)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text.txt"), model_prefix=str(folder / "spm"), vocab_size=34, model_type="unigram",
        character_coverage=1.0, minloglevel=2,
    )  # fmt: skip
    return folder / "spm.model"


def test_sentencepiece_gives_its_pieces_and_their_places(piece_model, tmp_path):
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(piece_model))
    tokenizer = SentencePieceTokenizer(str(piece_model))
    text = "今天天气很好 Hello 吃饭"
    (tokens,) = tokenizer.encode([text])
    expected = processor.encode("今天天气很好 hello 吃饭", out_type=str)
    assert [tokenizer.vocabulary[i] for i in tokens.ids] == expected
    found = [text[a:b].lower() for a, b in tokens.spans.tolist()]
    assert found == [p.strip("\u2581") for p in expected]
    (tmp_path / "words.txt").write_text("今天\n天气\n很好\n吃饭\n")
    cut = SentencePieceTokenizer(str(piece_model), dictionary=str(tmp_path / "words.txt"))
    (tokens,) = cut.encode([text])
    assert [cut.vocabulary[i] for i in tokens.ids] == processor.encode("今天 天气 很好 hello 吃饭", out_type=str)
    words = ["".join(text[a:b] for a, b in tokens.spans.tolist() if a >= s and b <= e) for s, e in ((0, 2), (7, 12))]
    assert words == ["今天", "Hello"]
    assert len(cut.encode([""])[0].ids) == 0 and cut.encode(["\u2603"])[0].ids[-1] == cut.unknown


@pytest.mark.parametrize(
    "damage", [lambda whole: b"nothing", lambda whole: whole.replace("\u2581".encode(), b"\xe2\x00\x81")]
)
def test_what_is_no_sentencepiece_model_is_refused(piece_model, tmp_path, damage):
    """The second has a piece that is no UTF-8."""
    (tmp_path / "x.model").write_bytes(damage(piece_model.read_bytes()))
    with pytest.raises(DataError, match=r"x.model: is no sentencepiece model"):
        SentencePieceTokenizer(str(tmp_path / "x.model"))


def test_a_tokenizer_is_made_again_from_its_metadata(piece_model):
    learned = WordTokenizer("characters", ngrams=2)
    learned.learn(["我们us 2026", "hello"])
    made = [BertTokenizer(VOCABULARY, lower_case=False), ErnieTokenizer(VOCABULARY), learned]
    for tokenizer in [*made, SentencePieceTokenizer(str(piece_model))]:
        again = tokenizer_from(json.loads(json.dumps(tokenizer.metadata())))
        for text in ("Hello 我们 2026", "今天 CAFÉ"):
            a, b = tokenizer.encode([text])[0], again.encode([text])[0]
            assert a.ids.tolist() == b.ids.tolist() and a.spans.tolist() == b.spans.tolist()
        assert again.size == tokenizer.size
    with pytest.raises(CheckpointError, match="do not describe one"):
        tokenizer_from({"kind": "other"})
