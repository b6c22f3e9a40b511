#!/usr/bin/env python3
"""Claim: a sealed export (signed and encrypted) of 100 MB loads at most 1.3 times as long as the same in plain.

    python benchmarks/sealed_loading.py [--rounds N]

In turns from the page cache: reading, checking and decrypting the files, and making a Predictor of them, which does not
compute yet. Python's are in one process; C++'s are each in a fresh one, and told with the first answer too, since the
weights of a plain export are mapped and read by then only. `cryptography` has to be installed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from common import finish, spread
from native_overhead import SOURCE, native
from native_programs import compiled

import framework
from framework import ops
from framework.graph.files import save_program
from framework.graph.ir import Program
from framework.predictor import Predictor
from framework.sealing import Seal, keys

LIMIT = 1.3
LAYERS, WIDTH = 24, 1024  # 100 MB


def made() -> Program:
    """A chain of products."""
    rng = np.random.default_rng(0)
    weights = [framework.tensor(rng.standard_normal((WIDTH, WIDTH)).astype(np.float32)) for _ in range(LAYERS)]
    for weight in weights:
        weight.persistable = True

    def step(x: framework.Tensor) -> framework.Tensor:
        for weight in weights:
            x = ops.relu(ops.matmul(x, weight))
        return x

    return framework.program(step).program_for(framework.tensor(np.ones((1, WIDTH), np.float32))).program


def signing_key(folder: Path) -> str:
    """The path of a new private key."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = folder / "owner.pem"
    path.write_bytes(
        Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return str(path)


def main(words: list[str] | None = None) -> dict[str, list[float]]:
    """Measure, print the table and return the seconds of each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    a = parser.parse_args(words)
    secret = os.urandom(32)
    cpp: dict[str, list[list[float]]] = {}
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        root, program = Path(folder), made()
        owner, answer, key = signing_key(root), compiled(SOURCE, root), root / "secret.key"
        key.write_bytes(secret)
        ways = {
            "plain": None,
            "encrypted": Seal(encrypt=lambda: secret),
            "signed": Seal(sign=owner),
            "signed and encrypted": Seal(lambda: secret, owner),
        }
        for name, seal in ways.items():
            save_program(program, root / name, seal=seal)
        for _ in range(a.rounds + 1):  # the first warms up
            for name in ways:
                with keys(decrypt=lambda: secret):
                    start = time.perf_counter()
                    predictor = Predictor(root / name)
                    found.setdefault(name, []).append(time.perf_counter() - start)
                del predictor  # which wipes its memory
                cpp.setdefault(name, []).append(native(answer, root / name, 0, key)[:2])
    for name, both in cpp.items():
        found[f"C++: {name}"] = [load / 1e3 for load, _ in both]
        found[f"C++ to the first answer: {name}"] = [(load + first) / 1e3 for load, first in both]
    found = {name: seconds[1:] for name, seconds in found.items()}
    print("| export | load, ms | ratio to plain |\n| --- | --- | --- |")
    for name, seconds in found.items():
        plain = found[name.replace(name.split(": ")[-1], "plain")]
        ratios = [s / p for s, p in zip(seconds, plain, strict=True)]
        print(f"| {name} | {spread([1e3 * s for s in seconds], 0)} | {spread(ratios)} |")
    print(f"signed and encrypted is to stay under {LIMIT}")
    finish("sealed_loading", found, a.json)
    return found


if __name__ == "__main__":
    main()
