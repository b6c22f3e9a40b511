"""tools/op_docs.py: what is generated from the registry is up to date."""

from functools import cache
from pathlib import Path

import pytest

from tools import op_docs, op_reference

GENERATED = cache(op_reference.generated_files)  # which takes ten seconds


@pytest.fixture(autouse=True)
def _generated_once(monkeypatch):
    monkeypatch.setattr(op_reference, "generated_files", GENERATED)


def test_the_stub_and_the_reference_pages_are_up_to_date(capsys):
    assert op_docs.main(["--check"]) == 0, capsys.readouterr().out


def test_an_outdated_page_is_named_and_written_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(op_docs, "ROOT", tmp_path)
    assert op_docs.main(["--check"]) == 1
    assert "docs/reference/operators/shape.md: out of date" in capsys.readouterr().out
    assert op_docs.main([]) == 0 and op_docs.main(["--check"]) == 0
    assert "## reshape" in Path(tmp_path / "docs/reference/operators/shape.md").read_text()


def test_a_page_of_a_family_that_is_gone_is_named_and_removed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(op_docs, "ROOT", tmp_path)
    monkeypatch.setattr(
        op_reference, "generated_files", lambda types: {"docs/reference/operators/shape.md": "# Operators: shape"}
    )
    assert op_docs.main([]) == 0
    page = tmp_path / "docs" / "reference" / "operators" / "gone.md"
    page.write_text("# Operators: gone\n")
    assert op_docs.main(["--check"]) == 1 and "operators/gone.md: out of date" in capsys.readouterr().out
    assert op_docs.main([]) == 0 and not page.exists()
    assert "operators/gone.md: removed" in capsys.readouterr().out
