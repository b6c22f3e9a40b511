"""Tokenizers whose ids become the text again."""

import json
import random

import pytest

from framework.errors import AttributeValueError, DataError, NotSupportedError
from suites.nlp.tokenizers import BertTokenizer, CharacterTokenizer, SubwordTokenizer, WordTokenizer, tokenizer_from

TEXTS = ["the small house", "the smaller dog", "a house, a dog and 12 cats"] * 4
ODD = ["the dog's house", "  two  spaces", "naïve ☃ 汉字", "", "a\nb"]


def again(tokenizer):
    return tokenizer_from(json.loads(json.dumps(tokenizer.metadata())))


def test_bytes_make_any_text_again():
    tokenizer = SubwordTokenizer(size=320)
    assert tokenizer.learns and tokenizer.size == 320
    tokenizer.learn(TEXTS)
    for text in [*TEXTS, *ODD]:
        ids = tokenizer.encode([text])[0].ids
        assert tokenizer.text(ids.tolist()) == text.lstrip(" ")
        assert again(tokenizer).encode([text])[0].ids.tolist() == ids.tolist()
        assert all(2 < i < len(tokenizer.vocabulary) for i in ids)
    assert len(tokenizer.encode(["the small house"])[0].ids) <= 4


def test_the_likeliest_cut_has_unknown_characters():
    tokenizer = SubwordTokenizer(size=300, pieces="unigram", lower_case=True)
    tokenizer.learn(TEXTS)
    ids = tokenizer.encode(["The small ☃"])[0].ids.tolist()
    assert tokenizer.text(ids).startswith("the small") and tokenizer.unknown in ids
    assert again(tokenizer).text(ids) == tokenizer.text(ids)


@pytest.mark.parametrize("pieces", ["bpe", "unigram"])
def test_the_same_texts_give_the_same_pieces(pieces):
    rng = random.Random(0)
    texts = ["".join(rng.choices("abcdefgh ", k=60)) for _ in range(60)]  # many pieces are nearly as likely
    written = set()
    for _ in range(3):
        tokenizer = SubwordTokenizer(size=400, pieces=pieces)
        tokenizer.learn(iter(texts))
        written.add(tokenizer.written())
    assert len(written) == 1


def test_of_more_characters_than_there_is_room_for_the_rarest_are_unknown():
    tokenizer = SubwordTokenizer(size=300, pieces="unigram")
    rare = "".join(map(chr, range(0x4E00, 0x4E00 + 1000)))
    tokenizer.learn(["often seen " * 20, rare])
    assert len(tokenizer.vocabulary) <= 300 and tokenizer.text(tokenizer.encode(["seen"])[0].ids) == "seen"
    assert tokenizer.unknown in tokenizer.encode([rare])[0].ids


@pytest.mark.parametrize("texts", [[], [""], [" \n\t", "\u3000"]])
def test_texts_without_a_character_are_refused(texts):
    with pytest.raises(DataError, match="the training texts are empty, so there are no pieces to learn"):
        SubwordTokenizer(size=300, pieces="unigram").learn(texts)


def test_a_vocabulary_of_another_kind_or_size_is_refused(tmp_path):
    (tmp_path / "v.json").write_text("{}")
    with pytest.raises(DataError, match="is no vocabulary that `paddock data vocab` wrote"):
        SubwordTokenizer(vocabulary=str(tmp_path / "v.json"))
    tokenizer = SubwordTokenizer(size=300)
    tokenizer.learn(TEXTS)
    (tmp_path / "v.json").write_text(tokenizer.written())
    assert len(SubwordTokenizer(300, vocabulary=str(tmp_path / "v.json")).vocabulary) <= 300
    with pytest.raises(DataError, match="but size is 260; raise size"):
        SubwordTokenizer(260, vocabulary=str(tmp_path / "v.json"))
    with pytest.raises(AttributeValueError, match="size is 100; it must lie between 259 and"):
        SubwordTokenizer(100)
    with pytest.raises(DataError, match="has no vocabulary yet"):
        SubwordTokenizer().encode(["a"])


def test_characters_are_numbered_by_how_frequent_they_are():
    tokenizer = CharacterTokenizer(max_size=6)
    tokenizer.learn(["aab", "a c\n"])
    assert tokenizer.vocabulary == ["<unk>", "<s>", "</s>", "a", "\n", " "]
    ids = tokenizer.encode(["a b\n"])[0].ids.tolist()
    assert ids == [3, 5, 0, 4] and tokenizer.text(ids) == "a \ufffd\n"
    assert again(tokenizer).text([1, *ids, 2]) == "a \ufffd\n"
    with pytest.raises(DataError, match="it must start with <unk>, <s>, </s>"):
        CharacterTokenizer(vocabulary=["a", "b"])
    with pytest.raises(DataError, match="hold no characters"):
        CharacterTokenizer().learn([""])


def test_a_tokenizer_that_makes_no_text_says_so():
    with pytest.raises(NotSupportedError, match="BertTokenizer: makes no text of ids"):
        BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]).text([5])


def test_words_become_a_text_again_where_each_piece_is_one():
    words = WordTokenizer(max_size=8)
    words.learn(["a dog runs", "a dog"])
    ids = words.encode(["A dog sits"])[0].ids.tolist()
    assert words.writes and words.text([*ids, words.closing]) == "a dog \ufffd"
    for other in ({"ngrams": 2}, {"pieces": "characters"}):
        assert not WordTokenizer(**other).writes
        with pytest.raises(NotSupportedError, match="WordTokenizer: makes no text of ids"):
            WordTokenizer(**other).text([3])


@pytest.mark.parametrize("pieces", ["bpe", "unigram"])
def test_a_text_that_spells_a_special_token_is_a_text(pieces):
    tokenizer = SubwordTokenizer(300, pieces)
    tokenizer.learn(["a <s> b </s> c <unk> d"] * 3)
    for one in (tokenizer, tokenizer_from(tokenizer.metadata())):
        (found,) = one.encode(["a </s> b <s> <unk>"])
        assert not set(found.ids.tolist()) & {1, 2}
        assert pieces == "unigram" or one.text(found.ids) == "a </s> b <s> <unk>"


def test_sizes_that_no_vocabulary_has_and_texts_without_pieces_are_refused():
    for size in (1, 1 << 30):
        with pytest.raises(AttributeValueError, match=f"size is {size}; it must lie between 259 and 1048576"):
            SubwordTokenizer(size)
    with pytest.raises(DataError, match="the training texts are empty"):
        SubwordTokenizer(300).learn(["", " \n"])
