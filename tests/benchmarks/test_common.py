"""Benchmarks work out ratios within a round, drop a competitor that fails, say what is missing, and print a table."""

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def scripts():
    """The benchmarks import each other as scripts do."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield
    sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture
def common():
    return importlib.import_module("common")


def printing(common, name, **fields):
    """A competitor that measures nothing and prints `fields`."""
    line = json.dumps({"unit": "images/s", "peak_rss_mb": 100, "step_ms": 10.0, "steps": 3, **fields})
    return common.Competitor(name, [sys.executable, "-c", f"print({line!r})"])


def found(**rates):
    measured = lambda rate, mb: {"unit": "images/s", "rate": rate, "peak_rss_mb": mb}  # noqa: E731
    return {name: [measured(rate, mb) for rate in values] for name, (values, mb) in rates.items()}


def test_a_ratio_is_taken_within_a_round_against_the_rounds_best_peer(common):
    claim = common.Claim("x", 1.4, 1.8)
    result = common.compare(claim, found(paddock=([4, 2, 6], 50), a=([2, 2, 2], 100), b=([1, 1, 4], 80)), baseline="a")
    assert result["ratios"] == [2.0, 1.0, 1.5]
    assert (result["best_peer"], result["memory_ratio"]) == ("a", 0.5)
    text = common.table([result])
    assert (
        "| x | images/s | 4.00 [2.00, 6.00] | a | 2.00 [2.00, 2.00] | 1.50 [1.00, 2.00] | 1.40 | 1.80 | 0.50x |" in text
    )


def test_without_peers_our_own_figure_stands_alone(common):
    result = common.compare(common.Claim("x", 1.4, 1.8), found(paddock=([4, 2], 50)))
    assert (result["best_peer"], result["ratios"], result["memory_ratio"]) == (None, [], None)
    assert "| none | - | - |" in common.table([result])


def test_a_peer_that_fails_is_named_and_left_out_ours_must_not(common, capsys):
    broken = common.Competitor("broken", [sys.executable, "-c", "raise SystemExit('no compiler here')"])
    measured = common.in_turns([printing(common, common.OURS, rate=2.0), broken], rounds=2)
    assert list(measured) == [common.OURS] and len(measured[common.OURS]) == 2
    assert "broken failed and is left out: no compiler here" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="no compiler here"):
        common.in_turns([common.Competitor(common.OURS, broken.command)], rounds=1)


def test_missing_peers_are_said_with_the_way_to_install_them(tmp_path, capsys):
    training, inference = map(importlib.import_module, ("training_vs_torch", "inference_vs_engines"))
    a = argparse.Namespace(threads=1, seconds=0, modes=["eager"], peer_python=str(tmp_path / "python"))
    assert [c.name for c in training.competitors("x", a)] == ["paddock"]
    assert [c.name for c in inference.competitors("x", a)] == ["paddock"]
    said = capsys.readouterr().err
    for text in ("pip install torch", "onnxruntime", "openvino", "--peer-python"):
        assert text in said


def test_the_first_step_is_what_the_usual_steps_leave_of_the_wall_time():
    first_step = importlib.import_module("first_step")
    measured = {"wall_s": 3.0, "steps": 3, "step_ms": 250.0}
    assert first_step.first_step_seconds(measured) == pytest.approx(3.0 - 4 * 0.25)


def test_the_claims_name_cases_of_the_bench_tool():
    from tools.bench import CASES

    for name in ("training_vs_torch", "inference_vs_engines"):
        assert {claim.case for claim in importlib.import_module(name).CLAIMS} <= set(CASES)


def test_memory_of_a_process_tree_counts_its_children():
    build_time = importlib.import_module("build_time")
    grow = "import time; x = bytearray(50 << 20); time.sleep(0.5)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grow!r}])"
    assert build_time.run([sys.executable, "-c", child]) > 50 << 20


def test_turns_are_compared_turn_by_turn(common):
    """A moment in which all are three times as slow changes no ratio."""
    in_turns = importlib.import_module("inference_in_turns")
    turns = [{"paddock": [s, s], "ort": [1.5 * s] * 3} for s in (0.010, 0.030, 0.010, 0.030)]
    found = in_turns.summary(common.Claim("resnet", 1.05, 1.3), turns)
    assert found["ratios"] == {"ort": [1.5, 1.5, 1.5]} and found["step_ms"] == {"paddock": 10.0, "ort": 15.0}
    assert "| resnet | ort | 15.00 | 1.50 [1.50, 1.50] | 1.05 | 1.30 |" in in_turns.table([found])


STAND_IN = """#!{}
import os, runpy, sys, time, types

def exported(engine, case, threads):
    {}
    return lambda: time.sleep(0.002), []

sys.modules["peers.engine_cases"] = types.SimpleNamespace(exported=exported)
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_an_engine_answers_turns_until_it_is_stopped(tmp_path):
    """In an interpreter with a stand-in for the engines: what an exporter prints first is skipped, steps are timed."""
    in_turns = importlib.import_module("inference_in_turns")
    python = tmp_path / "python"
    python.write_text(STAND_IN.format(sys.executable, "print('exported')"))
    python.chmod(0o755)
    a = argparse.Namespace(peer_python=str(python), threads=1, prefix=[])
    engine = in_turns.Engine("ort", "resnet50_infer_b1_224", a)
    times = engine.turn(0.02)
    engine.stop()
    assert 1 <= len(times) <= 10 and min(times) >= 0.002
    python.write_text(STAND_IN.format(sys.executable, "sys.exit(3)"))
    with pytest.raises(RuntimeError, match="status 3"):
        in_turns.Engine("ort", "resnet50_infer_b1_224", a)


def test_a_script_adds_options_figures_and_lines_of_its_own(common, capsys):
    seen = []

    def competitors(case, a):
        seen.append(a.rows)
        return [printing(common, common.OURS, rate=2.0, p99=7), printing(common, "peer", rate=1.0)]

    results = common.run_claims(
        "mine",
        None,
        [common.Claim("one", 1.0, 2.0)],
        competitors,
        lambda a: None,
        ["--rounds", "2", "--rows", "30"],
        options=common.add_rows(10),
        figures=lambda found: {"p99": [m["p99"] for m in found[common.OURS]]},
        told=lambda result: f"{result['case']}: p99 {result['p99']}",
    )
    assert seen == [30] and results[0]["p99"] == [7, 7] and results[0]["ratios"] == [2.0, 2.0]
    assert capsys.readouterr().out.splitlines()[-1] == "one: p99 [7, 7]"


def test_data_that_are_missing_are_said_with_the_way_to_them(common, tmp_path, monkeypatch):
    monkeypatch.setenv("PADDOCK_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match=r"a/b\.zip is missing; set PADDOCK_DATA to the folder of the data sets"):
        common.real_data("a/b.zip")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.zip").touch()
    assert common.real_data("a/b.zip") == tmp_path / "a" / "b.zip"


def test_configs_find_the_data_that_benchmarks_find(common, monkeypatch):
    monkeypatch.delenv("PADDOCK_DATA", raising=False)
    common.find_real_data()
    assert os.environ.pop("PADDOCK_DATA") == str(ROOT.parent / "shared" / "data")
