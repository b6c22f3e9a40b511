"""What scripts/smoke runs with an installed wheel, outside the repository: train, export, answer over HTTP.

    cd /somewhere && PYTHON -I REPOSITORY/tests/smoke.py REPOSITORY

The configs are those of the wheel; the plug-in and the notebook are the repository's examples. `-I` keeps the
repository off the path. Prints `smoke: ...` and exits with 0 if all is well.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

WORDS = ("good fine great", "bad poor awful")


def main() -> int:
    """Run everything in a temporary folder; an error ends the program with a traceback."""
    repository = Path(sys.argv[1]).resolve()
    check_where_from(repository)
    check_configs(repository / "configs")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = train_tiny(folder)
        answers = served(export(run, folder / "exported"))
        train_plug_in(repository / "examples" / "plugin", folder / "plugin")
        train_cyclegan(folder / "pictures")
        run_notebook(repository / "examples" / "ten_lines.ipynb", folder)
    print(
        f"smoke: trained, exported and served; {answers}; trained the plug-in, a CycleGAN and the notebook's detector"
    )
    return 0


def check_where_from(repository: Path) -> None:
    """Everything comes from the installed wheel."""
    import framework
    import suites

    for package in (framework, suites):
        assert repository not in Path(package.__file__).resolve().parents, f"{package.__file__} is the repository's"


def paddock(*words: str, folder: Path) -> str:
    """What the installed command prints."""
    command = [str(Path(sys.executable).with_name("paddock")), *words]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def check_configs(folder: Path) -> None:
    """The installed configs are the repository's."""
    paths = (path.relative_to(folder) for path in folder.rglob("*.yml"))
    wanted = sorted(path.with_suffix("").as_posix() for path in paths if "_base_" not in path.parts)
    listed = paddock("config", "list", "configs", folder=Path.cwd()).split("\n")[1:-1]
    assert [line.strip() for line in listed] == wanted, listed


def train_plug_in(example: Path, folder: Path) -> None:
    """A user's backbone, loss, data set and hook train through the command and are evaluated."""
    shutil.copytree(example, folder)
    paddock("train", "shapes.yml", "-o", "runtime.epochs=1", folder=folder)
    assert "top1" in paddock("eval", "runs/shapes", "--import", "shapes_plugin", folder=folder)
    assert (folder / "runs" / "shapes" / "figures.csv").is_file()


def train_cyclegan(folder: Path) -> None:
    """A step with two optimizers trains through the command, resumes, is evaluated, exported, and draws."""
    import cv2
    import numpy as np

    for at, part in enumerate(("trainA", "trainB", "testA", "testB")):
        (folder / "data" / part).mkdir(parents=True)
        for number in range(4):
            pixels = np.random.default_rng(4 * at + number).integers(0, 255, (16, 16, 3), np.uint8)
            cv2.imwrite(str(folder / "data" / part / f"{number}.png"), pixels)
    small = "{size: 16, channels: 4, blocks: 1, critic_channels: 4, halvings: 1}"
    changes = ["data.root=data", f"model={small}", "features={backbone: {pretrained: null}, size: 32}"]
    changes += ["runtime={epochs: 2, evaluation: {every: 1, pictures: 2}}"]
    words = [word for change in changes for word in ("-o", change)]
    paddock("train", "generation/cyclegan", *words, "--name", "run", folder=folder)
    paddock("train", "runs/run", "--resume", folder=folder)
    figures = paddock("eval", "runs/run", folder=folder)
    assert json.loads(figures) == json.loads((folder / "runs/run/metrics.json").read_text())
    paddock("export", "runs/run", "--output", "model", folder=folder)
    paddock("infer", "model", "data/testA", "--output", "drawn", folder=folder)
    assert len(list((folder / "drawn").glob("*.png"))) == 4


def run_notebook(notebook: Path, folder: Path) -> None:
    """The notebook's cells, one after the other."""
    cells = json.loads(notebook.read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    subprocess.run([sys.executable, "-I", "-c", code], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    assert (folder / "runs" / "mine" / "metrics.json").is_file()


def train_tiny(folder: Path) -> Path:
    """A bag of words learns two sentences by heart; the run's folder."""
    from suites.engine.train.training import train

    data = folder / "data"
    data.mkdir()
    rows = [f"{label}\t{text}" for label, words in enumerate(WORDS) for text in words.split()] * 8
    for name in ("train.tsv", "dev.tsv"):
        (data / name).write_text("\n".join(["label\ttext_a", *rows]) + "\n")
    changes = [f"data.root={data}", "runtime.epochs=4", "optimizer.type=Adam", "schedule.base_lr=0.02"]
    config = Path("nlp/bow_chnsenticorp")  # found by name
    train(config, [*changes, "data.tokenizer.pieces=words", "data.tokenizer.max_size=50"], runs=folder, name="tiny")
    return folder / "tiny"


def export(run: Path, output: Path) -> Path:
    """The exported model's folder."""
    from suites.engine.predict.inference import export_run

    export_run(run, output)
    return output


def served(exported: Path) -> list[object]:
    """What an HTTP server says of one text of each class."""
    from suites.engine.predict.inference import open_model
    from suites.engine.serving.client import Client
    from suites.engine.serving.service import Settings
    from suites.engine.serving.web.server import Place, Server

    server = Server(open_model(exported), Settings(), Place("127.0.0.1", 0))
    answers: list[object] = []

    def ask() -> None:
        try:
            with Client(server.url) as client:
                answers.extend(client.score([words.split()[0] for words in WORDS]))
        finally:
            server.stop()

    asking = threading.Thread(target=ask)
    asking.start()
    assert server.run() == 0
    asking.join()
    assert len(answers) == len(WORDS) and answers[0] != answers[1], answers
    return answers


if __name__ == "__main__":
    sys.exit(main())
