"""Builds threads.cc with ThreadSanitizer and runs it on exports made here; `scripts/sanitize library` calls it.

python -m tests.framework.predictor.threads LIBRARIES [LIVES]: LIBRARIES is the folder of the sanitized libpaddock.so.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import framework
from framework import nn, no_grad, ops, while_loop
from framework.graph.files import save_program
from framework.graph.passes import INFERENCE_PASSES
from framework.sealing import Seal, write_sealed
from suites.detection.processor import DetectionProcessor
from suites.nlp.models.heads import SequenceClassifier
from suites.nlp.problems.classification import Classification
from suites.nlp.processor import TextProcessor
from suites.nlp.sequences import Sequencer
from suites.nlp.tokenizers.wordpiece import BertTokenizer
from suites.vision.augmentation.transforms import Letterbox, Normalize
from suites.vision.backbones import ResNet
from tests.suites.nlp.models.ragged import Batch
from tests.suites.nlp.models.test_bert import small

ROOT = Path(__file__).resolve().parents[3]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "##s", "un", "##want", "##ed", "want", "!", ","]
PIECES += ["北", "京", "2", "##0", "##24", "cafe", "-", "a", "##f"]
SECRET = bytes(range(32))


def _save(folder: Path, function: object, inputs: dict[str, framework.Tensor], extra: dict[str, object]) -> None:
    for name, value in inputs.items():
        value.name = name
    with no_grad():
        traced = framework.program(function, pass_names=INFERENCE_PASSES)  # type: ignore[arg-type]
        save_program(traced.program_for(*inputs.values()).program, folder, extra=extra)


def exports(folder: Path) -> None:
    """A network of pictures, a classifier of texts, a loop, a state, and a sealed export."""
    rng = np.random.default_rng(0)
    net = ResNet(18, width=8, out_strides=(32,))
    nn.init.initialize(net, 0)
    net.eval()
    pictures = DetectionProcessor([Letterbox(64), Normalize()], ["a"], 0.0).metadata()
    images = {"images": framework.tensor(np.zeros((1, 64, 64, 3), np.float32))}
    _save(folder / "pictures", lambda x: net(x)[0], images, {"suite": "detection", "processor": pictures})

    model = SequenceClassifier(small(), 3).eval()
    nn.init.initialize(model, seed=0)
    batch = Batch([4, 9], words=len(PIECES))
    texts = TextProcessor(Classification(), Sequencer(BertTokenizer(PIECES), max_length=20), ["a", "b", "c"])
    named = {name: getattr(batch, name) for name in ("ids", "offsets", "segment_ids")}
    _save(
        folder / "texts",
        lambda ids, offsets, segments: ops.softmax(model(ids, offsets, segment_ids=segments), axis=-1),
        named,
        {"suite": "nlp", "processor": texts.metadata()},
    )

    weight = framework.tensor(rng.standard_normal((96, 96)).astype(np.float32) / 10)

    def power(x: framework.Tensor, n: framework.Tensor) -> framework.Tensor:
        step = lambda i, y: (i + 1, ops.tanh(ops.matmul(y, weight)))  # noqa: E731
        return while_loop(lambda i, y: i < n, step, (framework.tensor(0), x))[1]

    x = framework.tensor(np.ones((200, 96), np.float32))
    _save(folder / "loop", power, {"x": x, "n": framework.tensor(np.array(5))}, {"suite": "loop"})
    write_sealed(
        folder / "sealed",
        {path.name: path.read_bytes() for path in (folder / "loop").iterdir()},
        Seal(encrypt=str(folder / "secret")),
    )

    total = framework.tensor(np.zeros(40_000, np.float32))
    total.persistable, total.name = True, "total"

    def add(x: framework.Tensor) -> framework.Tensor:
        total.set(total + x)
        return total * 1.0

    _save(folder / "state", add, {"x": framework.tensor(np.ones(40_000, np.float32))}, {"suite": "state"})


def main(words: list[str]) -> int:
    """Build, then run."""
    libraries, lives = Path(words[0]).resolve(), words[1] if len(words) > 1 else "20"
    with tempfile.TemporaryDirectory() as name:
        folder, program = Path(name) / "exports", Path(name) / "threads"
        folder.mkdir()
        (folder / "secret").write_bytes(SECRET)
        exports(folder)
        flags = ["-std=c++17", "-O1", "-g", "-fsanitize=thread", "-Wall", "-Wextra", "-Werror"]
        places = [f"-I{ROOT / 'framework' / 'native' / 'predictor'}", f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
        source = Path(__file__).with_suffix(".cc")
        subprocess.run(["c++", *flags, *places, source, "-o", program, "-lpaddock", "-lpthread"], check=True)
        suppressions = ROOT / "scripts" / "thread_sanitizer_suppressions"
        options = f"halt_on_error=0 exitcode=66 suppressions={suppressions}"
        # Its shadow memory wants addresses that are not random.
        launch = ["setarch", platform.machine(), "--addr-no-randomize"]
        return subprocess.run([*launch, program, folder, lives], env=os.environ | {"TSAN_OPTIONS": options}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
