"""`paddock slim` of texts: no option does nothing without a word, and tables and teachers say what they are of."""

import pytest

from framework.errors import AttributeValueError, ConfigError
from suites.engine.cli.slim import main
from suites.engine.train.training import train
from suites.nlp.slim.pruning import Cut, prune_run
from suites.nlp.slim.settings import Augment, Distil
from tests.suites.nlp.slim import toy


def test_batches_are_refused_where_layers_alone_go(folder, capsys):
    words = ["--no-recovery", "--runs", str(folder), "--name", "small", "--output", str(folder / "o")]
    assert main(["prune", str(folder / "teacher"), "--layers", "2", "--batches", "2", *words]) == 2
    assert "--batches would do nothing: no importance is measured" in capsys.readouterr().err
    assert not (folder / "small").exists()


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["eight_bits={smallest: 0, batches: 1}"], "does not go with eight_bits; prune first, then train in 8 bits"),
        (["lora={rank: 2}"], "does not go with lora, whose adapters stand beside the weights"),
    ],
)
def test_runs_in_8_bits_and_with_adapters_are_not_cut(folder, overrides, said):
    train(toy.write_config(folder, toy.TEACHER, steps=2), overrides, runs=folder, name="run")
    for cut in (Cut(layers=2), Cut(heads=0.5)):
        with pytest.raises(ConfigError, match=said):
            prune_run(folder / "run", folder / "small", cut, batches=1)
    assert not (folder / "small").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"hard": 0, "last_epoch_hard": True}, "in the last epoch nothing would be learnt"),
        ({"extra_labels": "teacher"}, "extra_labels: teacher would do nothing"),
        ({"extra_labels": "teacher", "hard": 0, "augment": Augment()}, "extra_labels: teacher would do nothing"),
    ],
)
def test_settings_of_a_teacher_that_would_do_nothing_are_refused(given, said):
    with pytest.raises(AttributeValueError, match=said):
        Distil(teachers=["a"], **given)


@pytest.mark.parametrize("online", ["false", "true"])
def test_a_teacher_that_does_not_know_the_texts_is_told(folder, caplog, online):
    for name in ("train", "dev"):
        text = (folder / f"{name}.tsv").read_text()
        head, *rows = text.splitlines()
        texts = [row.split("\t") for row in rows]
        strange = [f"{label}\t{' '.join('xyz' + c for c in said.split())}" for label, said in texts]
        (folder / f"strange_{name}.tsv").write_text("\n".join([head, *strange]) + "\n")
    paths = [
        f"data.{part}.dataset.path={folder}/strange_{name}.tsv" for part, name in (("train", "train"), ("eval", "dev"))
    ]
    config = toy.write_config(folder, toy.BOW, steps=2)
    train(config, [*paths, f"distil.online={online}"], runs=folder, name="run")
    (line,) = [record.getMessage() for record in caplog.records if "distil.teachers" in record.getMessage()]
    assert "100 % of its tokens are unknown to the vocabulary" in line
    caplog.clear()
    train(config, [f"distil.online={online}"], runs=folder, name="known")
    assert not [record for record in caplog.records if "distil.teachers" in record.getMessage()]


def test_a_table_of_other_evaluation_sets_says_so(folder, capsys):
    (folder / "other.tsv").write_text((folder / "train.tsv").read_text())
    train(toy.write_config(folder, toy.BOW, steps=2), ["distil=null"], runs=folder, name="bow")
    more = [f"data.eval.dataset.path={folder}/other.tsv"]
    train(toy.write_config(folder, toy.BOW, steps=2), ["distil=null", *more], runs=folder, name="else")

    def table(*words):
        assert main(["compare", *words, "--inputs", "1", "--output", str(folder / "o")]) == 0
        return capsys.readouterr().out

    runs = [str(folder / name) for name in ("bow", "else", "teacher")]
    assert "of other evaluation sets (bow, teacher against else)" in table(*runs)
    assert "of other evaluation sets" in (folder / "o" / "table.md").read_text()
    assert "evaluation sets" not in table(*runs, "--set", f"eval:data.eval.dataset.path={folder}/dev.tsv")
    assert "evaluation sets" not in table(runs[0], runs[2])


def test_what_equalising_came_to_is_said(folder, capsys):
    words = ["--mode", "static", "--equalize", "weights", "--inputs", "1", "--output", str(folder / "o")]
    assert main(["quantize", str(folder / "teacher"), *words]) == 0
    assert "0 pairs of layers equalised" in capsys.readouterr().out


def test_a_teacher_in_8_bits_in_the_step_is_told_to_teach_in_float32(folder):
    eight = ["eight_bits={smallest: 0, batches: 1}"]
    train(toy.write_config(folder, toy.TEACHER, steps=2), eight, runs=folder, name="eight")
    online = [f"distil.teachers=[{folder}/eight]", "distil.online=true"]
    train(toy.write_config(folder, toy.BOW, steps=2), online, runs=folder, name="run")
    assert "eight was trained in 8 bits; its layers teach with their numbers in float32" in (
        folder / "run" / "log.txt"
    ).read_text(encoding="utf-8")
