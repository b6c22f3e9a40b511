"""The six commands of the README's table train as they stand, in an empty folder, on drawn data.

Each runs in a process of its own through the installed console script. Only the number of steps is added; where weights
are not fetched here, and for the large text encoder, the parts that would need them are replaced.
"""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
ROWS = re.findall(r"^\| [^|]+ \| `(paddock train [^`]+)` \|", (ROOT / "README.md").read_text(), re.MULTILINE)
SHORT = ["runtime.steps=1", "runtime.epochs=null", "runtime.workers=0", "data.train.batch_size=2"]
INSTEAD = {  # of weights that are fetched
    "detection": ["model.backbone.pretrained=null"],
    "segmentation": ["model.backbone.pretrained=null"],
    "classification": ["model.pretrained=null"],
    "video": ["model.backbone.pretrained=null"],
    "nlp": [
        "runtime.weights=null",
        "data.tokenizer.vocabulary=vocab.txt",
        "model.encoder={type: Bert, vocab_size: 13, hidden_size: 16, layers: 1, heads: 2, ffn_size: 16}",
    ],
    "ctr": [],
}


def picture(path, seed, size=(48, 64)):
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.random.default_rng(seed).integers(0, 255, (*size, 3), np.uint8))


def detection(root):
    box = "<bndbox><xmin>8</xmin><ymin>8</ymin><xmax>40</xmax><ymax>40</ymax></bndbox>"
    for at in range(6):
        picture(root / f"{at}.jpg", at)
        name = "cat" if at % 2 else "dog"
        (root / f"{at}.xml").write_text(
            f"<annotation><filename>{at}.jpg</filename><size><width>64</width><height>48</height><depth>3</depth></size>"
            f"<object><name>{name}</name>{box}</object></annotation>"
        )


def segmentation(root):
    for at in range(6):
        picture(root / "images" / f"{at}.jpg", at)
        labels = np.zeros((48, 64), np.uint8)
        labels[:, 20:40], labels[:, 40:] = 1, 2
        (root / "labels").mkdir(exist_ok=True)
        cv2.imwrite(str(root / "labels" / f"{at}.png"), labels)


def classification(root):
    for at in range(12):
        picture(root / ["cat", "dog"][at % 2] / f"{at}.jpg", at)


def video(root):
    for at in range(10):
        for frame in range(5):
            picture(root / ["wave", "bow"][at % 2] / f"{at}" / f"{frame}.png", 100 * at + frame)


def nlp(path):
    lines = [f'"a fine film, number {at}",good' if at % 2 else f'"what a waste, {at}",bad' for at in range(12)]
    path.write_text("\n".join(["text,label", *lines]))
    words = ["a", "fine", "film", ",", "number", "what", "waste"]
    (path.parent / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))


def ctr(path):
    drawn = random.Random(0)
    lines = [f"{drawn.randrange(2)},u{drawn.randrange(20)},{drawn.random():.3f}" for _ in range(100)]
    path.write_text("\n".join(["click,user,price", *lines]))


DRAWN = {f.__name__: f for f in (detection, segmentation, classification, video, nlp, ctr)}


def test_the_table_has_a_row_a_suite():
    assert [row.split()[2].split("/")[0] for row in ROWS] == list(DRAWN)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split()[2])
def test_a_row_trains_as_it_stands(row, tmp_path):
    words = row.split()
    suite = words[2].split("/")[0]
    root = next(word.removeprefix("data.root=") for word in words if word.startswith("data.root="))
    DRAWN[suite](tmp_path / root)
    added = [*INSTEAD[suite], *SHORT]
    command = [str(Path(sys.executable).parent / words[0]), *words[1:]]
    command += [word for each in added for word in ("-o", each)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PADDOCK_")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    (run,) = (tmp_path / "runs").iterdir()
    assert "done: 1 steps" in done.stderr + done.stdout and (run / "report.html").is_file()
