"""Weights that a config names are fetched when the user says yes, and never unasked."""

import hashlib
import io
import zipfile

import pytest
import yaml

from suites.engine.weights import wanted

CONTENT = b"weights" * 100


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A config whose backbone starts from a record of this machine."""
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path / "zoo"))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("w.bin", CONTENT)
    (tmp_path / "archive").write_bytes(out.getvalue())
    digest = hashlib.sha256
    record = {
        "what": "a test", "model": "MobileNetV2", "scheme": "timm", "licence": "MIT",
        "archive": {
            "url": (tmp_path / "archive").as_uri(), "sha256": digest(out.getvalue()).hexdigest(),
            "bytes": len(out.getvalue()),
        },
        "files": [{"name": "w.bin", "inside": "w.bin", "bytes": len(CONTENT), "sha256": digest(CONTENT).hexdigest()}],
    }  # fmt: skip
    (tmp_path / "mine.yml").write_text(yaml.safe_dump(record))
    path = tmp_path / "config.yml"
    model = {"backbone": {"pretrained": str(tmp_path / "mine.yml")}, "parts": [{"pretrained": "no_such_record"}]}
    path.write_text(yaml.safe_dump({"suite": "detection", "model": model}))
    return path


def offer(config, answer=None, fetch_all=False):
    questions = []

    def ask(question):
        questions.append(question)
        return answer

    found = wanted.offer_weights(config, [], fetch_all=fetch_all, ask=ask)
    return [record.weights().read_bytes() for record in found], questions


def test_yes_fetches_what_is_missing_and_says_size_and_licence(config):
    found, (question,) = offer(config, answer=True)
    assert found == [CONTENT]
    assert "is not here yet" in question and "MB from file://" in question and "licence MIT" in question
    assert offer(config, answer=True) == ([], []), "it is there now"


def test_no_fetches_nothing(config):
    assert offer(config, answer=False)[0] == []


def test_the_option_says_yes_without_a_question(config):
    assert offer(config, fetch_all=True) == ([CONTENT], [])


def test_without_a_terminal_nobody_is_asked_and_nothing_is_fetched(config, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert wanted.offer_weights(config, [], fetch_all=False) == []


def test_a_run_and_a_config_that_cannot_be_read_want_nothing(tmp_path):
    assert wanted.offer_weights(tmp_path, [], fetch_all=True) == []
    assert wanted.offer_weights(tmp_path / "none.yml", [], fetch_all=True) == []
