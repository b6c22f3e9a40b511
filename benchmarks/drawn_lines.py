#!/usr/bin/env python3
"""A reader of lines learnt from drawn ones alone: how many lines in fonts and words that it never saw does it read?

    python benchmarks/drawn_lines.py drawn            # draws drawn/train and drawn/test, then trains ocr/crnn_drawn

Fonts are the system's (Debian's packages fonts-*), at most four a family. All fonts of every tenth family, by the
digest of its first word, and every tenth word, by its digest, are for the test alone. Left out are fonts whose small
letters cannot be told from their capitals and those whose letters are signs. Words are those of `sst2`, `multi30k` and
`tinyshakespeare`; a line has one to three of them and numbers. Printed is the share of 1,000 lines of the test that are
read without a fault, at the end of the training: the test chooses nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
from common import find_real_data, real_data

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from suites.engine.config.tree.shipped import find_config
from suites.engine.train.training import train
from suites.ocr.alphabet import Alphabet
from suites.ocr.rendering.fonts import Font, drawable, fonts_in
from suites.ocr.rendering.look import Look
from suites.ocr.rendering.sets import Render

SOURCES = ("nlp/sst2/sst2.zip", "nlp/multi30k/multi30k.zip", "nlp/tinyshakespeare/tinyshakespeare.zip")
A_FAMILY = 4
SMALL, CAPITAL = "abdeghkmnqrt", "ABDEGHKMNQRT"
SAME, OTHER = 0.75, 0.05  # likeness of small letters to capitals, of a font to the others
MARKS = (",", ".", ";", ":", "!", "?", "-", ")")


def kept_for_test(name: str) -> bool:
    """Whether a family or a word is for the test alone: one in ten."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 10 == 0


def family_of(font: Font) -> str:
    """The family of a font, as the file names it."""
    from matplotlib.ft2font import FT2Font

    return str(FT2Font(str(font.path)).family_name)


def shapes_of(font: Font) -> np.ndarray:
    """The letters of `SMALL`, then of `CAPITAL`, as float32 [K, 20, 20] without their means."""
    shapes = np.zeros((len(SMALL + CAPITAL), 20, 20), np.float32)
    for shape, letter in zip(shapes, SMALL + CAPITAL, strict=True):
        drawn = font.drawn(letter, 48)
        if drawn.size:
            shape[:] = cv2.resize(drawn, (20, 20), interpolation=cv2.INTER_AREA)
    return shapes - shapes.mean(axis=(1, 2), keepdims=True)


def likeness(a: np.ndarray, b: np.ndarray) -> float:
    """The mean correlation of letters [K, 20, 20] with those of another font."""
    norms = np.sqrt((a * a).sum(axis=(1, 2)) * (b * b).sum(axis=(1, 2))) + 1e-6
    return float(np.mean((a * b).sum(axis=(1, 2)) / norms))


def readable(fonts: Sequence[Font]) -> list[Font]:
    """The fonts that have all characters, tell small letters from capitals, and whose letters are letters."""
    needed = set(SMALL + CAPITAL + "0123456789" + "".join(MARKS))
    whole = [font for font in fonts if needed <= font.characters and "symbol" not in family_of(font).lower()]
    shapes = [shapes_of(font) for font in whole]
    usual = np.median(np.stack(shapes), axis=0)
    half = len(SMALL)
    return [
        font
        for font, shape in zip(whole, shapes, strict=True)
        if likeness(shape[:half], shape[half:]) < SAME and likeness(shape, usual) > OTHER
    ]


def divided(fonts: Sequence[Font]) -> tuple[list[Font], list[Font]]:
    """Fonts to learn from and fonts for the test, at most `A_FAMILY` of each family, spread over its styles."""
    families: dict[str, list[Font]] = defaultdict(list)
    for font in fonts:
        families[family_of(font)].append(font)
    parts: tuple[list[Font], list[Font]] = ([], [])
    for family in sorted(families):
        own = families[family]
        chosen = sorted({round(at) for at in np.linspace(0, len(own) - 1, min(A_FAMILY, len(own)))})
        parts[kept_for_test(family.split()[0].lower())].extend(own[at] for at in chosen)
    return parts


def words_of_texts() -> tuple[list[str], list[str]]:
    """Words to learn from and words for the test, in order of the alphabet."""
    found: set[str] = set()
    for source in SOURCES:
        with zipfile.ZipFile(real_data(source)) as archive:
            for name in archive.namelist():
                if not name.endswith("/"):
                    found |= set(re.findall(r"[a-z]{1,14}", archive.read(name).decode(errors="replace").lower()))
    words = sorted(found)
    return [word for word in words if not kept_for_test(word)], [word for word in words if kept_for_test(word)]


def lines(words: Sequence[str], count: int, seed: int) -> Iterator[str]:
    """Lines of one to three words and numbers in several cases, some with a mark."""
    rng = np.random.default_rng(seed)
    cases = (str.lower, str.lower, str.title, str.upper)
    for _ in range(count):
        parts = []
        for _ in range(int(rng.integers(1, 4))):
            if rng.random() < 0.2:
                part = str(rng.integers(0, 10 ** int(rng.integers(1, 6))))
            else:
                part = cases[int(rng.integers(len(cases)))](words[int(rng.integers(len(words)))])
            parts.append(part + (MARKS[int(rng.integers(len(MARKS)))] if rng.random() < 0.15 else ""))
        yield " ".join(parts)


def draw(folder: Path, count: int) -> None:
    """Write both parts below `folder` with the lists of their fonts; parts that are there stay."""
    parts = divided(readable(fonts_in([])[0]))
    known = set(Alphabet.of("english").characters)
    for name, fonts, words, many in zip(
        ("train", "test"), parts, words_of_texts(), (count, min(count, 1_000)), strict=True
    ):
        if (folder / f"{name}.txt").exists():
            continue
        texts, _ = drawable((text for text in lines(words, many, len(name)) if set(text) <= known), fonts)
        Render(texts, fonts, Look(), seed=len(name)).lines(folder, name, many)
        (folder / f"{name}_fonts.txt").write_text("".join(f"{font.path}\n" for font in fonts))
        print(f"{name}: {many:,} lines in {len(fonts)} fonts, {len(words):,} words", flush=True)


def main() -> None:
    """Draw, train, print the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--config", type=Path, default=Path("ocr/crnn_drawn"))
    parser.add_argument("--draw", action="store_true", help="draw only")
    parser.add_argument("-o", dest="overrides", action="append", default=[], metavar="PATH=VALUE")
    a = parser.parse_args()
    find_real_data()
    draw(a.folder, a.lines)
    if not a.draw:
        run = a.folder / "runs" / find_config(a.config).stem
        changes = [f"data.root={a.folder}", "runtime.evaluation.every=0", *a.overrides]  # at the end alone
        train(find_config(a.config), changes, runs=run.parent, name=run.name)
        print((run / "metrics.json").read_text())


if __name__ == "__main__":
    main()
