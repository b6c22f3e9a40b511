"""What scripts/smoke runs with an installed wheel, outside the repository: train, export, answer over HTTP.

    cd /somewhere && PYTHON -I REPOSITORY/tests/smoke.py REPOSITORY/configs

`-I` keeps the repository off the path. Prints `smoke: ...` and exits with 0 if all is well.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path

WORDS = ("good fine great", "bad poor awful")


def main() -> int:
    """Run everything in a temporary folder; an error ends the program with a traceback."""
    configs = Path(sys.argv[1]).resolve()
    check_where_from(configs.parent)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = train_tiny(configs / "nlp" / "bow_chnsenticorp.yml", folder)
        answers = served(export(run, folder / "exported"))
    print(f"smoke: trained, exported and served; {answers}")
    return 0


def check_where_from(repository: Path) -> None:
    """Everything comes from the installed wheel."""
    import framework
    import suites

    for package in (framework, suites):
        assert repository not in Path(package.__file__).resolve().parents, f"{package.__file__} is the repository's"


def train_tiny(config: Path, folder: Path) -> Path:
    """A bag of words learns two sentences by heart; the run's folder."""
    from suites.engine.training import train

    data = folder / "data"
    data.mkdir()
    rows = [f"{label}\t{text}" for label, words in enumerate(WORDS) for text in words.split()] * 8
    for name in ("train.tsv", "dev.tsv"):
        (data / name).write_text("\n".join(["label\ttext_a", *rows]) + "\n")
    changes = [f"data.root={data}", "runtime.epochs=4", "optimizer.type=Adam", "schedule.base_lr=0.02"]
    train(config, [*changes, "data.tokenizer.pieces=words", "data.tokenizer.max_size=50"], runs=folder, name="tiny")
    return folder / "tiny"


def export(run: Path, output: Path) -> Path:
    """The exported model's folder."""
    from suites.engine.inference import export_run

    export_run(run, output)
    return output


def served(exported: Path) -> list[object]:
    """What an HTTP server says of one text of each class."""
    from suites.engine.inference import open_model
    from suites.engine.serving.client import Client
    from suites.engine.serving.server import Place, Server
    from suites.engine.serving.service import Settings

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
