"""tools/slim.py: each command makes its models and ends with a table of what they reach and cost."""

import json

import pytest

from framework.graph.files import load_program
from framework.quantization import Speed
from suites.engine.predict import quantizing
from suites.engine.slim.compare import Row, markdown
from suites.engine.slim.timing import Timed
from tests.suites.engine.slim.runs import write_run
from tests.suites.nlp.slim import toy
from tools import slim


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("slim")
    toy.write_data(path)
    toy.train_teacher(path, steps=20)
    return path


def slimmed(folder, capsys, *words):
    """The rows that a command writes, by name; what it printed holds the table too."""
    output = folder / f"out_{words[0]}"
    status = slim.main([*map(str, words), "--output", str(output), "--inputs", "6"])
    said = capsys.readouterr()
    assert status == 0, said.err
    rows = json.loads((output / "table.json").read_text())
    assert (output / "table.md").read_text() in said.out
    return {row["name"]: row for row in rows}


def test_distil_compares_teacher_and_student_with_and_without(folder, capsys):
    config = toy.write_config(folder, toy.BOW, 10, "bow.yml")
    test_set = f"test:data.eval.dataset.path={folder}/train.tsv"
    rows = slimmed(folder, capsys, "distil", config, "--alone", "--runs", folder, "--set", test_set)
    assert list(rows) == [f"{folder}/teacher", "bow_alone", "bow"]
    for row in rows.values():
        assert set(row["figures"]) == {"eval", "test"} and row["metric"] == "accuracy"
        assert 0 < row["median"] <= row["p90"] and row["throughput"] > 0
    teacher, student = rows[f"{folder}/teacher"], rows["bow"]
    assert student["parameters"] < teacher["parameters"] and student["megabytes"] < teacher["megabytes"]


def test_prune_cuts_and_trains_on(folder, capsys):
    words = ("prune", folder / "teacher", "--width", "0.5", "--layers", "2,4", "--runs", folder, "--batches", "1")
    rows = slimmed(folder, capsys, *words, "--name", "small", "-o", "runtime.steps=4")
    assert list(rows) == ["teacher", "small, cut", "small, trained on"]
    assert rows["small, cut"]["parameters"] == rows["small, trained on"]["parameters"] < rows["teacher"]["parameters"]
    assert "distil" in (folder / "small_recovered" / "config.yml").read_text()


def test_prune_cuts_channels_of_a_network_of_pictures_and_trains_on(tmp_path, capsys):
    run = write_run(tmp_path, "resnet18")
    words = ("prune", run, "--macs", "0.5", "--criterion", "fpgm", "--runs", tmp_path, "-o", "runtime.epochs=null")
    rows = slimmed(tmp_path, capsys, *words, "-o", "runtime.steps=2", "--name", "small")
    assert list(rows) == ["resnet18", "small, cut", "small, trained on"]
    assert rows["small, cut"]["parameters"] == rows["small, trained on"]["parameters"] < rows["resnet18"]["parameters"]


def test_distil_of_pictures_compares_teacher_and_student(tmp_path, capsys):
    teacher = write_run(tmp_path, "resnet18")
    config = tmp_path / "student.yml"
    lesson = "{type: Logits, layers: {fc: fc}}"
    config.write_text(
        f"extends: {teacher}/config.yml\nmodel: {{backbone: {{width: 8}}}}\n"
        f"distil: {{teachers: [elsewhere], losses: [{lesson}]}}\nruntime: {{epochs: null, steps: 2}}\n"
    )
    words = ("distil", config, "--teacher", teacher, "--alone", "--runs", tmp_path)
    rows = slimmed(tmp_path, capsys, *words)
    assert list(rows) == [str(teacher), "student_alone", "student"]


def test_quantize_and_compare_have_rows_in_8_bits(folder, capsys):
    rows = slimmed(folder, capsys, "quantize", folder / "teacher")
    assert list(rows) == ["teacher", "teacher, int8 dynamic", "teacher, int8 static"]
    rows = slimmed(folder, capsys, "compare", f"one={folder}/teacher", "--int8", "dynamic")
    assert list(rows) == ["one", "one, int8 dynamic"]


def test_quantize_gives_named_layers_16_bits(tmp_path, capsys):
    run = write_run(tmp_path, "resnet18")
    rows = slimmed(tmp_path, capsys, "quantize", run, "--mode", "static", "--sixteen", "*")
    assert list(rows) == ["resnet18", "resnet18, int8 static"]
    ops = load_program(tmp_path / "out_quantize" / "1_resnet18__int8_static")[0].block
    read = [op.inputs[0].dtype for op in ops if op.name.startswith("quantized_")]
    assert len(read) > 10 and set(read) == {"float32"}
    assert slim.main(["quantize", str(run), "--sixteen", "nothing", "--output", str(tmp_path / "o")]) == 2
    assert "sixteen has 'nothing', which fits no weight" in capsys.readouterr().err


