"""Pretraining: documents become pairs with hidden words, drawn anew in each epoch; other tasks start from it."""

import numpy as np
import pytest

from framework import no_grad
from framework.data.streams import sample_rng
from framework.errors import AttributeValueError, ConfigError, DataError
from framework.io import load_tensors
from suites.engine.config.building import build_task, read_config
from suites.engine.predict.inference import export_run, infer_files, open_model
from suites.engine.train.training import evaluate_weights, train
from suites.nlp.datasets import Documents
from suites.nlp.datasets.documents import Word, parse_words
from suites.nlp.losses import IGNORED
from suites.nlp.masking import Masker, Masks
from suites.nlp.problems import Pretraining
from suites.nlp.sequences import Sequencer
from suites.nlp.tokenizers import BertTokenizer, WordTokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, "中", "国", "人"]
BERT = BertTokenizer(VOCABULARY)
CLS, SEP, MASK = 2, 3, 4


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def documents(tmp_path, text="a b c\nd e\n\n\n \nf g\n\nh i\nj\nk l m\n", **more):
    return Documents(write(tmp_path / "text.txt", text), **more)


def sentences(data):
    return [[sentence.text for sentence in document.sentences] for document in data.examples]


def passages(tmp_path, text=None, sentences="next", max_length=12, masks=None, **more):
    data = documents(tmp_path, **({} if text is None else {"text": text}), **more)
    problem = Pretraining(sentences, masks or Masks())
    return problem.encode(data.examples, Sequencer(BERT, (), max_length), [], data.name_of)


def whole(sample):
    """The ids before any was hidden."""
    return np.where(sample["labels"] == IGNORED, sample["ids"], sample["labels"])


def spelt(ids):
    return "".join(VOCABULARY[i] for i in ids)


def test_empty_lines_part_documents(tmp_path):
    data = documents(tmp_path)
    assert sentences(data) == [["a b c", "d e"], ["f g"], ["h i", "j", "k l m"]]
    assert data.name_of(1).endswith("text.txt:6") and list(data.texts())[-1] == "k l m"
    assert sentences(documents(tmp_path, holdout=3, split="val")) == [["h i", "j", "k l m"]]
    assert len(documents(tmp_path, holdout=3)) == 2
    with pytest.raises(DataError, match="there are no examples"):
        documents(tmp_path, text="\n \n\n")
    with pytest.raises(AttributeValueError, match="holdout is 1"):
        documents(tmp_path, holdout=1)


def test_words_may_have_tags_and_names_several_words():
    assert parse_words("a b//w /w") == [Word("a"), Word("b/", tag="w"), Word("/w")]
    assert [w.name for w in parse_words("江/nr 泽民/nr 在/p 香港/ns 说/v")] == [0, 0, -1, 1, -1]
    assert parse_words("[中央/n 电台/n]nt [/w 1/2/m") == [
        Word("中央", 0, "n", "nt"), Word("电台", 0, "n", "nt"), Word("[", tag="w"), Word("1/2", tag="m")
    ]  # fmt: skip
    assert [w.name for w in parse_words("张/PER 三/PER 李/LOC", names=["PER"])] == [0, 0, -1]


def test_words_of_a_second_file_are_places_in_the_text(tmp_path):
    words = write(tmp_path / "words.txt", "中国/ns 人/n abc/x\n\n人 人\n")
    data = documents(tmp_path, text="中国人 abc\n\n人人\n", words=words)
    first, second = (document.sentences[0] for document in data.examples)
    assert first.words.tolist() == [0, 0, 1, -1, 2, 2, 2] and first.names.tolist() == [0, 0, -1, -1, -1, -1, -1]
    assert second.words.tolist() == [0, 1] and (second.names == -1).all()
    plain = documents(tmp_path, text="中国 ab, c1").examples[0].sentences[0]
    assert plain.words.tolist() == [0, 1, -1, 2, 2, 3, -1, 4, 4]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (
            "中国 人\n\n人 中\n",
            r"words.txt:3: spells '人中' but .*text.txt:3 has '人人'; the words of a line must spell",
        ),
        ("中国 人\n", r"words.txt: has 1 lines but .*text.txt has 3; each line must be one of the text in words"),
    ],
)
def test_words_that_disagree_with_the_text_are_refused(tmp_path, words, match):
    with pytest.raises(DataError, match=match):
        documents(tmp_path, text="中国人\n\n人人\n", words=write(tmp_path / "words.txt", words))


