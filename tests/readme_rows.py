"""The commands of the README's table, on drawn data in an empty folder; also a program that runs them from a wheel.

    cd /somewhere && PYTHON -I REPOSITORY/tests/readme_rows.py REPOSITORY [SUITE ...]

runs each row, or those of some suites, with the `paddock` beside PYTHON, as `scripts/smoke` does with the installed
wheel: as typed, so that `--fetch` fetches weights into $PADDOCK_ZOO where they are not there. Only the number of steps
is added. `-I` keeps the repository off the path, so nothing of it is imported here.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np

SHORT = ("runtime.steps=1", "runtime.epochs=null", "runtime.workers=0", "data.train.batch_size=2")
LARGER = {"retrieval": ("data.train.batch_size=8",)}  # batches have several pictures of several classes


def rows_of(repository: Path) -> list[str]:
    """The commands of the table."""
    return re.findall(r"^\| [^|]+ \| `(paddock train [^`]+)` \|", (repository / "README.md").read_text(), re.MULTILINE)


def suite_of(row: str) -> str:
    """The suite that a row is of."""
    return row.split()[2].split("/")[0]


def picture(path: Path, seed: int, size: tuple[int, int] = (48, 64)) -> None:
    """A picture of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.random.default_rng(seed).integers(0, 255, (*size, 3), np.uint8))


def detection(root: Path) -> None:
    """Photos with VOC's files beside them."""
    box = "<bndbox><xmin>8</xmin><ymin>8</ymin><xmax>40</xmax><ymax>40</ymax></bndbox>"
    for at in range(6):
        picture(root / f"{at}.jpg", at)
        name = "cat" if at % 2 else "dog"
        (root / f"{at}.xml").write_text(
            f"<annotation><filename>{at}.jpg</filename><size><width>64</width><height>48</height><depth>3</depth></size>"
            f"<object><name>{name}</name>{box}</object></annotation>"
        )


def segmentation(root: Path) -> None:
    """Images and label maps."""
    for at in range(6):
        picture(root / "images" / f"{at}.jpg", at)
        labels = np.zeros((48, 64), np.uint8)
        labels[:, 20:40], labels[:, 40:] = 1, 2
        (root / "labels").mkdir(exist_ok=True)
        cv2.imwrite(str(root / "labels" / f"{at}.png"), labels)


def classification(root: Path) -> None:
    """Folders of classes."""
    for at in range(12):
        picture(root / ["cat", "dog"][at % 2] / f"{at}.jpg", at)


def video(root: Path) -> None:
    """Folders of classes with folders of frames."""
    for at in range(10):
        for frame in range(5):
            picture(root / ["wave", "bow"][at % 2] / f"{at}" / f"{frame}.png", 100 * at + frame)


def keypoints(path: Path) -> None:
    """A zip of faces and two tables of their 68 points."""
    places = np.random.default_rng(0).uniform(8, 40, (6, 136)).round(1)
    with zipfile.ZipFile(path, "w") as whole:
        for at in range(6):
            picture(path.parent / "drawn" / f"{at}.png", at)
            whole.write(path.parent / "drawn" / f"{at}.png", f"{at}.png")
        for name, numbers in (("train", range(4)), ("test", range(4, 6))):
            whole.writestr(f"{name}.csv", "\n".join(f"{at}.png,{','.join(map(str, places[at]))}" for at in numbers))


def anomaly(root: Path) -> None:
    """Good pictures, and bad ones for evaluation."""
    for at in range(16):
        picture(root / ("good" if at < 12 else "bad") / f"{at}.jpg", at)


def retrieval(root: Path) -> None:
    """Folders of classes, half of which are for evaluation."""
    for at in range(32):
        picture(root / f"part{at % 4}" / f"{at}.jpg", at)


def nlp(path: Path) -> None:
    """A table of texts and labels, and a vocabulary beside it."""
    lines = [f'"a fine film, number {at}",good' if at % 2 else f'"what a waste, {at}",bad' for at in range(12)]
    path.write_text("\n".join(["text,label", *lines]))
    words = ["a", "fine", "film", ",", "number", "what", "waste"]
    (path.parent / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))


def ctr(path: Path) -> None:
    """A click log."""
    drawn = random.Random(0)
    lines = [f"{drawn.randrange(2)},u{drawn.randrange(20)},{drawn.random():.3f}" for _ in range(100)]
    path.write_text("\n".join(["click,user,price", *lines]))


SUITES = (detection, segmentation, classification, video, keypoints, anomaly, retrieval, nlp, ctr)
DRAWN = {draw.__name__: draw for draw in SUITES}


def run_row(row: str, folder: Path, paddock: Path, environment: Mapping[str, str], instead: Sequence[str] = ()) -> str:
    """Draws a row's data, runs it for a step in `folder`, and returns what it says.

    Args:
        row: the command.
        folder: an empty one.
        paddock: the console script.
        environment: of the process.
        instead: further overrides, such as those of weights that are not there.

    Raises AssertionError where it fails or leaves no run.
    """
    words = row.split()
    root = next(word.removeprefix("data.root=") for word in words if word.startswith("data.root="))
    DRAWN[suite_of(row)](folder / root)
    command = [str(paddock), *words[1:]]
    command += [word for each in (*instead, *SHORT, *LARGER.get(suite_of(row), ())) for word in ("-o", each)]
    done = subprocess.run(command, cwd=folder, env=dict(environment), capture_output=True, text=True, timeout=600)
    said = done.stderr + done.stdout
    assert done.returncode == 0, f"{row}\n{said[-3000:]}"
    (run,) = (folder / "runs").iterdir()
    assert "done: 1 steps" in said and (run / "report.html").is_file(), f"{row}\n{said[-3000:]}"
    return (run / "log.txt").read_text()


def main() -> int:
    """Run the rows; the first that fails ends the program with a traceback."""
    wanted = sys.argv[2:]
    for row in rows_of(Path(sys.argv[1])):
        if wanted and suite_of(row) not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            log = run_row(row, Path(folder), Path(sys.executable).with_name("paddock"), os.environ)
        weights = [line for line in log.splitlines() if "pretrained" in line or "weights from" in line]
        assert bool(weights) == ("--fetch" in row), f"{row}\n{log}"
        print(f"smoke: a row of the README trains: {row}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
