"""The coverage-guided mode of `scripts/fuzz`: what an input stands for, what is told, what it needs."""

import contextlib
import sys
from types import SimpleNamespace

import pytest

from tests import bombs, guided
from tests.seeds import MAKERS


def test_every_reader_has_whole_files_to_damage():
    assert set(MAKERS) == set(bombs.READERS)


def test_whole_files_of_the_core_are_read(tmp_path):
    """Others are refused for what a stranger's file may be: without an end, of no suite. These must reach the end."""
    for kind in ("record", "table", "weights", "keras", "source"):
        for at, (files, _) in enumerate(guided.Inputs(kind).places):
            bombs.READERS[kind](bombs.write(lambda f=files: dict(f), tmp_path / f"{kind}{at}"))


def test_an_input_is_the_number_of_a_file_and_its_content():
    inputs = guided.Inputs("weights")
    for at, data in enumerate(inputs.whole()):
        files, name = inputs.places[at]
        assert inputs.files(data) == (at, files)
        assert inputs.files(data[:1] + b"other") == (at, files | {name: b"other"})
    assert inputs.files(b"\xff")[0] == 255 % len(inputs.places)


def test_what_is_told_of_an_input_ends_the_run(tmp_path, monkeypatch):
    inputs = guided.Inputs("record")
    inputs.read(inputs.whole()[0], tmp_path)
    inputs.read(b"", tmp_path)
    monkeypatch.setitem(bombs.READERS, "record", lambda path: {}[path.read_bytes()])
    with pytest.raises(AssertionError, match="KeyError: b'abc'"):
        inputs.read(b"\0abc", tmp_path)
    assert (tmp_path / "input").read_bytes() == b"\0abc"


def test_a_run_begins_with_the_whole_files(tmp_path, monkeypatch):
    """Of a stand-in for atheris, which reads its corpus once."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    ran = []
    stand_in = SimpleNamespace(
        instrument_imports=lambda include: contextlib.nullcontext(),
        Setup=lambda words, read: ran.extend((words, read)),
        Fuzz=lambda: [ran[1](path.read_bytes()) for path in sorted((tmp_path / "corpus").iterdir())],
    )
    guided.fuzz("record", tmp_path, ["-runs=1"], stand_in)
    assert (tmp_path / "input").read_bytes() == guided.Inputs("record").whole()[-1]
    assert ran[0][1] == "-runs=1" and ran[0][-1] == str(tmp_path / "corpus")


def test_without_atheris_it_says_what_to_install(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "atheris", None)
    monkeypatch.setattr(guided, "ROOT", tmp_path)
    assert guided.main(["record"]) == 2
    assert "pip install atheris" in capsys.readouterr().err