def test_jieba_cuts_words(tmp_path):
    pytest.importorskip("jieba", reason="the package jieba is not installed")
    sentence = documents(tmp_path, text="中国人民 银行\n", cut="jieba").examples[0].sentences[0]
    assert sentence.words[0] == sentence.words[1] and sentence.words[4] == -1


LONG = np.array([CLS, *range(5, 25), SEP])  # twenty letters
WORDS = np.array([-1, *np.repeat(np.arange(10), 2), -1])  # words of two
NAMES = np.array([-1, *[-1] * 8, *[0] * 4, *[-1] * 8, -1])  # a name of two words


def hide(count=400, seed=0, **masks):
    masker = Masker(Masks(**masks), BERT)
    return [masker(LONG, WORDS, NAMES, sample_rng(seed, 0, i)) for i in range(count)]


@pytest.mark.parametrize(("level", "length"), [("basic", 1), ("phrase", 2)])
def test_whole_spans_are_hidden_in_the_share_that_was_asked_for(level, length):
    weights = {"basic": 0.0, "phrase": 0.0, "entity": 0.0, level: 1.0}
    found = hide(share=0.25, masked=1.0, random=0.0, **weights)
    hidden = np.array([h.labels[1:-1] != IGNORED for h in found])
    assert hidden.sum(axis=1).mean() == pytest.approx(5, abs=4 * 1.0 / np.sqrt(400))  # a count is off by 1 at most
    spans = hidden.reshape(len(found), -1, length)
    assert (spans.all(axis=2) == spans.any(axis=2)).all()
    assert spans.any(axis=2).mean(axis=0) == pytest.approx(0.25, abs=0.1)  # 4.6 deviations: no place is preferred
    assert all((h.labels[[0, -1]] == IGNORED).all() for h in found)
    assert all((h.ids == np.where(h.labels != IGNORED, MASK, LONG)).all() for h in found)


def test_names_are_hidden_first_and_as_a_whole():
    for found in hide(50, basic=0, phrase=0, share=0.3):  # six tokens: the name's four, and a word
        hidden = found.labels != IGNORED
        assert hidden[9:13].all() and hidden.sum() == 6


def test_spans_share_their_fate():
    """[MASK] in 80 %, random tokens in 10 %, themselves in 10 %, for a word as a whole."""
    fates = {"mask": 0, "same": 0, "random": 0}
    for found in hide(500, basic=0, entity=0):
        for begin in range(1, 21, 2):
            if found.labels[begin] != IGNORED:
                seen = found.ids[begin : begin + 2]
                fate = (
                    "mask" if (seen == MASK).all() else "same" if (seen == LONG[begin : begin + 2]).all() else "random"
                )
                assert fate != "random" or (seen > MASK).all()
                fates[fate] += 1
    total = sum(fates.values())
    for fate, share in (("mask", 0.8), ("random", 0.1), ("same", 0.1)):
        assert fates[fate] / total == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / total))


def test_a_sequence_always_has_something_to_guess():
    masker = Masker(Masks(share=0.01), BERT)
    for i in range(30):
        found = masker(LONG[:3], WORDS[:3], NAMES[:3], sample_rng(0, 0, i))
        assert (found.labels != IGNORED).any()


@pytest.mark.parametrize(
    ("masks", "match"),
    [
        ({"share": 0.0}, r"share is 0.0"),
        ({"basic": 0, "phrase": 0, "entity": 0}, "one of them above 0"),
        ({"masked": 0.8, "random": 0.3}, "their sum at most 1"),
    ],
)
def test_wrong_masks_are_refused(masks, match):
    with pytest.raises(AttributeValueError, match=match):
        Masks(**masks)


