"""What readers of several formats share: sizes of pictures, numbers of classes."""

from __future__ import annotations

from collections.abc import Sequence

from framework.errors import DataError
from suites.detection.datasets.intake import PictureError
from suites.engine.data.files import Source
from suites.engine.data.skipping import SetError
from suites.engine.names import did_you_mean
from suites.vision.pictures.glances import shown_size


def size_of(source: Source, name: str) -> tuple[int, int]:
    """(H, W) of a picture as it is shown, so with the EXIF orientation applied; PictureError if it is damaged."""
    data, where = source.read(name), f"{source.root}/{name}"
    try:
        return shown_size(data, where)
    except DataError as error:
        raise PictureError(str(error)) from None


class ClassTable:
    """Numbers of class names.

    Args:
        names: K names.
        skip_unknown: other classes are left out and counted in `unknown`, in place of an error.
    """

    def __init__(self, names: Sequence[str], skip_unknown: bool) -> None:
        self.names = list(names)
        self.unknown = 0
        self._labels = {name: label for label, name in enumerate(names)}
        self._skip = skip_unknown

    def label(self, name: str, where: str) -> int | None:
        """The number of a class; None for one that is left out.

        Raises:
            SetError: the class is none of them.
            DataError: the object has no class.
        """
        label = self._labels.get(name)
        if label is None and not name and not self._skip:
            raise DataError(f"{where}: an object has no class")
        if label is None:
            self._leave_out(f"{where}: class {name!r} is not among the {len(self.names)} classes", name)
        return label

    def _leave_out(self, problem: str, name: str) -> None:
        if not self._skip:
            listed, hint = ", ".join(self.names[:20]), did_you_mean(name, self._labels) or "."
            raise SetError(f'{problem} ({listed}){hint} Set unknown_class: "skip" to leave such boxes out')
        self.unknown += 1
