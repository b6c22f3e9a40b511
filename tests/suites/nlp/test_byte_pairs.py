"""RoBERTa's tokenizer: ids and places of a plain reading of byte-level pair encoding, whatever the text."""

import json
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from framework.errors import DataError
from suites.nlp.sequences import Sequencer
from suites.nlp.tokenizers import BertTokenizer, RobertaTokenizer, tokenizer_from
from suites.nlp.tokenizers.folders import tokenizer_of

# GPT-2's table of bytes: those that are printable in Latin-1 stand for themselves, the others for 256 and on.
_PLAIN = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTES = {b: chr(b) for b in _PLAIN} | {b: chr(256 + n) for n, b in enumerate(b for b in range(256) if b not in _PLAIN)}
# Of GPT-2's pattern; Python's classes say the same of the texts below.
PIECES = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
CORPUS = "the red fox, the red hat; they're 2020's best. café naïve 你好 😀 the theory of the fox "
STRINGS = [
    "", " ", "the fox", " the fox", "the  red   fox ", "they're the best, aren't they?", "2020 1999", "cafés naïve",
    "你好 the 你好", "😀😀 fox", "a\tb\nc\r\n  d", "\x00\x7f", "foxfoxfox", "THE Fox", "_under_score",
    "!!! ??", "é" * 50,
    "the </s> fox", "x<mask>y", " <mask> ",
]  # fmt: skip
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def words_of(text):
    return ["".join(BYTES[b] for b in piece.encode()) for piece in PIECES.findall(text)]


def learned(count=40):
    """The tokens and merges of a corpus: the most frequent pair first, `count` times."""
    words = Counter(tuple(word) for word in words_of(CORPUS * 3))
    merges = []
    for _ in range(count):
        pairs = Counter()
        for word, times in words.items():
            for pair in pairwise(word):
                pairs[pair] += times
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        words = Counter({tuple(joined(list(word), best)): times for word, times in words.items()})
    tokens = [*SPECIAL, *BYTES.values(), *dict.fromkeys("".join(pair) for pair in merges), "<mask>"]
    return tokens, merges


def joined(parts, pair):
    out = []
    for part in parts:
        if out and (out[-1], part) == pair:
            out[-1] += part
        else:
            out.append(part)
    return out


def expected(text, numbers, merges):
    """Ids by the rule: of all neighbours the pair with the lowest merge first, until none is left."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    ids = []
    for part in re.split(r"(\s*<mask>|</s>)", text):
        if part.strip() in numbers and part.strip().startswith("<"):
            ids.append(numbers[part.strip()])
            continue
        for word in words_of(part):
            parts = list(word)
            while len(parts) > 1:
                best = min(pairwise(parts), key=lambda pair: ranks.get(pair, 10**9))
                if best not in ranks:
                    break
                parts = joined(parts, best)
            ids += [numbers[part] for part in parts]
    return ids


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("roberta")
    tokens, merges = learned()
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges), ""]
    (folder / "merges.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def tokenizer(files):
    return RobertaTokenizer(str(files / "vocab.json"), str(files / "merges.txt"))


@pytest.mark.parametrize("text", STRINGS)
def test_ids_are_those_of_a_plain_reading_of_the_rule(tokenizer, text):
    tokens, merges = learned()
    numbers = {token: number for number, token in enumerate(tokens)}
    (found,) = tokenizer.encode([text])
    assert found.ids.tolist() == expected(text, numbers, merges)


def test_places_are_those_of_the_words_without_the_space_before_them(tokenizer):
    text = "the red fox 你好"
    (found,) = tokenizer.encode([text])
    covered = [text[a:b] for a, b in found.spans.tolist()]
    assert covered[0] == "the" and "fox" in covered and not any(piece.startswith(" ") for piece in covered)
    assert found.spans.shape == (len(found.ids), 2) and found.spans.max() == len(text)


def test_words_stand_behind_a_space_and_surrogates_are_no_error(tokenizer):
    (in_text,) = tokenizer.encode([" the fox"])
    assert np.concatenate(tokenizer.encode_words(["the", "fox"])).tolist() == in_text.ids.tolist()
    assert all(len(ids) for ids in tokenizer.encode_words(["\ud83d", "😀"])) and len(
        tokenizer.encode(["\ud83d"])[0].ids
    )


def test_pairs_have_two_closing_tokens_between_them_and_one_segment(tokenizer):
    sequencer = Sequencer(tokenizer, max_length=12)
    first, second = (tokens.ids for tokens in sequencer.tokens(["the fox", "the red hat"]))
    sequence = sequencer.join(first, second)
    opening, closing = tokenizer.opening, tokenizer.closing
    assert sequence.ids.tolist() == [opening, *first, closing, closing, *second, closing]
    assert not sequence.segment_ids.any() and sequence.second == len(first) + 3
    longest = np.arange(5, 40)
    assert len(sequencer.join(*sequencer.cut(longest, longest)).ids) == 12
    assert len(sequencer.join(*sequencer.cut(longest, None)).ids) == 12


def test_an_equal_tokenizer_is_made_from_what_a_run_keeps(tokenizer):
    again = tokenizer_from(json.loads(json.dumps(tokenizer.metadata())))
    for text in STRINGS:
        assert again.encode([text])[0].ids.tolist() == tokenizer.encode([text])[0].ids.tolist()
    assert again.mask == tokenizer.mask is not None


def test_a_checkpoint_folder_says_which_tokenizer_it_has(files, tmp_path):
    assert isinstance(tokenizer_of(files), RobertaTokenizer)
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\na\n")
    assert isinstance(tokenizer_of(tmp_path), BertTokenizer)


@pytest.mark.parametrize(
    ("vocabulary", "merges", "message"),
    [
        ("[", "", r"is no JSON"),
        ("[1]", "", r"holds no object of tokens"),
        ('{"a": 1, "b": 1}', "", r"token 'b' has the number 1, which is none or another's"),
        ('{"a": -1}', "", r"token 'a' has the number -1"),
        ('{"a": 99999999999}', "", r"token 'a' has the number 99999999999"),
        ('{"a": 0}', "", r"vocabulary of 1 tokens lacks <unk>, <s>, </s>"),
        (None, "a b\nxx yy", r"line 1 of the merges, 'a b': 'ab' is no token; do both files fit"),
        (None, "ab", r"line 1 of the merges, 'ab': expects two tokens with a space between"),
        (None, b"\xff\xfe", r"is no UTF-8 text"),
    ],
)
def test_files_that_do_not_fit_are_one_clear_error(files, tmp_path, vocabulary, merges, message):
    if vocabulary is None:
        vocabulary = json.dumps({token: at for at, token in enumerate([*SPECIAL, *BYTES.values()])})
    (tmp_path / "vocab.json").write_text(vocabulary)
    (tmp_path / "merges.txt").write_bytes(merges if isinstance(merges, bytes) else merges.encode())
    with pytest.raises(DataError, match=message):
        RobertaTokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
