#!/usr/bin/env python3
"""A reader of lines learnt from drawn ones alone: how many lines in fonts and words that it never saw does it read?

    python benchmarks/drawn_lines.py drawn            # draws drawn/train and drawn/test, then trains ocr/crnn_drawn

Fonts are the system's (Debian's packages fonts-*), at most four a family. All fonts of every tenth family, by the
digest of its first word, and every tenth word, by its digest, are for the test alone. A line is drawn with a font that
draws all of its characters as themselves, see `suites.ocr.rendering.legible`. Words are those of `sst2`, `multi30k` and
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

import numpy as np
from common import find_real_data, real_data

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from framework.atomic import write_text
from suites.engine.config.tree.shipped import find_config
from suites.engine.train.training import train
from suites.ocr.alphabet import Alphabet
from suites.ocr.rendering.fonts import Font, drawable, fonts_in
from suites.ocr.rendering.legible import LETTERS
from suites.ocr.rendering.look import Look
from suites.ocr.rendering.sets import Render

SOURCES = ("nlp/sst2/sst2.zip", "nlp/multi30k/multi30k.zip", "nlp/tinyshakespeare/tinyshakespeare.zip")
A_FAMILY = 4
PIECE = 64_000  # lines that are drawn at a time; what is drawn stays when the drawing is stopped
MARKS = (",", ".", ";", ":", "!", "?", "-", ")")


def kept_for_test(name: str) -> bool:
    """Whether a family or a word is for the test alone: one in ten."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 10 == 0


def family_of(font: Font) -> str:
    """The family of a font, as the file names it."""
    from matplotlib.ft2font import FT2Font

    return str(FT2Font(str(font.path)).family_name)


def with_letters(fonts: Sequence[Font]) -> list[Font]:
    """The fonts that have Latin letters of both cases, digits and marks."""
    needed = set(LETTERS).union(MARKS)
    return [font for font in fonts if needed <= font.characters]


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


def draw(folder: Path, count: int, places: Sequence[str]) -> None:
    """Write both parts below `folder` with the lists of their fonts; what is there stays."""
    if (folder / "fonts.txt").exists():
        return
    fonts, said = fonts_in(places)
    print("\n".join(said), flush=True)
    parts = divided(with_letters(fonts))
    if not all(parts):
        sys.exit(f"{len(fonts)} fonts are too few for both parts; install more (Debian's fonts-*) or name --fonts")
    for name, own, words, many in zip(
        ("train", "test"), parts, words_of_texts(), (count, min(count, 1_000)), strict=True
    ):
        rows = [row for k, start in enumerate(range(0, many, PIECE)) for row in piece(
            folder, f"{name}{k or ''}", own, words, min(PIECE, many - start), len(name) + 10 * k
        )]  # fmt: skip
        write_text(folder / f"{name}.txt", "".join(rows))
        write_text(folder / f"{name}_fonts.txt", "".join(f"{font.path}\n" for font in own))
        print(f"{name}: {len(rows):,} lines in {len(own)} fonts, {len(words):,} words", flush=True)
    write_text(folder / "fonts.txt", "".join(f"{line}\n" for line in said))


def piece(folder: Path, name: str, fonts: Sequence[Font], words: Sequence[str], count: int, seed: int) -> list[str]:
    """Draw a piece of a part unless it is there; the rows of its list."""
    if not (folder / f"{name}.txt").exists():
        known = set(Alphabet.of("english").characters)
        texts, left = drawable((text for text in lines(words, count, seed) if set(text) <= known), fonts)
        print("\n".join(left), flush=True)
        Render(texts, fonts, Look(), seed=seed).lines(folder, name, count)
    with (folder / f"{name}.txt").open(encoding="utf-8", newline="\n") as listed:
        return list(listed)[:count]


def main() -> None:
    """Draw, train, print the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--fonts", nargs="+", default=[], metavar="PLACE", help="files, folders (the system's)")
    parser.add_argument("--config", type=Path, default=Path("ocr/crnn_drawn"))
    parser.add_argument("--draw", action="store_true", help="draw only")
    parser.add_argument("-o", dest="overrides", action="append", default=[], metavar="PATH=VALUE")
    a = parser.parse_args()
    find_real_data()
    draw(a.folder, a.lines, a.fonts)
    if not a.draw:
        run = a.folder / "runs" / find_config(a.config).stem
        changes = [f"data.root={a.folder}", "runtime.evaluation.every=0", *a.overrides]  # at the end alone
        train(find_config(a.config), changes, runs=run.parent, name=run.name)
        print((run / "metrics.json").read_text())


if __name__ == "__main__":
    main()
