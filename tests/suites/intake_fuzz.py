"""Draws small data sets of all formats with oddities of strangers' files, each with its truth, and reads them back.

`python -m tests.suites.intake_fuzz --seeds 3000` reads that many and names what was read otherwise.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import traceback
from pathlib import Path

from framework.errors import PaddockError
from tests.suites.intake_drawing import Draw
from tests.suites.intake_pictures import coco, folders, frames, labelme, lists, pairs, voc, yolo
from tests.suites.intake_tables import clicks, stray, tags, texts

FINE = {"right", "refused"}
KINDS = (voc, coco, yolo, labelme, pairs, folders, lists, frames, texts, stray, tags, clicks)


def run(seed: int, folder: Path) -> tuple[str, str]:
    """What became of a set, which is one of `FINE` or a fault, and what was drawn."""
    rng = random.Random(seed)
    make = KINDS[seed % len(KINDS)]
    root = folder / f"set {seed}" if rng.random() < 0.3 else folder / f"set{seed}"
    root.mkdir()
    draw = Draw(rng, root)
    read = make(draw)
    said = f"seed {seed} {make.__name__} {', '.join(dict.fromkeys(draw.odd))}"
    try:
        read()
        assert not draw.wrong, "what is wrong was read without a word"
    except PaddockError as error:
        named = root.name in str(error) or "a." in str(error)
        result = "refused" if draw.wrong else "refused though right"
        return (result if named else "refused without a name"), f"{said}: {error}"
    except AssertionError as error:
        return "differs", f"{said}: {error}"
    except Exception:
        return "crashed", f"{said}: {traceback.format_exc(limit=-4)}"
    return "right", said


def main() -> int:
    """Read sets of many seeds and say what was not right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", help="only this kind")
    arguments = parser.parse_args()
    counts: dict[str, int] = {}
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        if arguments.kind and KINDS[seed % len(KINDS)].__name__ != arguments.kind:
            continue
        with tempfile.TemporaryDirectory() as folder:
            result, said = run(seed, Path(folder))
        counts[result] = counts.get(result, 0) + 1
        if result not in FINE:
            print(f"{result}: {said}", flush=True)
    print(counts)
    return int(bool(counts.keys() - FINE))


if __name__ == "__main__":
    sys.exit(main())
