"""A run keeps every figure and shows itself: one page, no network, every word escaped, other runs beside it."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from framework.errors import CheckpointError
from suites.engine.cli import report
from suites.engine.reporting import Curves, Matrix
from suites.engine.reporting.lines import append, read_lines, withdraw
from suites.engine.reporting.page import write_page
from suites.engine.reporting.plots import from_plain, svg, to_plain
from suites.engine.training import evaluate_weights, train
from tests.suites.segmentation.test_task import CONFIG, config_file, root  # noqa: F401  (fixtures)


@pytest.fixture(scope="module")
def trained(root, tmp_path_factory):  # noqa: F811
    """A run of a few steps, which no test may change."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "config.yml").write_text(CONFIG.replace("ROOT", str(root)))
    settings = ["runtime.steps=6", "runtime.log_every=2", "runtime.evaluation.every=3", "runtime.evaluation.unit=steps"]
    train(folder / "config.yml", settings, runs=folder, name="first")
    return folder / "first"


@pytest.fixture
def run(trained, tmp_path):
    """A copy of it."""
    return shutil.copytree(trained, tmp_path / "first")


def test_every_logged_step_and_evaluation_has_a_line(run):
    lines = read_lines(run / "metrics.jsonl")
    assert [line["step"] for line in lines if "loss" in line] == [2, 4, 6]
    assert [line["step"] for line in lines if "figures" in line] == [3, 6]
    last = json.loads((run / "metrics.json").read_text())
    assert [line for line in lines if "figures" in line][-1]["figures"]["mIoU"] == last["mIoU"]
    step = lines[0]
    assert step["loss"] == pytest.approx(sum(step["losses"].values())) and step["seconds"] >= step["wait"] >= 0


def test_a_page_stands_alone_and_holds_curves_pictures_and_config(run):
    text = (run / "report.html").read_text()
    assert len(text) < 4 << 20
    for word in ("<h1>first</h1>", "mIoU", "Pixels, % of each true class", "6 steps", "num_classes"):
        assert word in text, word
    assert text.count("<svg") >= 6 and text.count('src="data:image/jpeg;base64,') >= 2
    assert "<h2>Worst</h2>" in text and re.search(r"<figcaption>00_[^<]*: mIoU 0\.\d+", text)
    outside = re.findall(r"(?:src|href)=\"(?!data:|#)[^\"]*", text)
    assert not outside and "<script" not in text and "default-src 'none'" in text


def test_runs_stand_beside_each_other(run, config_file, tmp_path, capsys):  # noqa: F811
    train(config_file, ["runtime.steps=2", "runtime.log_every=1"], runs=tmp_path, name="second & <b>")
    other = tmp_path / "second & <b>"
    assert report.main([str(run), str(other), "--output", str(tmp_path / "both.html")]) == 0
    text = (tmp_path / "both.html").read_text()
    assert "<h2>Beside each other</h2>" in text and "second &amp; &lt;b&gt;" in text and "<b>" not in text
    assert str(tmp_path / "both.html") in capsys.readouterr().out
    assert report.main([str(tmp_path / "nowhere")]) == 2
    assert "is no run" in capsys.readouterr().err


def test_figures_of_a_later_evaluation_are_shown_by_the_next_report(run):
    (run / "plots.json").unlink()
    evaluate_weights(run)
    assert json.loads((run / "plots.json").read_text())[""][0]["kind"] == "matrix"


def test_a_resumed_run_withdraws_what_was_written_beyond_its_checkpoint(tmp_path):
    path = tmp_path / "lines.jsonl"
    for step in (1, 2, 3, 4):
        append(path, {"step": step})
    with path.open("a") as file:
        file.write('{"step": 5, "lo')  # killed while it wrote
    assert [line["step"] for line in read_lines(path)] == [1, 2, 3, 4]
    withdraw(path, 2)
    append(path, {"step": 3, "again": True})
    assert read_lines(path) == [{"step": 1}, {"step": 2}, {"step": 3, "again": True}]


def test_a_resumed_runs_lines_are_those_of_one_that_was_not_stopped(config_file, tmp_path):  # noqa: F811
    settings = ["runtime.steps=4", "runtime.log_every=1", "runtime.checkpoint.every=2"]
    train(config_file, settings, runs=tmp_path, name="whole")
    train(config_file, settings, runs=tmp_path, name="cut")
    run = tmp_path / "cut"
    for path in (run / "weights").glob("*4*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    train(run, settings, resume=True)
    own, other = (read_lines(tmp_path / name / "metrics.jsonl") for name in ("whole", "cut"))
    assert [(line["step"], line.get("loss")) for line in own] == [(line["step"], line.get("loss")) for line in other]


@pytest.mark.parametrize("spoil", ["{", "[]", '{"": [{"kind": "pie"}]}', '{"": [{"kind": "matrix"}]}'])
def test_damaged_plots_are_one_clear_error(run, spoil):
    (run / "plots.json").write_text(spoil)
    with pytest.raises(CheckpointError, match=r"plots\.json"):
        write_page([run], run / "page.html")
    assert not (run / "page.html").exists()


def test_a_run_that_logged_nothing_has_a_page_that_says_so(run, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    shutil.copy(run / "config.yml", empty)
    text = write_page([empty], empty / "report.html").read_text()
    assert "No step has been logged yet" in text and "Nothing has been evaluated yet" in text


def test_plots_are_the_same_bytes_and_come_back_from_plain_data():
    curves = Curves("a <b> $x$ & c", "x", "y", {"one": ([1, 2, 3], [1.0, None, 2.0]), "two": ([1], [5.0])})
    matrix = Matrix("m", ["cat & <dog>", "b"], [[3, 1], [0, 0]])
    for plot in (curves, matrix):
        again = from_plain(json.loads(json.dumps(to_plain(plot))))
        assert svg(again) == svg(plot)
        text = svg(plot)
        assert text.startswith("<svg") and "<b>" not in text and "<dog>" not in text and "&lt;" in text
    large = Matrix("m", [str(i) for i in range(100)], np.eye(100, dtype=int).tolist())
    assert len(svg(large)) < 400_000


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 1600])
def test_the_page_in_a_real_browser(run, tmp_path, width):
    browser = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    if browser is None:
        pytest.skip("the package chromium is not installed")
    picture = tmp_path / "shot.png"
    words = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--enable-logging=stderr",
    ]
    done = subprocess.run(
        [browser, *words, f"--window-size={width},2400", f"--screenshot={picture}", f"--user-data-dir={tmp_path / 'b'}",
         Path(run / "report.html").resolve().as_uri()],
        capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    from suites.vision.images import read_image

    shot = read_image(picture)
    assert shot.shape[1] >= width and shot.std() > 5
