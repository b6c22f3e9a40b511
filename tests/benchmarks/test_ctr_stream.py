"""The stream's script gives each pass its figures, lets signs leave, and compares the end with the beginning."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import ctr_stream


def test_a_short_stream(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ctr_stream, "PASS", 1 << 16)
    told = ctr_stream.main(
        ["--rows", "210000", "--model", "FM", "--keep", "1", "--json", str(tmp_path / "passes.json")]
    )
    found = json.loads((tmp_path / "passes.json").read_text())
    passes = found["passes"]
    assert [p["rows"] for p in passes] == [65_536, 131_072, 196_608, 210_000]
    assert all(p["rate"] > 0 and p["of_cpu"] > 0 and p["resident"] > 0 for p in passes)
    assert passes[0]["evicted"] == 0 < passes[-1]["evicted"]
    assert all(p["held"] == p["signs"] - p["evicted"] for p in passes)
    assert passes[2]["loss"] < passes[0]["loss"]
    assert found["verdict"] == told and told["signs"] == passes[-1]["signs"]
    assert capsys.readouterr().out.count("\n| ") == 5


def test_the_verdict_compares_the_last_fifth_with_the_second():
    one = ctr_stream.Pass(0, 100.0, 200.0, 10, 20, 10, 1.0, 0.5)
    slow = replace(one, rate=50.0, of_cpu=190.0, resident=1.5)
    told = ctr_stream.verdict([slow, slow, *[one] * 6, slow, slow])
    assert told["rate"] == pytest.approx(0.5) and told["of_cpu"] == pytest.approx(0.95)
    assert told["resident"] == pytest.approx(1.5) and told["most_gb"] == 1.5
