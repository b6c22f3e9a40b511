"""What a person names to predict on: files, folders, patterns and texts, read one by one, and names of the results."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from framework.errors import DataError
from suites.engine.contract.processor import Processor
from suites.engine.data.intake.naming import in_order


def read_inputs(words: Iterable[str], processor: Processor, skipped: list[str]) -> Iterator[tuple[str, Any]]:
    """(name, item) of each input that can be read; `skipped` gets the others' errors."""
    for named in words:
        there = False
        for name, read in processor.inputs(named):
            there = True
            try:
                yield name, read()
            except DataError as error:
                skipped.append(str(error))
        if not there:
            skipped.append(f"{named}: there is no file of a kind that this model reads in it")


def matched(word: str) -> list[str]:
    """The files and folders that a pattern stands for, in order; a word that matches nothing stands for itself."""
    return [word] if os.path.exists(word) else in_order(glob.glob(word, recursive=True)) or [word]


def new_name(name: str, taken: Mapping[str, Any]) -> str:
    """`name`, with a number behind it if it is taken."""
    if name not in taken:
        return name
    return next(new for at in count(len(taken)) if (new := f"{name} ({at})") not in taken)
