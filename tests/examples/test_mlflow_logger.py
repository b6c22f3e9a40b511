"""examples/mlflow_logger: a config names the hook, and the run's figures are in MLflow's SQLite store, resumed too."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.peers

ROOT = Path(__file__).resolve().parents[2]
SHAPES = ROOT / "examples" / "plugin"


@pytest.fixture(scope="module")
def mlflow():
    return pytest.importorskip("mlflow", reason="the tracker MLflow is not installed")


def paddock(mlflow, folder, *words):
    command = [sys.executable, "-m", "suites.engine.cli", *map(str, words)]
    path = f"{ROOT}:{ROOT / 'examples' / 'mlflow_logger'}:{SHAPES}:{Path(mlflow.__file__).parents[1]}"
    done = subprocess.run(command, cwd=folder, env={"PYTHONPATH": path}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_figures_of_a_run_and_of_its_continuation_are_one_run_in_the_store(mlflow, tmp_path):
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    hook = f"hooks=[{{type: MlflowLogger, store: '{store}', every: 8}}]"
    options = ["-o", hook, "-o", "runtime.workers=0", "--import", "mlflow_logger"]
    paddock(mlflow, tmp_path, "train", SHAPES / "shapes.yml", *options)
    said = paddock(
        mlflow, tmp_path, "train", "runs/shapes", "--resume", "--import", "mlflow_logger", "--import", "shapes_plugin"
    )
    assert "resumed at step 128" in said
    client = mlflow.tracking.MlflowClient(store)
    (run,) = client.search_runs([client.get_experiment_by_name("paddock").experiment_id])
    assert run.info.status == "FINISHED" and run.info.run_name == "shapes"
    assert [point.step for point in client.get_metric_history(run.info.run_id, "metrics/top1")] == [64, 128]
    assert len(client.get_metric_history(run.info.run_id, "loss/focal")) == 16