def test_a_tokenizer_without_mask_is_refused():
    words = WordTokenizer()
    words.learn(["a b"])
    with pytest.raises(DataError, match=r"WordTokenizer has no token \[MASK\]"):
        Masker(Masks(), words)


def test_second_texts_follow_or_are_of_another_document(tmp_path):
    data = passages(tmp_path)
    assert len(data) == 3
    seen = set()
    for draw in range(60):
        sample = data.sample(0, sample_rng(0, draw, 0))
        first, second = spelt(whole(sample)).removesuffix("[SEP]").removeprefix("[CLS]").split("[SEP]")
        assert first == "abc" and (second == "de") == (sample["related"] == 0)
        assert sample["segment_ids"].sum() == len(second) + 1
        seen.add((second, int(sample["related"])))
    assert seen == {("de", 0), ("fg", 1), ("hi", 1), ("j", 1)}  # whole sentences that are no longer than "de"
    alone = data[1]
    assert alone["related"] == IGNORED and spelt(whole(alone)) == "[CLS]fg[SEP]"


def test_a_sentence_that_is_too_long_elsewhere_is_cut(tmp_path):
    data = passages(tmp_path, "a b c\nd\n\ne f g h i\nj k l m\n")
    found = {spelt(whole(data.sample(0, sample_rng(0, i, 0)))).split("[SEP]")[1] for i in range(40)}
    assert found == {"d", "e", "j"}


def test_texts_may_come_in_the_wrong_order(tmp_path):
    data = passages(tmp_path, sentences="order")
    found = {(spelt(whole(s)), int(s["related"])) for s in (data.sample(0, sample_rng(0, i, 0)) for i in range(20))}
    assert found == {("[CLS]abc[SEP]de[SEP]", 0), ("[CLS]de[SEP]abc[SEP]", 1)}


def test_long_documents_become_passages_and_nothing_is_lost(tmp_path):
    text = " ".join(LETTERS) + "\na b\nc d\n\nx y z\n" + "w " * 9 + "\n"
    data = passages(tmp_path, text, sentences="none")
    found = [spelt(whole(data[i]))[5:-5] for i in range(len(data))]
    assert found == [LETTERS[:10], LETTERS[10:20], LETTERS[20:] + "abcd", "xyz", "w" * 9]
    assert data.lengths.tolist() == [12, 12, 12, 5, 11] and [data.name_of(i)[-1] for i in range(5)] == list("11155")
    pairs = passages(tmp_path, text)
    for epoch in range(20):
        drawn = [pairs.sample(i, sample_rng(0, epoch, i)) for i in range(len(pairs))]
        assert all(len(sample["ids"]) <= bound for sample, bound in zip(drawn, pairs.lengths, strict=True))


def test_epochs_differ_and_evaluation_does_not(tmp_path):
    data = passages(tmp_path, "\n".join(" ".join(LETTERS[i : i + 6]) for i in range(20)), "order", 40)
    drawn = Pretraining("order").drawn(data)

    def ids(epoch):
        return [drawn.sample(i, sample_rng(3, epoch, i))["ids"].tolist() for i in range(len(drawn))]

    assert ids(0) == ids(0) and ids(0) != ids(1)
    assert [data[i]["ids"].tolist() for i in range(len(data))] == [data[i]["ids"].tolist() for i in range(len(data))]


@pytest.mark.parametrize(
    ("text", "sentences", "error", "match"),
    [
        ("a b\nc d\n", "next", ConfigError, r"text.txt:1: there is one document, so none to take a sentence from"),
        ("a b\n\nc d\n", "order", ConfigError, "no document has two sentences that fit into a sequence"),
        ("\u0001\n", "none", DataError, "no document has a token; the text is empty for this tokenizer"),
    ],
)
def test_texts_without_pairs_or_tokens_are_refused(tmp_path, text, sentences, error, match):
    with pytest.raises(error, match=match):
        passages(tmp_path, text, sentences)


