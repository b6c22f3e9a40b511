"""Ensembles: several runs write by the mean of their logits, in infer, eval and exports, and who cannot is refused."""

import json

import numpy as np
import pytest

import framework
from framework import nn
from framework.errors import AttributeValueError, ConfigError, NotSupportedError
from suites.engine import load
from suites.engine.cli import main
from suites.engine.predict.inference import open_run
from suites.nlp.models.ensemble import Ensemble
from suites.nlp.models.recurrent_writing import AttentionRnn, RecurrentLanguageModel
from suites.nlp.models.transformer import Transformer
from suites.nlp.writing import Limits, Prompt, Search, Writer
from tests.suites.nlp.models.ragged import ragged
from tests.suites.nlp.writing.helpers import written_steps

from .test_writing import PROSE, SORT

CLOSE = {"rtol": 0, "atol": 300 * float(np.finfo(np.float32).eps)}  # log-probabilities behind a few layers
SOURCES = [[3, 4, 5, 3, 2], [6, 2]]


def members():
    made = [
        Transformer(12, 12, 16, 2, 32, 1, 2, dropout=0.0, max_length=16, relative=2),
        AttentionRnn(12, 12, width=10, hidden=16, dropout=0.0, max_length=20, copying=True),
        Transformer(13, 13, 16, 2, 32, 1, 1, dropout=0.0, max_length=16),
    ]
    for seed, model in enumerate(made):
        nn.init.initialize(model, seed=seed)
    return made


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("coverage", [0.0, 0.3])
def test_each_word_has_the_mean_of_all_members_logits(cached, coverage):
    """Against the members' answers to whole texts: geometric means of their probabilities, made probabilities again."""
    models = [each.eval() for each in members()]
    ensemble = Ensemble(models).eval()
    step = framework.program(lambda x: ensemble.step(**x, attention=coverage > 0))
    limits = Limits(1, 2, ensemble.past_width, ensemble.memory_width, length=ensemble.max_length)
    search = Search(beam=3, max_length=5, cached=cached, coverage_penalty=coverage)
    writer = Writer([Prompt(source=np.array(s)) for s in SOURCES], limits, search)
    for found, live, whole, ends in written_steps(writer, step):
        given = (*ragged([SOURCES[h.text] for h in live]), *ragged(whole))
        means = np.mean([np.float64(model(*given).numpy()[ends, :12]) for model in models], axis=0)
        expected = means - np.log(np.exp(means).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(found["scores"], expected, **CLOSE)


def test_a_model_with_itself_is_itself():
    model = members()[0].eval()
    given = (*ragged(SOURCES), *ragged([[1, 5], [1]]))
    both = Ensemble([model, model]).eval()(*given).numpy()
    np.testing.assert_allclose(both, model(*given).numpy(), rtol=1e-6)
    with pytest.raises(AttributeValueError, match=r"there are 2 members \(Transformer, RecurrentLanguageModel\)"):
        Ensemble([model, RecurrentLanguageModel(12)])


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yml").write_text(SORT)
    for seed in ("1", "2"):
        words = ["--runs", "runs", "--name", f"r{seed}", "-o", f"runtime.seed={seed}"]
        assert main(["train", "c.yml", *words]) == 0
    return tmp_path / "runs"


def test_runs_write_together_in_all_commands(runs, tmp_path, capsys):
    texts = ["3 1 2", "9 8", "5 5 1 0"]
    first, second = runs / "r1", runs / "r2"
    together = [each.to_json() for each in load(first, others=[second])(texts)]
    alone = [each.to_json() for each in load(first)(texts)]
    assert [each["score"] for each in together] != [each["score"] for each in alone]
    again = [each.to_json()["score"] for each in load(second, others=[first])(texts)]
    assert [each["score"] for each in together] == pytest.approx(again, abs=1e-4)  # in whichever order
    itself = [each.to_json() for each in load(first, others=[first])(texts)]
    assert [each["text"] for each in itself] == [each["text"] for each in alone]
    assert [each["score"] for each in itself] == pytest.approx([each["score"] for each in alone], abs=1e-4)
    weights = second / "weights" / "best.safetensors"  # a file of the same network does as well
    assert [each.to_json() for each in load(first, others=[weights])(texts)] == together
    assert main(["export", str(first), "--with", str(second), "--output", "both"]) == 0
    assert [each.to_json()["text"] for each in load(tmp_path / "both")(texts)] == [each["text"] for each in together]
    capsys.readouterr()
    assert main(["infer", str(first), "--with", str(second), "--text", texts[0]]) == 0
    assert together[0]["text"] in capsys.readouterr().out
    own = (first / "metrics.json").read_text()
    assert main(["eval", str(first), "--with", str(second)]) == 0
    assert (first / "metrics.json").read_text() == own
    (other,) = first.glob("metrics-*.json")
    assert json.loads(other.read_text())["with"] == [str(second)]


def test_models_that_do_not_fit_are_refused(runs, tmp_path):
    (tmp_path / "prose.txt").write_text("abcd efg\n" * 60)
    (tmp_path / "p.yml").write_text(PROSE)
    assert main(["train", "p.yml", "--runs", "runs", "--name", "prose"]) == 0
    with pytest.raises(ConfigError, match="one model is for TextToText, the other for LanguageModeling"):
        load(runs / "r1", others=[runs / "prose"])
    words = ["-o", "data.train.dataset={$replace: {type: DrawnPairs, kind: sums, count: 64}}"]
    assert main(["train", "c.yml", "--runs", "runs", "--name", "other", *words]) == 0
    with pytest.raises(ConfigError, match="the source's vocabularies of the models differ"):
        load(runs / "r1", others=[runs / "other"])
    with pytest.raises(ConfigError, match="an exported model answers alone"):
        assert main(["export", str(runs / "r1"), "--output", "alone"]) == 0
        load(tmp_path / "alone", others=[runs / "r2"])


def test_language_models_write_together_and_a_task_of_another_suite_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prose.txt").write_text("abcd efg\n" * 60)
    (tmp_path / "p.yml").write_text(PROSE)
    (tmp_path / "t.yml").write_text(
        "suite: toy\nimports: [tests.suites.engine.toy]\noptimizer: {type: Momentum}\n"
        "schedule: {type: Constant, base_lr: 0.1}\nruntime: {steps: 1, workers: 0}\n"
    )
    for seed in ("1", "2"):
        assert main(["train", "p.yml", "--runs", "runs", "--name", f"r{seed}", "-o", f"runtime.seed={seed}"]) == 0
    assert main(["train", "t.yml", "--runs", "runs", "--name", "toy"]) == 0
    first, second = tmp_path / "runs" / "r1", tmp_path / "runs" / "r2"
    both = load(first, others=[second])("abc")[0].to_json()
    assert both["text"] == load(second, others=[first])("abc")[0].to_json()["text"]
    assert main(["eval", str(first), "--with", str(second)]) == 0
    with pytest.raises(ConfigError, match="is of another suite; name runs of nlp"):
        load(first, others=[tmp_path / "runs" / "toy"])


def test_how_words_are_chosen_may_be_said_at_inference(runs):
    task = open_run(runs / "r1", overrides=["problem.search.beam=4", "problem.search.results=4"])
    assert task.processor()._writes.search.beam == 4


def test_a_suite_whose_models_answer_alone_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yml").write_text(
        "suite: toy\nimports: [tests.suites.engine.toy]\noptimizer: {type: Momentum}\n"
        "schedule: {type: Constant, base_lr: 0.1}\nruntime: {steps: 1, workers: 0}\n"
    )
    assert main(["train", "c.yml", "--runs", "runs", "--name", "r"]) == 0
    with pytest.raises(NotSupportedError, match="models do not answer together"):
        load(tmp_path / "runs" / "r", others=[tmp_path / "runs" / "r"])
