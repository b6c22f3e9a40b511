"""The advice for a missing extra names packages that exist, in an installation and in a clone alike."""

import shlex
import sys
from importlib import metadata

import pytest

from framework import extras

METADATA = [
    "numpy>=1.24",
    "zstd>=1; python_version < '3.14' and extra == 'logs'",
    "onnx>=1.23 ; extra == 'onnx'",
    'fastapi>=0.115; extra == "serve"',
]


def test_an_installation_names_the_requirements_of_its_extra(monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda name: METADATA)
    assert extras.requirements("onnx") == ["onnx>=1.23"] and extras.requirements("serve") == ["fastapi>=0.115"]
    assert extras.requirements("logs") == ["zstd>=1; python_version < '3.14'"] and extras.requirements("nothing") == []


def test_a_clone_that_nobody_installed_reads_pyproject(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert extras.requirements("onnx") == ["onnx>=1.23"] and extras.requirements("nothing") == []


@pytest.mark.parametrize(("extra", "package"), [("onnx", "onnx"), ("serve", "fastapi"), ("chinese", "jieba")])
def test_the_command_is_this_interpreters_and_names_no_distribution_of_ours(extra, package):
    words = shlex.split(extras.install_command(extra))
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    assert any(word.startswith(f"{package}>=") for word in words[4:])
    assert not any(word.startswith("paddock") for word in words)
