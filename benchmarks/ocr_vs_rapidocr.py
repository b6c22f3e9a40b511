#!/usr/bin/env python3
"""Claim: pages are read at 1.3 times RapidOCR's rate in half its memory, with the same texts in the same places.

    paddock zoo fetch ocr
    python benchmarks/ocr_vs_rapidocr.py --peer-python PYTHON [--pictures 75] [--rounds 3] [--threads 2]

Both have PP-OCRv4's weights and read the first test photographs of ICDAR 2015, one after the other; reading the files
counts, the first photograph does not. PYTHON has the package rapidocr-onnxruntime 1.4.4.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import OURS, ROOT, Claim, Competitor, compare, data_path, finish, has_modules, in_turns, lacks, table

sys.path.insert(0, str(ROOT))

CLAIM = Claim("ocr_icdar2015", 1.3, 2.0)
PEER = "RapidOCR"
Text = tuple[list[list[float]], str]  # corners, and what it says
Reader = Callable[[Path], list[Text]]


def photographs(folder: Path, count: int) -> list[Path]:
    """The first test photographs, unpacked into a folder."""
    source = data_path("ocr/icdar2015/icdar2015.zip")
    if not source.exists():
        sys.exit(lacks(source))
    with zipfile.ZipFile(source) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"test_images/\w+\.jpg", name)]
        names = sorted(names, key=lambda name: int(re.findall(r"\d+", name)[-1]))[:count]
        archive.extractall(folder, names)
    return [folder / name for name in names]


def ours(threads: int) -> Reader:
    """The record `ocr`, as `paddock infer ocr` opens it."""
    from framework import set_num_threads
    from suites import engine

    model = engine.load("ocr")
    set_num_threads(threads)
    return lambda path: [(text["box"], text["text"]) for text in model(str(path))[0].to_json()]


def rapidocr(threads: int) -> Reader:
    """RapidOCR as it comes."""
    from rapidocr_onnxruntime import RapidOCR

    reader = RapidOCR(intra_op_num_threads=threads)
    return lambda path: [(box, text) for box, text, _ in reader(str(path))[0] or []]


def run(side: str, threads: int, paths: list[Path], output: Path) -> dict[str, Any]:
    """Read all photographs and write what they say."""
    read = {OURS: ours, PEER: rapidocr}[side](threads)
    read(paths[0])
    start = time.perf_counter()
    found = [read(path) for path in paths]
    seconds = time.perf_counter() - start
    output.write_text(json.dumps(found))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    rate = round(len(paths) / seconds, 3)
    return {"rate": rate, "unit": "pictures/s", "step_ms": round(1000 / rate, 1), "peak_rss_mb": memory}


def same(one: list[Text], two: list[Text]) -> bool:
    """Whether two sides read the same texts, with corners at most a pixel and a tenth apart."""
    return [text for _, text in one] == [text for _, text in two] and all(
        np.allclose(a, b, atol=1.1) for (a, _), (b, _) in zip(one, two, strict=True)
    )


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter with rapidocr-onnxruntime")
    parser.add_argument("--pictures", type=int, default=75)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--side", choices=[OURS, PEER], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    a = parser.parse_args(words)
    if a.side:
        paths = photographs(a.folder, a.pictures)
        print(json.dumps(run(a.side, a.threads, paths, a.folder / f"{a.side}.json")))
        return []
    with tempfile.TemporaryDirectory() as name:
        shared = ["--pictures", str(a.pictures), "--threads", str(a.threads), "--folder", name, "--side"]
        sides = [Competitor(OURS, [sys.executable, __file__, *shared, OURS])]
        if has_modules(a.peer_python, "rapidocr_onnxruntime"):
            sides.append(Competitor(PEER, [a.peer_python, __file__, *shared, PEER]))
        else:
            print(f"left out: {PEER}; pip install rapidocr-onnxruntime==1.4.4, and give --peer-python")
        results = [compare(CLAIM, in_turns(sides, a.rounds), baseline=PEER)]
        print(table(results))
        if len(sides) > 1:
            read = [json.loads((Path(name) / f"{side}.json").read_text()) for side in (OURS, PEER)]
            alike = sum(same(one, two) for one, two in zip(*read, strict=True))
            print(f"the same texts and places in {alike} of {len(read[0])} pictures; {sum(map(len, read[0]))} texts")
    finish("ocr_vs_rapidocr", results, a.json)
    return results


if __name__ == "__main__":
    main()
