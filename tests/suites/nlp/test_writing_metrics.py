"""Figures of written texts and of language models."""

import json
import math

import numpy as np
import pytest

from suites.nlp.metrics.language import LanguageScores
from suites.nlp.metrics.writing import WrittenScores

REFERENCES = ["the cat sat on the mat", "a dog runs in the park today", "two men are talking"]


class Written:
    """A writer that is done."""

    is_done = True

    def __init__(self, texts):
        self.texts = texts

    def take(self, outputs):
        pass


def scores(texts, figures=("exact", "bleu", "chrf"), order=(0, 1, 2)):
    metric = WrittenScores(REFERENCES, lambda writer: writer.texts, figures)
    for i in order:
        metric.update_joined([({}, {"writer": Written([texts[i]]), "example": np.array([i])})])
    return metric


def test_figures_are_those_of_sacrebleu():
    sacrebleu = pytest.importorskip("sacrebleu", reason="the extra translation is not installed")
    texts = ["the cat sat on a mat", REFERENCES[1], "two men talk"]
    found = scores(texts).result()
    assert found["exact"] == pytest.approx(1 / 3)
    assert found["bleu"] == pytest.approx(sacrebleu.corpus_bleu(texts, [REFERENCES]).score)
    assert found["chrf"] == pytest.approx(sacrebleu.corpus_chrf(texts, [REFERENCES]).score)
    assert "tok:13a" in scores(texts).report()


def test_rouge_is_the_mean_of_the_texts():
    found = scores(["the cat sat", REFERENCES[1], "nothing"], ("rouge1", "rouge2", "rougeL")).result()
    assert found["rouge1"] == found["rougeL"] == pytest.approx(100 * (6 / 9 + 1) / 3)
    assert found["rouge2"] == pytest.approx(100 * (4 / 7 + 1) / 3)


def test_parts_that_are_merged_are_the_whole_and_the_worst_come_first():
    texts = ["nothing of it", REFERENCES[1], "two men talk"]
    one, other = scores(texts, ("exact",), (2,)), scores(texts, ("exact",), (0, 1))
    one.merge(json.loads(json.dumps(other.state(), default=np.ndarray.tolist)))
    one.merge(WrittenScores(REFERENCES, lambda writer: []).state())
    assert one.result() == scores(texts, ("exact",)).result()
    (cases,) = one.worst(5).values()
    assert [case.index for case in cases] == [0, 2] and cases[0].detail == "nothing of it"
    assert scores(REFERENCES, ("exact",)).worst(3) == {} and scores(texts, ("exact",)).report() == ""


def test_bits_are_of_characters_and_bytes():
    metric = LanguageScores()
    logs = np.log(np.array([[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]], np.float32))
    batch = {"targets": np.array([0, 0, 1]), "characters": np.array([1.0, 1.0]), "bytes": np.array([4.0, 2.0])}
    metric.update({"scores": logs}, batch)
    bits = 1 + 2 + 1
    found = metric.result()
    assert found["loss_nats"] == pytest.approx(bits * math.log(2) / 3)
    assert found["perplexity"] == pytest.approx(math.exp(found["loss_nats"]))
    assert (found["bits_per_character"], found["bits_per_byte"]) == pytest.approx((bits / 2, bits / 6))
    assert found["token_accuracy"] == pytest.approx(1 / 3)
