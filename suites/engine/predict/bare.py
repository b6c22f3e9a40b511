"""What stands around a network of which nothing is known but its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from framework.errors import DataError
from suites.engine.contract.batch import Batch
from suites.engine.contract.processor import ServedProcessor


class BareTensors(ServedProcessor):
    """Refuses all items: it knows no preprocessing. A server runs such a network on tensors as they are.

    Args:
        name: of the file, for messages.
    """

    endings = ()

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self) -> NoReturn:
        raise DataError(
            f"{self._name}: holds no preprocessing, as an ONNX file that `paddock export` wrote does; "
            "serve it and send tensors by the Open Inference Protocol (v2), or run it by `framework.onnx` or "
            "`framework.tflite`"
        )

    def metadata(self) -> dict[str, Any]:
        """Its name."""
        return {"name": self._name}

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> BareTensors:
        """Make it again."""
        return cls(str(metadata["name"]))

    def require_input(self, word: str) -> None:
        """Raise DataError, whatever the word is."""
        self._refuse()

    def with_texts(self) -> BareTensors:
        """The same."""
        return self

    def is_quick(self, value: Any, length: int) -> bool:
        """It refuses at once."""
        return True

    def read(self, path: Path) -> Any:
        """Raise DataError."""
        self._refuse()

    def item(self, given: Any) -> Any:
        """Raise DataError."""
        self._refuse()

    def from_json(self, value: Any) -> Any:
        """Raise DataError."""
        self._refuse()

    def prepare(self, items: Sequence[Any]) -> Batch:
        """Raise DataError."""
        self._refuse()

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[Any]:
        """Raise DataError."""
        self._refuse()

    def draw(self, item: Any, result: Any) -> np.ndarray | str:
        """Raise DataError."""
        self._refuse()
