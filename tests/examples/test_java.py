"""The example in Java is built as its page says, and gives the bits of Python."""

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import framework
from framework import ops, tensor
from framework.graph.files import save_program
from framework.predictor import Predictor
from tests.examples.test_native import printed, run, tool

JAVA = Path(__file__).resolve().parents[2] / "examples" / "java" / "src" / "main"
PAGE = (JAVA.parents[3] / "docs" / "howto" / "native.md").read_text()


@pytest.fixture(scope="module")
def home():
    javac = Path(tool("javac", "no JDK on this machine")).resolve()
    tool("cc", "no C++ compiler on this machine")
    tool("pkg-config", "no pkg-config on this machine")
    return javac.parents[1]


@pytest.fixture(scope="module")
def built(home, tmp_path_factory):
    """The folder where the commands of the page have built classes and library."""
    folder = tmp_path_factory.mktemp("java")
    (folder / "examples").symlink_to(JAVA.parents[2])
    commands = re.search(r"## Java\n\n[^\n]*\n\n((?:    [^\n]*\n)+)", PAGE).group(1)
    lines = [line.strip() for line in commands.splitlines()]
    build = [line for line in lines if not line.startswith(("export", "java "))]
    environment = os.environ | {"PKG_CONFIG_PATH": printed("--pkg-config"), "JAVA_HOME": str(home)}
    run("bash", "-ec", "\n".join(build), cwd=folder, env=environment)
    return folder


def java(folder, *words):
    command = ["java", "-Djava.library.path=.", "-cp", "classes", "paddock.Predictor", *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def exported(folder):
    w = tensor(np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32))
    program = framework.program(lambda x: (ops.gelu(ops.matmul(x, w)), ops.sum(x, axes=1)))
    save_program(program.program_for(tensor(np.ones((3, 4), np.float32))).program, folder, extra={"name": "größe"})
    return folder


def test_a_java_program_gives_the_bits_of_python_and_the_metadata(built, tmp_path):
    folder = exported(tmp_path / "e")
    ramp = (np.arange(20) % 7).astype(np.float32) / np.float32(7)
    expected = np.concatenate([a.reshape(-1) for a in Predictor(folder).run([ramp.reshape(5, 4)])])
    done = java(built, folder, 5, 4)
    assert done.returncode == 0, done.stderr
    values, brace, metadata = done.stdout.partition("{")
    assert np.array(values.split(), np.float32).tobytes() == expected.tobytes()
    assert "name" in json.loads(brace + metadata)


def test_what_the_library_refuses_is_an_exception(built, tmp_path):
    folder = exported(tmp_path / "e")
    for words, said in (
        ((tmp_path / "nowhere",), "nowhere/program.json: cannot be opened"),
        ((folder, 5), r"input0 is float32[5]; the model takes float32[3, 4]"),
    ):
        done = java(built, *words)
        assert done.returncode == 1 and "IllegalStateException" in done.stderr and said in done.stderr
