"""`paddock export`: options that would do nothing are errors before anything is read; 8 bits tell how fast they are."""

import pytest

from framework.graph.files import load_program
from framework.quantization import Speed
from suites.engine.cli import main
from suites.engine.predict import quantizing
from tests.suites.engine.slim.runs import write_run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "mse", "--keep", "a.*"], "--method, --keep would do nothing without --quantize"),
        (["--equalize", "weights", "--adaround"], "--equalize, --adaround would do nothing without --quantize"),
        (
            ["--quantize", "dynamic", "--adaround-steps", "5"],
            "--adaround-steps would do nothing with --quantize dynamic",
        ),
        (["--quantize", "static", "--adaround-seconds", "5"], "--adaround-seconds would do nothing without --adaround"),
        (["--float-tables"], "--float-tables would do nothing without --quantize"),
        (["--fastest"], "--fastest would do nothing without --quantize"),
        (["--sixteen", "a.*"], "--sixteen would do nothing without --quantize"),
        (
            ["--quantize", "dynamic", "--calibration", "photos"],
            "--calibration would do nothing with --quantize dynamic",
        ),
        (["--quantize", "static", "--calibration-inputs", "5"], "--calibration-inputs would do nothing without"),
        (
            ["--quantize", "static", "--calibration", "photos", "--calibration-batches", "5"],
            "--calibration-batches would do nothing with --calibration",
        ),
        (["--format", "peft", "--quantize", "dynamic"], "adapters are written as they are; leave out --quantize"),
    ],
)
def test_an_option_that_would_do_nothing_is_an_error(tmp_path, words, said, capsys):
    assert main(["export", str(tmp_path / "none"), "--output", str(tmp_path / "out"), *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


SLOW = {f"backbone.stages.{i}.0.body.{j}.conv.weight": 0.5 for i in (0, 1) for j in (0, 1)}


@pytest.mark.parametrize("fastest", [False, True])
def test_8_bits_tell_how_fast_they_are_and_leave_slow_layers_in_float32_where_asked_to(
    tmp_path, capsys, monkeypatch, fastest
):
    kept = tuple(SLOW)[:2]
    monkeypatch.setattr(quantizing, "measure_speed", lambda *given, **named: Speed(0.8, SLOW, kept, 1.3))
    run, out = write_run(tmp_path, "resnet18"), tmp_path / "out"
    words = ["export", str(run), "--output", str(out), "--quantize", "static", "--calibration-batches", "1"]
    assert main([*words, *(["--fastest"] if fastest else [])]) == 0
    said = capsys.readouterr().out
    assert "threads: 0.80 times that of float32\nslower than in float32, most time lost first: " in said
    names = " ".join(f"--keep '{name}'" for name in kept)
    assert (f"--fastest, which is {names}: " if fastest else "with --fastest, ") + "2 layers in float32: 1.30" in said
    whole = {op.inputs[1].name for op in load_program(out)[0].block if op.name == "conv2d"}
    assert whole == (set(kept) if fastest else set())


def test_slow_layers_are_named_by_the_time_they_lose_and_the_others_counted():
    speed = Speed(0.7, {f"layer{i}": 0.5 for i in range(9)}, (), 0.7)
    lines = quantizing.speed_said(speed, False)
    assert lines[1].endswith("layer4 (0.50), layer5 (0.50), 3 more") and len(lines) == 3
    assert lines[2] == "8 bits are no faster than float32 here; they only make the file smaller"
    assert len(quantizing.speed_said(Speed(2.0, {}, (), 2.0), False)) == 1


def test_fastest_that_leaves_nothing_in_float32_says_so():
    lines = quantizing.speed_said(Speed(2.0, {}, (), 2.0), True)
    assert lines[1] == "--fastest leaves no layer in float32: that would not make the whole faster here"
