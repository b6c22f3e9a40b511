"""Options of `paddock export` that would do nothing are errors before anything is read."""

import pytest

from suites.engine.cli import main


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
