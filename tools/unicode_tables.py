#!/usr/bin/env python3
"""Writes framework/native/predictor/texts/unicode_tables.inc: what the library `tokenizers` knows of each character.

    python tools/unicode_tables.py [--check]

The library is asked for every character, so the tokenizers in C++ have its version of Unicode, whatever Python's is.
"""

from __future__ import annotations

import argparse
import struct
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Regex, normalizers, pre_tokenizers

FILE = Path(__file__).resolve().parents[1] / "framework" / "native" / "predictor" / "texts" / "unicode_tables.inc"
CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# Bits of a character, in this order; unicode.h names them.
FLAGS = (
    "removed", "blank", "chinese", "accent", "space", "punctuation", "letter", "number", "regex space", "word", "mark",
)  # fmt: skip
_WIDTH = 116
_LEAF = -1  # in a tree of bytes: a text ends there


def _splits(splitter: pre_tokenizers.PreTokenizer) -> Callable[[str], bool]:
    """Whether a character is cut out of its neighbours."""
    return lambda c: [piece for piece, _ in splitter.pre_tokenize_str(f"a{c}a")] != [f"a{c}a"]


def _matches(pattern: str) -> Callable[[str], bool]:
    splitter = pre_tokenizers.Split(Regex(pattern), "removed")
    return lambda c: not splitter.pre_tokenize_str(c)


def _bert(**parts: bool) -> normalizers.Normalizer:
    none = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**{**none, **parts})


def flags() -> list[int]:
    """The bits of each of CODES."""
    clean, chinese, accents = _bert(clean_text=True), _bert(handle_chinese_chars=True), _bert(strip_accents=True)
    stripped, words = normalizers.StripAccents(), pre_tokenizers.Whitespace()
    spaces, marks = pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("removed")
    asked: tuple[Callable[[str], bool], ...] = (
        lambda c: not clean.normalize_str(c),
        lambda c: clean.normalize_str(c) == " ",
        lambda c: chinese.normalize_str(c) != c,
        lambda c: not accents.normalize_str(c),
        lambda c: not spaces.pre_tokenize_str(c),
        lambda c: not marks.pre_tokenize_str(c),
        _matches(r"\p{L}"),
        _matches(r"\p{N}"),
        _matches(r"\s"),
        lambda c: len(words.pre_tokenize_str(f"a{c}")) == 1 and bool(words.pre_tokenize_str(c)),
        lambda c: not stripped.normalize_str(c),
    )
    return [sum(ask(chr(code)) << bit for bit, ask in enumerate(asked)) for code in CODES]


def changes(normalizer: normalizers.Normalizer) -> dict[int, str]:
    """The characters that a normalizer changes, but for Hangul's syllables, whose parts follow from their numbers."""
    found = {code: normalizer.normalize_str(chr(code)) for code in CODES if not 0xAC00 <= code < 0xD7A4}
    return {code: text for code, text in found.items() if text != chr(code)}


def classes() -> dict[int, int]:
    """The combining classes of the characters that the library reorders."""
    nfd, found = normalizers.NFD(), {}
    for code in CODES:
        rank = unicodedata.combining(chr(code))
        if rank and len(nfd.normalize_str(chr(code))) == 1:
            lower, higher = "\u0334", "\u0345"  # of classes 1 and 240
            moved = nfd.normalize_str(chr(code) + lower)[0], nfd.normalize_str(higher + chr(code))[1]
            if moved[0] == lower or moved[1] == higher or rank in (1, 240):
                found[code] = rank
    return found


def compositions() -> list[tuple[int, int, int]]:
    """(first, second, both) of the pairs that NFC joins."""
    nfc, found = normalizers.NFC(), []
    for code in CODES:
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first, second = (int(part, 16) for part in parts)
            if nfc.normalize_str(chr(first) + chr(second)) == chr(code):
                found.append((first, second, code))
    return sorted(found)


def charsmap(rules: Mapping[str, str]) -> bytes:
    """sentencepiece's table of texts and what becomes of them: a double array of their bytes, and the texts."""
    tree: dict[int, Any] = {}
    texts, units = b"", [0] * 256
    for key, value in rules.items():
        at = tree
        for byte in key.encode():
            at = at.setdefault(byte, {})
        at[_LEAF] = len(texts)
        texts += value.encode() + b"\0"
    waiting = [(0, tree)]
    while waiting:
        place, node = waiting.pop()
        base = len(units)  # a block of its own for each, so none collide
        units += [0] * 256
        units[place] |= (place ^ base) << 10 | (_LEAF in node) << 8
        for byte, inner in node.items():
            units[base ^ (0 if byte == _LEAF else byte)] |= inner | 1 << 31 if byte == _LEAF else byte
            if byte != _LEAF:
                waiting.append((base ^ byte, inner))
    return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + texts