CONFIG = """
suite: nlp
model: {type: Pretraining, encoder: ENCODER}
data:
  tokenizer: {type: BertTokenizer, vocabulary: ROOT/vocab.txt}
  max_length: 24
  train: {dataset: {type: Documents, path: ROOT/text.txt, holdout: 10, split: train}, tokens: 400}
  eval: {dataset: {type: Documents, path: ROOT/text.txt, holdout: 10, split: val}}
problem: {type: Pretraining}
optimizer: {type: AdamW}
schedule: {type: Constant, base_lr: 3e-3}
runtime: {steps: 100, workers: 0, evaluation: {every: 0, pictures: 2}}
"""
FINE = """
suite: nlp
model: {type: SequenceClassifier, num_classes: 2, encoder: ENCODER}
data:
  tokenizer: {type: BertTokenizer, vocabulary: ROOT/vocab.txt}
  max_length: 24
  num_classes: 2
  train: {dataset: {type: Tsv, path: ROOT/rows.tsv}}
  eval: {dataset: {type: Tsv, path: ROOT/rows.tsv}}
problem: {type: Classification}
optimizer: {type: AdamW}
schedule: {type: Constant, base_lr: 1e-3}
runtime: {steps: 1, workers: 0}
"""
ENCODER = (
    "{type: Bert, vocab_size: 34, hidden_size: 32, layers: 2, heads: 2, ffn_size: 64, max_positions: 40, dropout: 0}"
)


@pytest.fixture
def folder(tmp_path):
    """Documents that each say one letter again and again."""
    rng = np.random.default_rng(0)
    texts = []
    for _ in range(200):
        letter = LETTERS[rng.integers(8)]
        texts.append("\n".join(" ".join(letter * count) for count in rng.integers(3, 7, rng.integers(1, 5))))
    write(tmp_path / "text.txt", "\n\n".join(texts))
    write(tmp_path / "vocab.txt", "\n".join(VOCABULARY))
    for name, config in (("c.yml", CONFIG), ("fine.yml", FINE)):
        write(tmp_path / name, config.replace("ROOT", str(tmp_path)).replace("ENCODER", ENCODER))
    rows = [f"{int(text[0] < 'd')}\t{text.splitlines()[0]}" for text in texts]
    write(tmp_path / "rows.tsv", "\n".join(["label\ttext_a", *rows]))
    return tmp_path


def test_a_model_learns_from_plain_text_fills_masks_and_is_a_start(folder):
    train(folder / "c.yml", runs=folder, name="run")
    figures = evaluate_weights(folder / "run")
    assert figures["word_loss"] < 1.0 < np.log(8)  # a letter is known from its neighbours, not from its frequency
    assert figures["perplexity"] == pytest.approx(np.exp(figures["word_loss"])) and "pair_accuracy" in figures
    assert len((folder / "run" / "pictures" / "examples.txt").read_text().splitlines()) == 2
    report = export_run(folder / "run", folder / "export")
    assert report.inputs == ["ids", "offsets", "segment_ids", "masked"] and report.largest_difference < 1e-5
    for source in ("run", "export"):
        done = infer_files(open_model(folder / source), ["d d [MASK] d d", "c c c c c"], None)
        assert done.lines[0].endswith("-> [MASK]: d") and len(done.lines) == 2
    start = folder / "run" / "weights" / "best.safetensors"
    task = build_task(read_config(folder / "fine.yml"))
    left_out = task.start_from(start)
    trained = {name: tensor.numpy() for name, tensor in load_tensors(start).items()}
    with no_grad():
        state = task.model.state_dict()
        assert all(np.array_equal(state[n].numpy(), trained[n]) for n in trained if n.startswith("encoder."))
    assert left_out and not any("encoder." in line for line in left_out)


def test_only_tokens_of_the_vocabulary_are_guessed():
    """A model may have more rows than the vocabulary has tokens."""
    problem = Pretraining()
    problem.take_tokenizer(BERT)
    scores = np.full((1, len(VOCABULARY) + 3), -9.0, np.float32)
    scores[0, -1], scores[0, 7] = -0.1, -0.5
    batch = {"offsets": [0, 3], "masked": [1], "targets": [MASK]}
    (result,) = problem.results({"words": scores}, batch, [None], [])
    assert result["hidden"][0]["words"][0] == {"token": VOCABULARY[7], "probability": pytest.approx(np.exp(-0.5), 1e-4)}
