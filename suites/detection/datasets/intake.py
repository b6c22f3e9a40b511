"""Intake: the images of a set as a reader takes them in, one by one; those that cannot be used are left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from framework.errors import DataError
from suites.detection.datasets.annotations import RawAnnotations
from suites.engine.data.skipping import SetError, check_share, leave_out
from suites.engine.reporting import Tally

OnProblem = Literal["error", "skip"]


class PictureError(DataError):
    """The picture of an image is missing or damaged; its annotation may be right."""


def missing_picture(path: str) -> PictureError:
    """The error of a picture that is not at `path`."""
    return PictureError(f'{path}: the picture is missing; put it there, or set bad_images: "skip"')


class Intake:
    """Takes in images until more than a share of them cannot be used.

    Args:
        what: the set, for messages.
        bad_images: with "skip", images whose picture cannot be used do not count towards the share.
        max_skipped: the share. 0: the first image that cannot be used is an error at once.
        masks: whether shapes are read.

    Attributes:
        raw: the images that can be used.
        total: how many images there were.
        unusable: why each of those that count towards the share is left out.
        bad_pictures: why each of the others is.
    """

    def __init__(
        self, what: str, bad_images: OnProblem = "error", max_skipped: float = 0.0, *, masks: bool = False
    ) -> None:
        check_share(what, max_skipped)
        self.what = what
        self.raw = RawAnnotations(shapes=[] if masks else None)
        self.total = 0
        self.unusable: list[str] = []
        self.bad_pictures: list[str] = []
        self.checks_pictures = bad_images == "skip"
        self._max_skipped = max_skipped

    @contextmanager
    def image(self) -> Iterator[None]:
        """One image: where the body raises DataError, what it added to `raw` is taken back. SetError goes through."""
        self.total += 1
        images, boxes = len(self.raw.files), len(self.raw.boxes)
        try:
            yield
        except SetError:
            raise
        except DataError as error:
            self.raw.cut(images, boxes)
            self.leave_out(error)

    def leave_out(self, error: DataError) -> None:
        """Notes why an image cannot be used."""
        if self.checks_pictures and isinstance(error, PictureError):
            self.bad_pictures.append(str(error))
        elif not self._max_skipped:
            raise error
        else:
            self.unusable.append(str(error))

    def report(self, tally: Tally) -> None:
        """Logs what was left out, and notes in `tally` what counts towards the share; DataError where it is more."""
        leave_out(self.what, self.unusable, self.total, self._max_skipped, "images")
        leave_out(self.what, self.bad_pictures, self.total, 1.0, "images")
        for reason in self.unusable:
            tally.skip(self.what, reason)
