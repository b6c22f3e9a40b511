"""`paddock slim`: no option does nothing without a word."""

import pytest

from suites.engine.cli.slim import main
from tests.suites.engine.slim.runs import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"), "resnet18")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["quantize", "--mode", "dynamic", "--method", "kl"], "--method would do nothing with --mode dynamic"),
        (["quantize", "--mode", "dynamic", "--calibration", "x"], "--calibration would do nothing with --mode dynamic"),
        (["quantize", "--mode", "dynamic", "--equalize", "weights", "--adaround"], "--equalize, --adaround would do"),
        (["prune", "--macs", "0.5", "--no-recovery", "-o", "runtime.epochs=1"], "-o would do nothing with --no-recov"),
        (["prune", "--macs", "0.5", "--batches", "2"], "--batches would do nothing without --by sensitivity"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(run, tmp_path, capsys, words, said):
    folders = ["--output", str(tmp_path)] + (["--runs", str(tmp_path)] if words[0] == "prune" else [])
    assert main([words[0], str(run), *words[1:], *folders]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_smaller_run_goes_on_only_as_it_was_cut(run, tmp_path, capsys):
    def prune(*words):
        plain = ["--no-recovery", "--runs", str(tmp_path), "--name", "small", "--output", str(tmp_path / "o")]
        return main(["prune", str(run), *words, *plain, "--inputs", "1"])

    assert prune("--macs", "0.5", "--keep", "fc.*") == 0
    before = (tmp_path / "small/weights/best.safetensors").read_bytes()
    assert prune("--macs", "0.5", "--keep", "fc.*", "--resume") == 0
    assert prune("--macs", "0.25", "--keep", "fc.*", "--resume") == 2
    assert "was cut otherwise (macs 0.5, not 0.25)" in capsys.readouterr().err
    assert (tmp_path / "small/weights/best.safetensors").read_bytes() == before
    (tmp_path / "small/pruning_asked.json").unlink()
    assert prune("--macs", "0.5", "--resume") == 0
    told = capsys.readouterr()
    assert "does not say how it was cut" in told.out + told.err
