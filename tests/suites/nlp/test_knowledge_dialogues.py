"""Conversations from goals and facts in DuConv's format; and a model that copies the fact that is asked for."""

import json

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError
from suites.engine.train.training import train
from suites.nlp.datasets import KnowledgeDialogues

GOAL = [["START", "林志玲", "赵丽颖"], ["林志玲", "同事", "赵丽颖"]]
FACTS = [["林志玲", "身高", "174cm"], ["赵丽颖", "职业", "演员"]]
TALK = ["你好", "嗨", "聊聊林志玲", "好"]


def written(folder, *rows):
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    (folder / "t.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / "t.txt")


def test_each_turn_of_the_leader_is_a_pair(tmp_path):
    found = KnowledgeDialogues(written(tmp_path, {"goal": GOAL, "knowledge": FACTS, "conversation": TALK}))
    about = "START 林志玲 赵丽颖 | 林志玲 同事 赵丽颖 || 林志玲 身高 174cm | 赵丽颖 职业 演员 ||"
    pairs = [(e.source, e.target) for e in found.examples]
    assert pairs == [(about, "你好"), (f"{about} 你好 ## 嗨", "聊聊林志玲")]
    assert found.name_of(1).endswith("t.txt:1")


def test_a_sample_with_its_answer_is_a_pair_and_the_last_turns_count(tmp_path):
    row = {"goal": GOAL[:1], "knowledge": FACTS, "history": TALK, "response": "再见"}
    (only,) = KnowledgeDialogues(written(tmp_path, row), turns=2, facts=1).examples
    assert (only.source, only.target) == ("START 林志玲 赵丽颖 || 林志玲 身高 174cm || 聊聊林志玲 ## 好", "再见")
    (first,) = KnowledgeDialogues(written(tmp_path, {**row, "history": []}), turns=0, facts=0).examples
    assert first.source == "START 林志玲 赵丽颖 ||  ||"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("[1]", "t.txt:1: is a list"),
        ("{", "t.txt:1"),
        ({"goal": "x", "knowledge": [], "response": "a"}, "its 'goal' is 'x'"),
        ({"goal": [], "knowledge": [[1]], "response": "a"}, "its 'knowledge' is"),
        ({"goal": [], "knowledge": [], "conversation": []}, "its 'conversation' is empty"),
        ({"goal": [], "knowledge": [], "conversation": ["a", " "]}, "list of texts with words"),
        ({"goal": [], "knowledge": [], "history": [], "response": " "}, "nor a 'response' with words"),
    ],
)
def test_bad_lines_are_named(tmp_path, row, message):
    with pytest.raises(DataError, match=message):
        KnowledgeDialogues(written(tmp_path, row), max_skipped=0.0)


def test_senseless_numbers_are_refused(tmp_path):
    with pytest.raises(AttributeValueError, match="turns is -1"):
        KnowledgeDialogues(written(tmp_path, {}), turns=-1)


CONFIG = """
suite: nlp
model: {type: AttentionRnn, source_words: 40, target_words: 40, width: 32, hidden: 64, dropout: 0.0, shared: true,
        copying: true, max_length: 48}
data:
  tokenizer: {type: CharacterTokenizer, max_size: 40}
  max_length: 48
  train: {dataset: {type: KnowledgeDialogues, path: train.txt}, batch_size: 32}
  eval: {dataset: {type: KnowledgeDialogues, path: eval.txt}, batch_size: 64}
problem: {type: TextToText, loss: {label_smoothing: 0.0}, search: {max_length: 8}}
optimizer: {type: Adam}
schedule: {type: Cosine, base_lr: 1e-2, warmup_steps: 20}
runtime: {epochs: 14, workers: 0, threads: 1, clip_norm: 1.0, evaluation: {every: 14}}
"""


def test_a_model_says_the_fact_that_its_goal_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, count in (("train", 1500), ("eval", 100)):
        rows = []
        for _ in range(count):
            people, values = rng.permutation(list("abcdefgh"))[:2], rng.integers(0, 10, (2, 2))
            facts = [[str(who), "".join(map(str, digits))] for who, digits in zip(people, values, strict=True)]
            at = int(rng.integers(2))
            rows.append({"goal": [[facts[at][0]]], "knowledge": facts, "history": [], "response": facts[at][1]})
        (tmp_path / f"{name}.txt").write_text("\n".join(map(json.dumps, rows)) + "\n")
    (tmp_path / "c.yml").write_text(CONFIG)
    train(tmp_path / "c.yml", name="r", runs=tmp_path / "runs")
    assert json.loads((tmp_path / "runs" / "r" / "metrics.json").read_text())["exact"] >= 0.95
