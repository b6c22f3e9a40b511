"""What a bad day must not cost: a closed terminal, damaged samples, reports that nobody sees, figures overwritten."""

import contextlib
import json
import logging
import os
import pty
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from framework.errors import ConfigError, DataError
from framework.io import load_tensors
from suites.engine.config import load_config
from suites.engine.run.checkpoint import Checkpoints
from suites.engine.run.log import heard
from suites.engine.run.ownership import Ownership
from suites.engine.train.training import evaluate_weights, train
from tests.suites.engine import toy  # noqa: F401  (registers the suite)
from tests.suites.engine.train.test_accumulation import Fail

ROOT = Path(__file__).parents[4]
CONFIG = """
suite: toy
data: {samples: 200}
optimizer: {type: Momentum, momentum: 0.9}
schedule: {type: Constant, base_lr: 0.02, reference_batch: 4}
runtime: {epochs: 2, seed: 3, workers: 0, checkpoint: {every: 20}, evaluation: {every: 1, pictures: 3}}
"""
DAMAGED = "data.damaged=[0, 42]"


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "toy.yml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    (folder / "toy.yml").write_text(CONFIG)
    train(folder / "toy.yml", ["runtime.epochs=1"], runs=folder)
    return folder / "toy"


def test_a_few_damaged_samples_do_not_end_a_run_and_are_named(tmp_path, config, capsys):
    train(config, [DAMAGED], runs=tmp_path)
    named = "2 of 200 samples could not be used: sample 0 (grey0.png): grey0.png: cut off; sample 42 (grey42.png)"
    log, shown = (tmp_path / "toy/log.txt").read_text(), capsys.readouterr().out
    for text in (log, shown):
        assert f"training: {named}" in text and f"warning: evaluation: {named}" in text
    assert json.loads((tmp_path / "toy/metrics.json").read_text())["skipped"] == 2


def test_a_run_with_damaged_samples_resumes_bit_for_bit_with_any_number_of_workers(tmp_path, config):
    train(config, [DAMAGED], runs=tmp_path, name="whole")
    with pytest.raises(RuntimeError, match="power cut"):
        train(config, [DAMAGED, "runtime.workers=2"], runs=tmp_path, name="part", hooks=[Fail(70)])
    train(tmp_path / "part", ["runtime.workers=2"], resume=True)
    a, b = (load_tensors(tmp_path / name / "weights/last.safetensors") for name in ("whole", "part"))
    assert all(a[name].numpy().tobytes() == b[name].numpy().tobytes() for name in a)
    assert "training: 2 of 200 samples" in (tmp_path / "part/log.txt").read_text()


def test_more_damaged_samples_than_allowed_end_the_run_with_the_first_of_them(tmp_path, config):
    with pytest.raises(DataError, match=r"3 of 200 samples could not be used: sample 1 .*at most 0\.01 of the samples"):
        train(config, ["data.damaged=[1, 2, 3]"], runs=tmp_path)
    with pytest.raises(DataError, match=r"sample 1 \(grey1\.png\): grey1\.png: cut off$"):
        train(config, ["data.damaged=[1]", "runtime.data.max_skipped=0"], runs=tmp_path, name="strict")


def test_impossible_bounds_are_refused(config):
    for override in ("max_skipped=2", "max_skipped=-1", "timeout=-1"):
        with pytest.raises(ConfigError, match=r"runtime\.data: "):
            load_config(config, [f"runtime.data.{override}"])


def test_reports_of_data_sets_are_in_the_log_and_on_the_screen(tmp_path, config, capsys):
    train(config, ["runtime.epochs=1", DAMAGED], runs=tmp_path)
    line = "toy: 200 images, 2 of them damaged"
    assert line in (tmp_path / "toy/log.txt").read_text() and line in capsys.readouterr().out


def test_what_is_heard_inside_is_not_heard_outside_and_nothing_stays_behind():
    root, log, outer, inner = logging.getLogger(), logging.getLogger("suites.x"), [], []
    before = list(root.handlers), logging.getLogger("suites").level
    with heard(outer.append):
        log.info("one")
        with heard(inner.append):
            log.info("two")
            logging.getLogger("elsewhere").warning("three")
            logging.getLogger("elsewhere").info("chatter")
        log.warning("four")
    assert (outer, inner) == (["one", "warning: four"], ["two", "warning: three"])
    assert (list(root.handlers), logging.getLogger("suites").level) == before