def clusters() -> list[int]:
    """What decides where clusters of characters end, of each of CODES; unicode.h names the bits.

    The library looks clusters of less than six bytes up as a whole. So its answer tells whether there was one: "a" and
    all that clings to it become Y, and of two accents that stand alone one X remains.
    """
    accents, joiner, virama, ka = "\u0301" * 2, "\u200d", "\u094d", "\u0915"
    asked = normalizers.Precompiled(charsmap({"a": "Y", "\u0301": "X", "©": "Y", ka: "Z"})).normalize_str
    found = []
    for code in CODES:
        c = chr(code)
        attaches = asked("a" + c) == "Y" and c not in "a"
        bits: int = attaches
        if attaches:
            bits |= asked("©" + c + joiner + "©\u0301").endswith("YX") << 1
            bits |= asked(ka + c + ka + "\u0301").endswith("ZX") << 6
            bits |= asked(ka + virama + c + ka + "\u0301").endswith("ZX") << 7
        elif c not in ("a", "\u0301"):
            bits |= asked(c + "a" + accents).endswith("YXX") << 2
            bits |= (not asked(c + accents).endswith("XX")) << 3
            bits |= asked("©" + joiner + c).startswith("Y" + joiner) << 4
            bits |= asked(c + virama + ka + "\u0301").endswith("ZX") << 5
        found.append(int(bits))
    return found


def ranges(values: list[int]) -> list[tuple[int, int]]:
    """(first code, bits) of each run of equal bits."""
    found: list[tuple[int, int]] = []
    for code, bits in zip(CODES, values, strict=True):
        if not found or found[-1][1] != bits:
            found.append((code, bits))
    return found


def _array(name: str, kind: str, numbers: Iterator[int]) -> Iterator[str]:
    yield f"constexpr {kind} {name}[] = {{"
    line = "   "
    for number in numbers:
        word = f" {number:#x}," if number > 9 else f" {number},"
        if len(line) + len(word) > _WIDTH:
            yield line
            line = "   "
        line += word
    yield line
    yield "};"


def _mapping(name: str, found: dict[int, str]) -> Iterator[str]:
    """Codes in order; where the text of each ends in the texts, and the texts."""
    ends, texts = [], []
    for text in found.values():
        texts += [ord(c) for c in text]
        ends.append(len(texts))
    yield from _array(f"k{name}Codes", "uint32_t", iter(found))
    yield from _array(f"k{name}Ends", "uint16_t", iter(ends))
    yield from _array(f"k{name}Texts", "uint32_t", iter(texts))


def text() -> str:
    """The file."""
    runs, canonical = ranges(flags()), changes(normalizers.NFD())
    compatible = {code: t for code, t in changes(normalizers.NFKD()).items() if canonical.get(code) != t}
    order = classes()
    pairs, breaks = compositions(), ranges(clusters())
    lines = [
        "// Written by tools/unicode_tables.py from what the library `tokenizers` says of each character.",
        "// Bits: " + ", ".join(FLAGS) + ".",
        *_array("kRunStarts", "uint32_t", (code for code, _ in runs)),
        *_array("kRunBits", "uint16_t", (bits for _, bits in runs)),
        *_array("kGraphemeStarts", "uint32_t", (code for code, _ in breaks)),
        *_array("kGraphemeBits", "uint8_t", (bits for _, bits in breaks)),
        *_mapping("Lower", changes(normalizers.Lowercase())),
        *_mapping("Canonical", canonical),
        *_mapping("Compatible", compatible),
        *_array("kClassCodes", "uint32_t", iter(order)),
        *_array("kClasses", "uint8_t", iter(order.values())),
        *_array("kPairs", "uint32_t", (code for pair in pairs for code in pair)),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the file; with --check compare it only."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the file is another")
    check, found = parser.parse_args().check, text()
    if check:
        if FILE.read_text() != found:
            print(f"{FILE}: is not what the installed `tokenizers` says; run tools/unicode_tables.py", file=sys.stderr)
            return 1
        return 0
    FILE.write_text(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
