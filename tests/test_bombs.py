"""Small files that cost much: every reader refuses them within its limits of memory and time."""

import json
import subprocess
import sys

import pytest

from tests import bombs

NEEDED = {
    "image": "cv2", "onnx": "onnx", "config": "yaml", "parquet": "pyarrow", "log": "backports.zstd", "video": "av",
    "keras": "h5py",
}  # fmt: skip


@pytest.mark.parametrize("kind", bombs.BOMBS)
def test_every_bomb_is_refused_within_memory_and_time(kind):
    if kind in NEEDED:
        pytest.importorskip(NEEDED[kind], reason=f"the package {NEEDED[kind]} is not installed")
    done = subprocess.run([sys.executable, "-m", "tests.bombs", "--read", kind], capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = {name: message for state, name, message, *_ in lines if state == "end"}
    assert done.returncode == 0, f"died in {lines[-1:]}: {done.stderr[-1000:]}"
    assert list(found) == list(bombs.BOMBS[kind])
    for name, message in found.items():
        assert message.startswith("refused: ") and "opcode" not in message, f"{name}: {message}"
        assert "raise the limit" in message or any(word in message for word in SAID), f"{name}: {message}"


# What is wrong beside its size; no limit would make these right.
SAID = (
    *("anchors are not used", "its header describes no rows"),
    *("refused, it holds", "cannot be read", "not a readable zip", "too deep", "nothing makes it"),
    "two ways lead to the part",
    *("list of whole numbers", "nested too deeply", "maximum recursion depth", "amplification factor"),
    *("cut off", "cut or damaged", "outside of the file", "is no snapshot", "header too large", "is no number"),
    *("no whole Parquet file", "over limits.line_bytes", "holds a NUL byte", "no video that FFmpeg reads"),
    *("begins no TFRecord", "no SequenceExample", "none or another's", "a whole number from 1 on"),
    *("names the file", "an ONNX file has at most", "4300 digits", "more values than are allowed"),
)


def test_damaged_files_are_read_or_refused():
    for package in NEEDED.values():
        pytest.importorskip(package, reason=f"the package {package} is not installed")
    run_mutations(600)


@pytest.mark.slow
def test_10000_damaged_files_are_read_or_refused():
    run_mutations(10_000)


def test_3000_damaged_programs_are_read_or_refused_by_the_native_reader():
    run_mutations(3000, "--kinds", "native")


def test_3000_damaged_files_of_tensorflow_lite_are_read_or_refused():
    run_mutations(3000, "--kinds", "tflite")


def test_3000_damaged_files_of_keras_are_read_or_refused():
    run_mutations(3000, "--kinds", "keras")


def run_mutations(count, *more):
    words = [sys.executable, "-m", "tests.mutations", "--count", str(count), *more]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-3000:]}{done.stderr[-500:]}"