def test_a_report_of_a_set_that_is_opened_again_is_told_once_and_a_warning_each_time():
    log, told = logging.getLogger("suites.x"), []
    with heard(told.append):
        for size in (10, 10, 20, 10):
            log.info("a set of %d pictures", size)
            log.warning("one of them is damaged")
    assert [line for line in told if "warning" not in line] == ["a set of 10 pictures", "a set of 20 pictures"]
    assert len(told) == 6


def test_figures_of_other_options_stand_beside_the_runs_own(trained, caplog):
    own = (trained / "metrics.json").read_bytes()
    with caplog.at_level(logging.INFO, "suites"):
        found = evaluate_weights(trained, ["data.batch_size=3"])
        evaluate_weights(trained, ["data.batch_size=3"])
        evaluate_weights(trained, weights=trained / "weights/last.safetensors")
    assert (trained / "metrics.json").read_bytes() == own
    files = {path: json.loads(path.read_text()) for path in trained.glob("metrics-*.json")}
    assert sorted((f["overrides"], f["weights"]) for f in files.values()) == [
        ([], str(trained / "weights/last.safetensors")),
        (["data.batch_size=3"], None),
    ]
    assert all(set(f) == {"config_sha256", "overrides", "weights", "figures"} for f in files.values())
    assert found in [f["figures"] for f in files.values()]
    assert all(f"these figures are in {path}" in caplog.text for path in files)


def test_a_run_is_evaluated_while_it_is_trained_without_touching_its_figures(trained):
    own = (trained / "metrics.json").read_bytes()
    with contextlib.closing(_Held(trained)):
        evaluate_weights(trained)
    assert (trained / "metrics.json").read_bytes() == own


class _Held:
    def __init__(self, folder):
        self.close = Ownership(folder).release


ON_A_TERMINAL = """
    import signal
    import sys
    sys.path[:0] = [{root!r}]
    import tests.suites.engine.toy
    from pathlib import Path
    from suites.engine.train.hooks import Hook
    from suites.engine.train.training import train

    class Say(Hook):
        def after_step(self, trainer):
            if trainer.step == 30:
                Path({mark!r}).touch()
            if trainer.step >= 30:
                import time
                time.sleep(0.05)

    if __name__ == "__main__":
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
        train(Path({config!r}), ["runtime.workers=2", "runtime.steps=100", "runtime.epochs=null"], runs=Path({runs!r}),
              hooks=[Say()])
"""


def test_a_run_goes_on_without_its_terminal_and_its_log_tells(tmp_path, config):
    """Everything that writes to the terminal fails from then on, and every process in it gets SIGHUP."""
    mark, script = tmp_path / "mark", tmp_path / "script.py"
    values = {"root": str(ROOT), "mark": str(mark), "config": str(config), "runs": str(tmp_path)}
    script.write_text(textwrap.dedent(ON_A_TERMINAL).format(**values))
    child, terminal = pty.fork()
    if not child:
        os.execv(sys.executable, [sys.executable, str(script)])
    said = b""
    while not mark.exists():
        said += os.read(terminal, 4096)
    os.close(terminal)
    assert os.WIFEXITED(os.waitpid(child, 0)[1])
    assert Checkpoints(tmp_path / "toy/weights").steps()[-1] == 100, said
    log = (tmp_path / "toy/log.txt").read_text()
    assert "the terminal is gone; the run goes on without it" in log and "the screen takes no more lines" in log
    assert "done: 100 steps" in log


def test_workers_survive_the_hangup_that_their_parent_handles(tmp_path, config):
    """SIGHUP to the whole process group, as a terminal sends it."""
    script = tmp_path / "script.py"
    values = {"root": str(ROOT), "mark": str(tmp_path / "mark"), "config": str(config), "runs": str(tmp_path)}
    text = ON_A_TERMINAL.replace("Path({mark!r}).touch()", "import os; os.killpg(0, signal.SIGHUP)")
    text = text.replace("steps=100", "steps=4000")
    script.write_text(textwrap.dedent(text).format(**values))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100, start_new_session=True)
    assert done.returncode == 0, done.stderr
    assert Checkpoints(tmp_path / "toy/weights").steps()[-1] == 30
    assert signal.Signals.SIGHUP.name not in done.stderr