def test_quantize_equalises_layers_and_learns_their_rounding(tmp_path, capsys):
    run = write_run(tmp_path, "resnet18")
    words = ("--mode", "static", "--equalize", "activations", "--adaround", "--adaround-steps", "2")
    status = slim.main(["quantize", str(run), *words, "--inputs", "2", "--output", str(tmp_path / "o")])
    said = capsys.readouterr()
    assert status == 0, said.err
    rows = {row["name"]: row for row in json.loads((tmp_path / "o" / "table.json").read_text())}
    assert list(rows) == ["resnet18", "resnet18, int8 static"]
    assert "AdaRound, layer 1 of " in said.out


@pytest.mark.parametrize("budget", [("--most-loss", "0"), ("--most-time", "1")])
def test_quantize_within_a_budget_says_which_layers_stay_in_float32(tmp_path, capsys, monkeypatch, budget):
    monkeypatch.setattr(Timed, "percentile", lambda timed, share: 1.0)  # 8 bits are slower on some processors
    run = write_run(tmp_path, "resnet18")
    status = slim.main(
        ["quantize", str(run), *budget, "--mode", "static", "--inputs", "2", "--output", str(tmp_path / "o")]
    )
    said = capsys.readouterr()
    assert status == 0, said.err
    assert "layers stay in float32" in said.out
    rows = {row["name"]: row for row in json.loads((tmp_path / "o" / "table.json").read_text())}
    assert list(rows) == ["resnet18", "resnet18, int8 static", "resnet18, int8 within the budget"]
    if budget[0] == "--most-loss":
        found, whole = (rows[name]["figures"]["eval"] for name in ("resnet18, int8 within the budget", "resnet18"))
        assert found >= whole


def test_quantize_tells_of_slow_layers_and_leaves_them_in_float32(tmp_path, capsys, monkeypatch):
    slow = ("backbone.stages.0.0.body.0.conv.weight", "backbone.stages.0.0.body.1.conv.weight")
    found = Speed(0.8, dict.fromkeys(slow, 0.4), slow, 1.2)
    monkeypatch.setattr(quantizing, "measure_speed", lambda *given, **named: found)
    times = iter([1.0, 1.0, 1.1, 1.1, 0.9, 0.9])  # two of each row
    monkeypatch.setattr(Timed, "percentile", lambda timed, share: next(times))
    run = write_run(tmp_path, "resnet18")
    words = ["quantize", str(run), "--mode", "static", "--inputs", "1", "--output", str(tmp_path / "o"), "--fastest"]
    assert slim.main(words) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert f"--fastest, which is --keep '{slow[0]}' --keep '{slow[1]}': 2 layers in float32: 1.20 times" in said
    assert f"resnet18: 2 layers stay in float32, 0 read 16 bits: --keep '{slow[0]}' --keep '{slow[1]}'" in said
    below = (tmp_path / "o" / "table.md").read_text().split("\n\n")[1:]
    assert below[0] == "resnet18, int8 static is slower than float32: 1.10 ms, 1.00 ms"
    assert below[1].startswith("speed here, on one input by 1 threads: 0.80 times that of float32")
    assert len(below) == 4  # and nothing of the fastest
    ops = load_program(tmp_path / "o" / "2_resnet18__int8_fastest")[0].block
    whole = {op.inputs[1].name for op in ops if op.name == "conv2d"}
    assert whole == set(slow)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("quantize", "RUN", "--most-time", "2"), "--most-time is 2; it is a share"),
        (
            ("quantize", "RUN", "--mode", "dynamic", "--adaround"),
            "would do nothing with --mode dynamic, which measures nothing; leave it out",
        ),
        (("quantize", "RUN", "--adaround-steps", "5"), "--adaround-steps would do nothing without --adaround"),
        (("quantize", "RUN", "--adaround", "--adaround-steps", "0"), "AdaRound: steps is 0; it must be 1 or more"),
        (("prune", "RUN", "--width", "1.5"), "heads is 1.5; the share that stays is above 0"),
        (("prune", "RUN", "--layers", "two"), "--layers two: expects a number of layers"),
        (("prune", "RUN"), "nothing is to be cut"),
        (("prune", "RUN", "--macs", "0.5"), "--macs are of networks of convolutions"),
        (("compare", "RUN", "--set", "test"), "--set test: expects NAME:PATH=VALUE"),
        (("compare", "a=RUN", "a=RUN"), "two models are called 'a'"),
        (("compare", "nowhere"), "nowhere"),
        (("distil", "FOLDER/teacher.yml"), "has no teacher; add a section `distil`"),
        (("compare", "RUN", "--inputs", "0"), "inputs 0 and rounds 3; all must be 1 or more"),
    ],
)
def test_one_line_says_what_is_wrong(folder, capsys, words, said):
    words = [word.replace("RUN", str(folder / "teacher")).replace("FOLDER", str(folder)) for word in words]
    assert slim.main([*words, "--output", str(folder / "wrong")]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and said in error and "Traceback" not in error


def test_the_table_reads_well():
    row = Row("a", "accuracy", {"eval": 0.91234, "test": 0.5}, 1.234, 2.345, 12345.6, 1234567, 4.56, "runs/a")
    assert markdown([row]).splitlines()[-1] == "| a | 0.9123 | 0.5000 | 1.23 | 2.35 | 12,346 | 1,234,567 | 4.6 |"
