"""tools/op_docs.py: what is generated from the registry is up to date."""

from pathlib import Path

from tools import op_docs


def test_the_stub_and_the_reference_pages_are_up_to_date(capsys):
    assert op_docs.main(["--check"]) == 0, capsys.readouterr().out


def test_an_outdated_page_is_named_and_written_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(op_docs, "ROOT", tmp_path)
    assert op_docs.main(["--check"]) == 1
    assert "docs/reference/operators/shape.md: out of date" in capsys.readouterr().out
    assert op_docs.main([]) == 0 and op_docs.main(["--check"]) == 0
    assert "## reshape" in Path(tmp_path / "docs/reference/operators/shape.md").read_text()
