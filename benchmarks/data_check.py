#!/usr/bin/env python3
"""Claim: `paddock data check` on 100,000 small files takes at most 1.5 times listing them and reading their headers.

    python benchmarks/data_check.py [--files N] [--rounds R] [--folder FOLDER]

Makes N photos of 24 to 47 pixels, three JPEG to one PNG, in 100 folders; then runs, in turns and each in a fresh
process: opening every file and reading 4 KB of it; listing them in order and reading each header in Python; `data
check`. Prints CPU and wall seconds, medians with the smallest and largest, and the ratio to the headers of each round.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = 100
READ = """
import os, sys
for folder in os.scandir(sys.argv[1]):
    for entry in os.scandir(folder.path):
        with open(entry.path, "rb") as file:
            file.read(4096)
"""
HEADERS = """
import sys
from suites.engine.data.sources import open_source
from suites.vision.pictures.headers import picture_header
source = open_source(sys.argv[1])
for name in source.below():
    with open(f"{source.root}/{name}", "rb") as file:
        picture_header(file.read(4096), name)
"""


def make_photos(folder: Path, count: int) -> None:
    """Photos of blocks in drawn colours, in folders of classes."""
    rng = np.random.default_rng(0)
    for number in range(min(FOLDERS, count)):
        (folder / f"class{number:03}").mkdir()
    for number in range(count):
        height, width = rng.integers(24, 48, 2).tolist()
        blocks = rng.integers(0, 256, (4, 4, 3), np.uint8)
        suffix = ".png" if number % 4 == 3 else ".jpg"
        _, data = cv2.imencode(suffix, cv2.resize(blocks, (width, height)))
        (folder / f"class{number % FOLDERS:03}" / f"{number:06}{suffix}").write_bytes(data.tobytes())


def seconds(command: list[str]) -> tuple[float, float]:
    """CPU and wall seconds of a command."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):  # 1: the check has found something
        sys.exit(f"{' '.join(command[:4])} ... ended with {done.returncode}: {done.stderr[-400:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def said(values: list[float]) -> str:
    """Median with the smallest and largest."""
    return f"{statistics.median(values):7.2f} [{min(values):.2f}, {max(values):.2f}]"


def main() -> None:
    """Measure in turns and print the table."""
    parser = argparse.ArgumentParser(description="Time `paddock data check` against reading the headers of its files.")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="of photos that were made before")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = a.folder or Path(made)
        if not a.folder:
            make_photos(folder, a.files)
        python = [sys.executable, "-c"]
        commands = {
            "open, read 4 KB": [*python, READ, str(folder)],
            "list, read headers": [*python, HEADERS, str(folder)],
            "data check": [sys.executable, "-m", "suites.engine.cli", "data", "check", str(folder)],
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(a.rounds):
            for name, command in commands.items():
                taken[name].append(seconds(command))
    for kind, at in (("CPU", 0), ("wall", 1)):
        for name, rows in taken.items():
            print(f"{kind:4} {name:20} {said([row[at] for row in rows])} s")
        pairs = zip(taken["data check"], taken["list, read headers"], strict=True)
        print(f"{kind:4} data check / headers {said([check[at] / header[at] for check, header in pairs])}")


if __name__ == "__main__":
    main()
