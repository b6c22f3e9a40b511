"""What data sets of text share: pictures of a folder or zip, by index, and what was left out."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.engine.data.files import Source
from suites.engine.registry import register_role
from suites.engine.reporting import Tally
from suites.vision.pictures.glances import Glance, glances
from suites.vision.pictures.images import decode_image

_log = logging.getLogger(__name__)


class TextDataset(ABC):
    """Pictures of a folder or zip with what is written in them; read-only, picklable.

    Attributes:
        passed: what lies among its files and is not read.
        class_names: none: what is written is of no class.
    """

    class_names: tuple[str, ...] = ()

    def __init__(self, what: str, source: Source, names: Sequence[str], skipped: Tally) -> None:
        """Args: words for messages, where the pictures lie, their names, what was left out."""
        if not names:
            raise DataError(f"{what}: there are no pictures with texts")
        self._files = source.table(names)
        self.passed = source.passed
        self._skipped = skipped
        _log.info("%s: %d pictures", what, len(names))
        self.passed.say(what)

    def __len__(self) -> int:
        return len(self._files)

    @abstractmethod
    def __getitem__(self, index: int) -> Any:
        """Sample `index`; a DataError names a file that cannot be used."""

    @abstractmethod
    def texts_of(self, index: int) -> list[str]:
        """What picture `index` says, illegible texts as `###`."""

    def image(self, index: int) -> np.ndarray:
        """Picture `index`, uint8 RGB [H, W, 3]."""
        return decode_image(self._files.read(index), self.name_of(index))

    def name_of(self, index: int) -> str:
        """The picture's file."""
        return self._files.full_name(index)

    def glances(self) -> Iterator[Glance | DataError]:
        """What the files say without decoding."""
        return glances(self._files, np.arange(len(self)))

    def skipped(self) -> Tally:
        """What was left out when the set was opened, and why."""
        return self._skipped


register_role("dataset", TextDataset, doc="pictures with texts, by index")
