"""Draw lines or pages of text to train on: `paddock data render words.txt --output drawn --count 10000`.

Lines come as pictures with PaddleOCR's list, which `LineList` reads. `--pages` makes pages in ICDAR's form
(`IcdarText`) with PaddleOCR's list beside (`PaddleText`). The same seed gives the same bytes.
A text is drawn with a font that draws all of its characters as themselves; the others are left out, counted and named.
"""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Write the set; return the exit status. `words` are the command line."""
    from suites.engine.command_line import Parser, add_import_option, natural, run
    from suites.ocr.rendering.look import Look

    parser = Parser(prog=prog, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("texts", nargs="*", help="text files, a line each")
    parser.add_argument("--random", metavar="ALPHABET", help="random characters, such as digits or =ABC")
    parser.add_argument(
        "--length", nargs=2, type=int, default=[3, 12], metavar=("A", "B"), help="of random texts (3 12)"
    )
    parser.add_argument("--output", type=Path, required=True, help="the folder to write")
    parser.add_argument("--name", default="train", help="of this part in the folder (train)")
    parser.add_argument("--count", type=int, default=1000, help="pictures (1000)")
    parser.add_argument("--seed", type=natural, default=0, help="of all that is drawn at random (0)")
    parser.add_argument("--fonts", nargs="+", default=[], metavar="PLACE", help="files, folders (the system's)")
    parser.add_argument("--any-font", action="store_true", help="also with signs, and capitals for small letters")
    parser.add_argument("--backgrounds", metavar="FOLDER", help="pictures to write on, in place of plain colours")
    parser.add_argument("--pages", action="store_true", help="pages in place of lines")
    parser.add_argument("--page-size", nargs=2, type=int, default=[640, 640], metavar=("H", "W"), help="(640 640)")
    parser.add_argument("--plain", action="store_true", help="no curve, slant, turn, blur and noise but those named")
    for field in fields(Look):
        kind = int if field.type == "int" else float
        kept = field.name in ("least", "most", "margin", "contrast", "often")
        said = f"see docs/howto/ocr.md ({field.default}{'' if kept else ', with --plain 0'})"
        parser.add_argument(f"--{field.name}", type=kind, metavar="X", help=said)
    add_import_option(parser)
    a = parser.parse_args(words)
    if bool(a.texts) == (a.random is not None):
        parser.error("give text files, or --random ALPHABET")
    if Path(a.name).name != a.name or a.name in ("", ".", ".."):
        parser.error("--name is the name of a folder")

    def start() -> int:
        from framework.errors import ConfigError
        from suites.ocr.alphabet import Alphabet
        from suites.ocr.rendering.fonts import fonts_in
        from suites.ocr.rendering.look import plain_ground
        from suites.ocr.rendering.sets import Render, checked_texts, grounds_in, lines_in, random_texts
        from suites.ocr.texts import lines_of_file

        listed = a.output / f"{a.name}.txt"
        if listed.exists():
            raise ConfigError(f"{listed}: is there already; choose another --output or --name")
        plain = dict.fromkeys(("curve", "slant", "turn", "blur", "noise"), 0.0) if a.plain else {}
        named = {f.name: value for f in fields(Look) if (value := getattr(a, f.name)) is not None}
        look = Look(**{**plain, **named})
        fonts, wrong = fonts_in(a.fonts, not a.any_font)
        for line in wrong:
            print(f"fonts: {line}")
        if a.random is None:
            texts = lines_in(a.texts)
        else:
            texts = random_texts(Alphabet.of(a.random), (a.length[0], a.length[1]), a.count, a.seed)
        found = checked_texts(texts, fonts, print, not a.any_font)
        ground = plain_ground if a.backgrounds is None else grounds_in(a.backgrounds)
        made = Render(found, fonts, look, ground, a.seed)
        if a.pages:
            made.pages(a.output, a.name, a.count, (a.page_size[0], a.page_size[1]))
        else:
            made.lines(a.output, a.name, a.count)
        what = "pages" if a.pages else "lines"
        written = sum(1 for _ in lines_of_file(listed))
        print(f"{listed}: {written} {what} of {len(found)} texts in {len(fonts)} fonts")
        return 0

    return run(start, a.imports)
