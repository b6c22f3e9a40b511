"""Alphabet: the characters that a recogniser knows, in the order of its classes; class 0 is CTC's blank."""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from framework.errors import ConfigError
from framework.outside import expanded, read_bytes
from suites.engine.data.intake.texts import decoded
from suites.engine.names import did_you_mean

_FOLDER = Path(__file__).parent / "alphabets"
_NAMED = {
    "digits": string.digits,
    "english": string.digits + string.ascii_letters + string.punctuation + " ",
    "english_g2": string.digits + string.punctuation + " €" + string.ascii_uppercase + string.ascii_lowercase,
    "capitals": string.digits + string.ascii_uppercase + string.punctuation + " ",
}


class Alphabet:
    """Characters in the order of classes 1, 2, ...

    Args:
        characters: each once.
    """

    def __init__(self, characters: Sequence[str]) -> None:
        self.characters = tuple(characters)
        self._numbers = {character: k for k, character in enumerate(self.characters, start=1)}
        if len(self._numbers) != len(self.characters):
            twice = sorted({c for c in self.characters if self.characters.count(c) > 1})
            raise ConfigError(f"alphabet: {twice[0]!r} is in it twice; name each character once")
        if not self.characters:
            raise ConfigError("alphabet: it has no characters")

    @classmethod
    def of(cls, name: str) -> Alphabet:
        """An alphabet of ours by its name, of a file with a character a line, or the characters of `=ABC` themselves.

        Raises ConfigError for what is none of these.
        """
        if name.startswith("="):
            return cls(name[1:])
        if name in _NAMED:
            return cls(_NAMED[name])
        ours = _FOLDER / f"{name}.txt"
        path = ours if ours.is_file() else expanded(name)
        if not path.is_file():
            known = [*_NAMED, *sorted(file.stem for file in _FOLDER.glob("*.txt"))]
            raise ConfigError(
                f"alphabet: '{name}' is no file and no alphabet of ours{did_you_mean(name, known) or ';'} those are "
                f"{', '.join(known)}; =ABC are the characters themselves"
            )
        lines = decoded(read_bytes(path), str(path)).split("\n")
        characters = [line.rstrip("\r") for line in lines]
        if characters and not characters[-1]:
            characters.pop()
        if not characters:
            raise ConfigError(f"{path}: the file is empty; a line has a character")
        lines_of: dict[str, int] = {}
        for number, character in enumerate(characters, start=1):
            if (first := lines_of.setdefault(character, number)) != number:
                raise ConfigError(
                    f"{path}:{number}: {character!r} is there already, in line {first}; name each character once"
                )
        wrong = next((k for k, c in enumerate(characters) if len(c) != 1), None)
        if wrong is not None:
            raise ConfigError(f"{path}:{wrong + 1}: {characters[wrong][:20]!r} is not one character; a line has one")
        return cls(characters if " " in characters else [*characters, " "])

    def __len__(self) -> int:
        return len(self.characters)

    @property
    def classes(self) -> int:
        """K, the characters and the blank."""
        return len(self.characters) + 1

    def unknown(self, text: str) -> list[str]:
        """The characters of a text that are not in it, each once, in order."""
        return list(dict.fromkeys(c for c in text if c not in self._numbers))

    def encode(self, text: str) -> np.ndarray:
        """int64 [L], the classes of a text's characters; those that are not in it are left out."""
        return np.array([self._numbers[c] for c in text if c in self._numbers], np.int64)

    def text(self, classes: Sequence[int]) -> str:
        """The text of classes without blanks."""
        return "".join(self.characters[k - 1] for k in classes)
