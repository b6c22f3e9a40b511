"""Builds fuzz.cc with sanitizers and runs it: python -m tests.framework.predictor.fuzz COUNT [SEED]."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from framework.sealing import Seal, write_sealed
from framework.table import Table
from suites.ctr.processor import ClickProcessor
from suites.ctr.schema import schema_of
from suites.ctr.serving import publish
from suites.ctr.serving.published import model_key
from suites.nlp.tokenizers.subwords import SubwordTokenizer
from suites.nlp.tokenizers.wordpiece import BertTokenizer
from tests.framework.sealing.test_sealing import SECRET, pem, secret
from tools.unicode_tables import charsmap

ROOT = Path(__file__).resolve().parents[3]
NATIVE = ROOT / "framework" / "native"
SOURCES = [
    *(NATIVE / "predictor" / room for room in ("sealing/*.cc", "texts/*.cc", "pictures/*.cc", "rows/*.cc")),
    *(
        NATIVE / name
        for name in ("predictor/json.cc", "predictor/outside.cc", "core/*.cc", "image/*.cc", "reader/*.cc")
    ),
    NATIVE / "cpu/image/picture_rows.cc",
    NATIVE / "table/snapshot.cc",
]
LINES = ["the film was good", "Ein Café für Bücher", "北京 2024, 12345", "un-wanted films (and more)!"]
STEPS = [
    [{"type": "ResizeShort", "size": 36}, {"type": "CenterCrop", "size": [32, 30]}, {"type": "Normalize"}],
    [{"type": "Letterbox", "size": 48, "fill": [0.1, 0.2, 0.3], "centred": False, "interp": "area"}],
    [{"type": "ResizeKeepRatio", "short": 20, "max_long": 50, "interp": "nearest"}, {"type": "PadToMultiple"}],
    [{"type": "Normalize", "mean": [0, 0, 0], "std": [1, 1, 1], "bgr": True}, {"type": "PadToMultiple", "multiple": 8}],
    [{"type": "Resize", "size": [33, 20], "interp": "cubic"}, {"type": "Normalize"}],
    [{"type": "ObjectCrop", "size": [24, 18], "padding": 1.25, "scale": 0.0}, {"type": "Normalize"}],
]


def seeds(folder: Path) -> None:
    """What is changed."""
    for name in ("sealed", "tokenizers", "metadata", "charsmaps"):
        (folder / name).mkdir()
    private, _ = pem(folder, "owner")
    files = {"program.json": b"{}" * 900, "weights.safetensors": bytes(range(256)) * 9, "none": b""}
    ways = {"both": Seal(secret, private), "encrypted": Seal(encrypt=secret), "signed": Seal(sign=private)}
    for name, seal in ways.items():
        (folder / "sealed" / name).mkdir()
        write_sealed(folder / "sealed" / name, files, seal, segment=1024)
    for kind in ("bpe", "unigram"):
        tokenizer = SubwordTokenizer(300, kind, lower_case=True)  # type: ignore[arg-type]
        tokenizer.learn(LINES)
        (folder / "tokenizers" / kind).write_text(json.dumps(tokenizer.metadata()))
        engine = json.loads(tokenizer.written())
        engine["added_tokens"][0] |= {"lstrip": True, "normalized": True}
        (folder / "tokenizers" / f"{kind}.json").write_text(json.dumps(engine))
    clicks = {
        "user": {"type": "Sparse", "bucket": "log_square"},
        "item": {"type": "Sparse"},
        "both": {"type": "Crossed", "of": ["user", "item"]},
        "tags": {"type": "MultiValued"},
        "liked": {"type": "Sequence", "vocabulary": "item", "max_length": 4},
        "price": {"type": "Dense", "transform": "standard", "center": 1.5, "scale": 2.0},
        "day": {"type": "Dense"},
    }
    log = schema_of({"features": clicks, "labels": {"click": {}}, "format": {"written": {"day": {"date": "DMY"}}}})
    (folder / "clicks").write_text(json.dumps({"suite": "ctr", "processor": ClickProcessor(log).metadata()}))
    form = {"kind": "slot", "head": ["click"]}
    slots = schema_of({"features": clicks, "labels": {"click": {}}, "format": form})
    told = json.dumps({"suite": "ctr", "processor": ClickProcessor(slots).metadata() | {"rows_key": model_key(log)}})
    (folder / "slots").write_text(told)
    (folder / "rows").mkdir()
    table = Table(3, name="signs")
    table.update(np.arange(50, dtype=np.int64) + (1 << 52), np.ones((50, 3), np.float32), lr=0.1)
    publish(table, log, folder, "int8")
    rules = {"f": "F", "fi": "", "é": "e\u0301", "\u0301": "'", "京": "[jing]", "-": " - ", "\u200d": "", "日本": "jp"}
    (folder / "charsmaps" / "small").write_bytes(charsmap(rules))
    (folder / "charsmaps" / "words").write_bytes(
        charsmap({word: word.upper() for line in LINES for word in line.split()})
    )
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "film", "##s", "un", "##want", "##ed", "北", "京", "2"]
    (folder / "tokenizers" / "bert").write_text(json.dumps(BertTokenizer(words).metadata()))
    for number, steps in enumerate(STEPS):
        suite = "keypoints" if steps[0]["type"] == "ObjectCrop" else "detection"
        metadata = {"suite": suite, "processor": {"transforms": steps, "class_names": ["a"], "padded_to": 8}}
        (folder / "metadata" / str(number)).write_text(json.dumps(metadata))
    (folder / "secret").write_bytes(SECRET)
    (folder / "text").write_text(" ".join(LINES) + " [MASK] <unk>")


def main(words: list[str]) -> int:
    """Build, then run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seeds(folder)
        program = folder / "fuzz"
        sources = [path for pattern in SOURCES for path in sorted(pattern.parent.glob(pattern.name))]
        flags = ["-std=c++20", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        include = [f"-I{NATIVE}", "-ffp-contract=off"]
        files = [Path(__file__).with_suffix(".cc"), *sources]
        subprocess.run(["c++", *flags, *include, *files, "-o", program, "-ldl", "-lpthread"], check=True)
        return subprocess.run([program, folder, *words]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
