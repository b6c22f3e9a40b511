"""A sealed export from the command line: written by `export`, opened by whatever opens exports, with its keys alone."""

import numpy as np
import pytest

from framework.errors import CheckpointError
from framework.sealing import keys
from suites.engine.cli import main
from suites.engine.predict.inference import export_run, open_model
from suites.engine.train.training import train
from tests.framework.sealing.test_sealing import pem
from tests.suites.engine import toy  # noqa: F401  (registers the suite)
from tests.suites.engine.predict.test_described import CONFIG

pytest.importorskip("cryptography", reason="the extra seal is not installed")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a run, a plain and a sealed export, and their keys."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "toy.yml").write_text(CONFIG)
    train(folder / "toy.yml", runs=folder, name="run")
    pem(folder, "owner")
    (folder / "secret.key").write_text("5a" * 32)
    run = [str(folder / "run"), "--import", "tests.suites.engine.toy"]
    assert main(["export", *run, "--output", str(folder / "plain")]) == 0
    seal = ["--sign", str(folder / "owner.pem"), "--encrypt", str(folder / "secret.key")]
    assert main(["export", *run, "--output", str(folder / "sealed"), *seal]) == 0
    return folder


def test_a_sealed_export_has_the_bits_of_the_plain_one(made):
    plain = open_model(made / "plain")
    with keys(decrypt=made / "secret.key", verify=made / "owner.pub.pem"):
        sealed = open_model(made / "sealed")
    rng = np.random.default_rng(0)
    inputs = {
        name: rng.standard_normal([n if n > 0 else 2 for n in shape]).astype(dtype)
        for name, (dtype, shape) in ((name, plain.types[name]) for name in plain.inputs)
    }
    for name, found in sealed.predict(inputs).items():
        np.testing.assert_array_equal(found, plain.predict(inputs)[name])


def test_commands_take_the_keys(made, capsys):
    words = ["eval", str(made / "run"), "--exported", str(made / "sealed"), "--import", "tests.suites.engine.toy"]
    assert main(words) == 2
    assert "is encrypted; name its key: --decrypt SOURCE" in capsys.readouterr().err
    assert main([*words, f"--decrypt={made / 'secret.key'}", "--verify", str(made / "owner.pub.pem")]) == 0
    assert main([*words, "--decrypt"]) == 2
    assert "--decrypt: takes the source of a key" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["plain", "run", "onnx", "onnx/model.onnx"])
def test_what_has_no_seal_is_refused_where_a_signature_is_asked_for(made, name):
    if name.startswith("onnx") and not (made / "onnx").exists():
        pytest.importorskip("onnx", reason="the extra onnx is not installed")
        export_run(made / "run", made / "onnx", onnx=True)
    with keys(verify=made / "owner.pub.pem"), pytest.raises(CheckpointError, match="is not sealed, and only what"):
        open_model(made / name)


@pytest.mark.parametrize(
    ("form", "said"),
    [("onnx", "model.onnx cannot be sealed"), ("peft", "adapters are written as they are; leave out --sign")],
)
def test_what_cannot_be_sealed_is_an_error_before_anything_is_written(made, tmp_path, form, said, capsys):
    words = ["export", str(made / "run"), "--output", str(tmp_path / "out"), "--format", form]
    assert main([*words, "--import", "tests.suites.engine.toy", "--sign", str(made / "owner.pem")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
