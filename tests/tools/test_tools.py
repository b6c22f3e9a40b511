"""The tools as a user types them: exit codes, one-line errors, files on disk; train, resume, eval, export, infer."""

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import cv2
import numpy as np
import pytest

from framework.predictor import Predictor
from suites.engine.predict.inputs import matched as matches
from tests.suites.engine import toy
from tests.suites.engine.train.test_training import CONFIG
from tools import eval as eval_tool
from tools import export, infer, train

ROOT = Path(__file__).parents[2]


def call(tool, *words):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = tool.main([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tools")
    (folder / "toy.yml").write_text(CONFIG)
    code, _, err = call(train, folder / "toy.yml", "--runs", folder, "--name", "a")
    assert (code, err) == (0, "")
    return folder / "a"


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for index in (3, 15):
        cv2.imwrite(str(folder / f"p{index}.png"), toy.image(index, 20))
    (folder / "broken.png").write_bytes(b"\x89PNG cut")
    (folder / "notes.txt").write_text("no image")
    return folder


def test_errors_are_one_line_and_status_2(tmp_path, run):
    for words, message in [
        ((tmp_path / "no.yml",), "there is no such config file"),
        ((run.parent / "toy.yml", "-o", "optimizer.momentun=1"), "did you mean 'momentum'?"),
        ((run.parent / "toy.yml", "-o", "runtime.seed=high"), "runtime.seed"),
        ((run.parent / "toy.yml", "--runs", run.parent, "--name", "a"), "holds a run already"),
        ((run.parent / "toy.yml", "--runs", tmp_path, "--resume"), "no run to resume"),
    ]:
        code, _, err = call(train, *words)
        assert code == 2 and message in err and err.startswith("error: ") and "Traceback" not in err


def test_eval_prints_figures_and_renews_metrics(run):
    (run / "metrics.json").unlink()
    code, out, _ = call(eval_tool, run)
    assert code == 0
    assert json.loads(out) == json.loads((run / "metrics.json").read_text())


def test_runs_of_several_seeds_are_summed_up(run, tmp_path):
    words = (run.parent / "toy.yml", "--runs", tmp_path, "-o", "runtime.epochs=1")
    code, out, err = call(train, *words, "--seeds", 2)
    assert (code, err) == (0, "") and (tmp_path / "toy_seed4").is_dir()  # the config's seed is 3
    told = json.loads(out[out.index("\n{") :])
    code, out, _ = call(eval_tool, tmp_path / "toy_seed3", tmp_path / "toy_seed4")
    found = json.loads(out)
    assert code == 0 and found["mean"] == told["mean"] and found["lowest"]["score"] <= found["highest"]["score"]
    with pytest.raises(SystemExit):
        call(train, *words, "--seeds", 0)


def test_pictures_without_a_folder_of_their_own_are_drawn_into_one_here(run, photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = call(infer, run, photos)
    written = sorted(path.name for path in (tmp_path / "predictions").iterdir())
    assert code == 0 and "predictions.json" in written and len(written) > 1
    assert out.splitlines()[-1].startswith(f"predictions: {len(written) - 1} pictures and predictions.json")


def test_eval_of_cut_weights_is_one_error(run, tmp_path):
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((run / "weights/best.safetensors").read_bytes()[:200])
    code, _, err = call(eval_tool, run, "--weights", cut)
    assert code == 2 and str(cut) in err and err.count("\n") == 1


def test_infer_draws_files_and_folders_and_skips_what_is_damaged(run, photos, tmp_path):
    code, out, err = call(infer, run, photos, photos / "p3.png", "--output", tmp_path / "out")
    assert code == 0
    assert "3 pictures" in out and "1 inputs skipped" in out
    notes, skipped = err.splitlines()
    assert notes.startswith(f"{photos}: not read: 1 files of kinds") and notes.endswith("(notes.txt)")
    assert skipped == f"skipped: {photos}/broken.png: no image, or a damaged one"
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["p15.jpg", "p3.jpg", "p3_2.jpg", "predictions.json"]
    results = json.loads((tmp_path / "out/predictions.json").read_text())
    assert results[str(photos / "p15.png")]["brightness"] > results[str(photos / "p3.png")]["brightness"]


def test_infer_takes_patterns_several_inputs_and_a_batch_size(run, photos, tmp_path):
    words = (f"{photos}/p1*.png", f"{photos}/**/p3.png", tmp_path / "none*.png", "--output", tmp_path / "out")
    results = []
    for more in ((), ("--batch-size", 8)):
        code, out, err = call(infer, run, *words, *more)
        assert code == 0 and "2 pictures" in out and "none*.png" in err
        results.append(json.loads((tmp_path / "out/predictions.json").read_text()))
        assert list(results[-1]) == [str(photos / "p15.png"), str(photos / "p3.png")]
    for one, together in zip(results[0].values(), results[1].values(), strict=True):
        assert together["brightness"] == pytest.approx(one["brightness"], abs=1e-6)
    with pytest.raises(SystemExit):
        call(infer, run, *words, "--batch-size", 0)


def test_a_long_text_is_no_pattern():
    text = "is it good? " * 1000
    assert matches(text) == [text] and matches("is it [good") == ["is it [good"]


def test_infer_takes_overrides_of_a_run_and_refuses_them_for_an_export(run, photos, tmp_path):
    words = (photos / "p3.png", "--output", tmp_path / "out")
    assert call(infer, run, *words, "-o", "data.samples=4")[0] == 0
    code, _, err = call(infer, run, *words, "-o", "data.sample=4")
    assert code == 2 and "did you mean 'samples'?" in err
    assert call(export, run, "--output", tmp_path / "exported")[0] == 0
    code, _, err = call(infer, tmp_path / "exported", *words, "-o", "data.samples=4")
    assert code == 2 and "an exported model is fixed and takes no -o" in err


def test_a_least_score_is_refused_where_there_are_no_scores(run, photos, tmp_path):
    code, _, err = call(infer, run, photos, "--output", tmp_path / "out", "--min-score", 0.5)
    assert code == 2 and err.startswith("error: infer: this model's results have no scores, so --min-score leaves out")


def test_an_output_folder_that_cannot_be_made_is_one_error(run, photos):
    code, _, err = call(infer, run, photos, "--output", photos / "p3.png")
    last = err.splitlines()[-1]
    assert code == 2 and last.startswith("error: ") and "p3.png" in last and "Traceback" not in err


def test_infer_without_any_readable_input_fails(run, tmp_path):
    code, _, err = call(infer, run, tmp_path / "missing.png", "--output", tmp_path / "out")
    assert code == 2 and "missing.png" in err


def test_the_exported_model_predicts_the_same(run, photos, tmp_path):
    code, out, _ = call(export, run, "--output", tmp_path / "exported")
    assert code == 0 and "image -> brightness" in out and "input shape only" not in out
    assert {p.name for p in (tmp_path / "exported").iterdir()} == {"program.json", "weights.safetensors"}
    for model, output in ((run, "a"), (tmp_path / "exported", "b")):
        assert call(infer, model, photos, "--output", tmp_path / output)[0] == 0
    a, b = (json.loads((tmp_path / name / "predictions.json").read_text()) for name in "ab")
    assert a.keys() == b.keys()
    for path in a:
        assert b[path]["brightness"] == pytest.approx(a[path]["brightness"], abs=1e-5)
        assert b[path]["unit"] == "share"


def test_the_model_exported_as_onnx_predicts_the_same_and_keeps_its_preprocessing(run, tmp_path):
    onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
    code, out, _ = call(export, run, "--output", tmp_path / "exported", "--format", "onnx")
    assert code == 0 and float(out.split("on one sample:")[1].split()[0]) < 1e-3
    model = onnx.load(tmp_path / "exported" / "model.onnx")
    assert [o.name for o in model.graph.output] == ["brightness"]
    assert {p.key for p in model.metadata_props} == {"suite", "outputs", "processor", "imports", "origin"}


@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_a_model_is_exported_in_8_bits_and_evaluated(run, tmp_path, mode):
    words = (run.parent / "toy.yml", "--runs", tmp_path, "--name", "wide", "-o", "model.width=128")
    assert call(train, *words)[0] == 0
    how = ("--method", "kl") if mode == "static" else ()
    code, out, err = call(export, tmp_path / "wide", "--output", tmp_path / "int8", "--quantize", mode, *how)
    assert (
        (code, err) == (0, "")
        and "1 products, tables and convolutions in 8 bits" in out
        and "'out.weight'" in out
        and "128 weights only" in out
    )
    code, out, _ = call(eval_tool, tmp_path / "wide", "--exported", tmp_path / "int8")
    assert code == 0
    whole = json.loads(call(eval_tool, tmp_path / "wide")[1])
    assert json.loads(out)["score"] == pytest.approx(whole["score"], abs=0.01)


def test_an_export_of_which_nothing_is_in_8_bits_says_so_and_tells_no_speed(run, tmp_path):
    code, out, err = call(export, run, "--output", tmp_path / "int8", "--quantize", "dynamic")
    assert (code, err) == (0, "") and "weights only" in out and "speed" not in out
    assert "\nno products, tables and convolutions in 8 bits: the export is the float32 model" in out


def test_an_export_says_what_was_equalised_and_learnt(run, tmp_path):
    words = (run.parent / "toy.yml", "--runs", tmp_path, "--name", "wide", "-o", "model.width=128")
    assert call(train, *words)[0] == 0
    how = ("--quantize", "static", "--equalize", "weights", "--adaround", "--adaround-steps", "3")
    code, out, err = call(export, tmp_path / "wide", "--output", tmp_path / "int8", *how)
    assert (code, err) == (0, "") and "AdaRound, layer 1 of 1: matmul" in out
    assert "pairs of layers equalised" in out and "the rounding of " in out


def test_wrong_words_about_8_bits_are_one_error(run, tmp_path):
    words = (export, run, "--output", tmp_path / "int8", "--quantize", "static")
    for more, message in [
        (("--method", "hist"), "method is 'hist'; takes 'abs_max'"),
        (("--calibration-batches", 0), "calibration needs at least 1"),
    ]:
        code, _, err = call(*words, *more)
        assert code == 2 and message in err and err.count("\n") == 1
    code, _, err = call(eval_tool, run, "--exported", tmp_path)
    assert code == 2 and "holds no exported model (program.json)" in err
    code, _, err = call(eval_tool, run, run, "--exported", tmp_path)
    assert code == 2 and "--exported takes one run" in err


def test_the_exported_model_takes_any_batch(run, tmp_path):
    call(export, run, "--output", tmp_path / "exported")
    predictor = Predictor(tmp_path / "exported")
    (out,) = predictor.run({"image": np.zeros((5, 48), np.float32)})
    assert out.shape == (5,)


def test_a_folder_that_is_no_model_is_refused(tmp_path):
    code, _, err = call(infer, tmp_path, "x.png", "--output", tmp_path)
    assert code == 2 and "neither a run (config.yml) nor an exported model (program.json)" in err
    code, _, err = call(export, tmp_path / "nowhere", "--output", tmp_path / "out")
    assert code == 2 and "nowhere: no run is in there (config.yml)" in err


def test_a_folder_without_inputs_is_named(run, tmp_path):
    (tmp_path / "empty").mkdir()
    code, _, err = call(infer, run, tmp_path / "empty", "--output", tmp_path / "out")
    assert code == 2 and "empty: there is no file of a kind that this model reads in it" in err


def test_profile_shows_a_table_and_writes_it_with_a_trace(run, photos, tmp_path):
    """With `--profile`, each tool says how many steps it recorded, and leaves profile.txt and trace.json."""
    config = run.parent / "toy.yml"
    for words, folder, stream in [
        ((train, config, "--runs", tmp_path, "--name", "p"), tmp_path / "p", 1),
        ((eval_tool, run), run, 2),
        ((infer, run, photos, "--output", tmp_path / "out"), tmp_path / "out", 1),
    ]:
        result = call(*words, "--profile")
        assert result[0] == 0
        for text in ("profile of ", "operator calls", "GFLOP/s", "memory: ", f"{folder}/trace.json"):
            assert text in result[stream]
        assert " -> " in (folder / "profile.txt").read_text()
        events = json.loads((folder / "trace.json").read_text())["traceEvents"]
        assert any(event["ph"] == "X" for event in events)
    assert json.loads(call(eval_tool, run, "--profile")[1])  # the figures alone are on stdout


SCRIPT = """
    import sys
    sys.path.insert(0, {root!r})
    import tests.suites.engine.toy
    from tools.train import main
    if __name__ == "__main__":
        sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_saves_says_how_to_go_on_and_exits_with_130(tmp_path):
    (tmp_path / "toy.yml").write_text(CONFIG.replace("epochs: 4", "epochs: 1000").replace("workers: 0", "workers: 1"))
    (tmp_path / "main.py").write_text(textwrap.dedent(SCRIPT).format(root=str(ROOT)))
    words = [sys.executable, tmp_path / "main.py", tmp_path / "toy.yml", "--runs", tmp_path]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    log = tmp_path / "toy/log.txt"
    deadline = time.monotonic() + 30
    while not (log.exists() and "step 10/" in log.read_text()):
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "continue with: paddock train" in out and f"{tmp_path}/toy --resume" in out.replace("\n", "")
    assert any((tmp_path / "toy/weights").glob("step_*"))
