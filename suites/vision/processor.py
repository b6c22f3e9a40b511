"""Processors of pictures: items become batches through the transforms of evaluation."""

from __future__ import annotations

import base64
import binascii
import contextlib
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from framework.errors import CheckpointError, ConfigError, DataError
from suites.engine.config import build_value, plain
from suites.engine.contract.batch import POSITIONS, Batch, Found, in_place
from suites.engine.contract.capabilities import OverTime
from suites.engine.contract.processor import ServedProcessor
from suites.vision.alike import alike
from suites.vision.augmentation.pipeline import Transform
from suites.vision.pictures.given import as_image
from suites.vision.pictures.images import (
    QUICK_BYTES,
    checked_header,
    count_pages,
    decode_image,
    encode_image,
    is_quick_picture,
    read_image,
)
from suites.vision.sample import VisualSample
from suites.vision.videos.camera import camera_number, opened_moving
from suites.vision.videos.reading import VIDEO_SUFFIXES, frames_of
from suites.vision.videos.writing import Film, written_film

Self = TypeVar("Self", bound="VisualProcessor")

_PAGED = (".tif", ".tiff")
_JPEG = "/9j/"  # the first three bytes of one, in base64


class PictureProcessor(ServedProcessor):
    """Inputs are pictures or what a camera sees, and so are drawings."""

    def picture(self, drawing: np.ndarray, ending: str) -> bytes:
        """A drawing as a picture file."""
        return encode_image(drawing, ending)

    def is_live(self, word: str) -> bool:
        """Whether it is a camera's number."""
        return camera_number(word) is not None


class VisualProcessor(PictureProcessor):
    """Pictures or clips to batches, as in evaluation.

    Attributes:
        suite: whose transforms these are.

    Args:
        transforms: those of evaluation.
        class_names: K names.
    """

    suite: ClassVar[str]

    def __init__(self, transforms: Sequence[Transform], class_names: Sequence[str]) -> None:
        self._transforms = list(transforms)
        self._class_names = tuple(class_names)

    def metadata(self) -> dict[str, Any]:
        """All arguments of the constructor, transforms as configs write them."""
        return {"transforms": plain(self._transforms, suite=self.suite), "class_names": list(self._class_names)}

    @classmethod
    def from_metadata(cls: type[Self], metadata: dict[str, Any]) -> Self:
        """The processor that `metadata` describes; CheckpointError where a key is missing."""
        given = dict(metadata)
        try:
            transforms = build_value(given.pop("transforms"), list[Transform], suite=cls.suite)
            return cls(transforms, given.pop("class_names"), **given)
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{cls.__name__}: the metadata of the model do not fit: {error}") from error

    @abstractmethod
    def sample_of(self, item: Any, number: int) -> VisualSample:
        """Item `number` of a batch as a sample without its truth."""

    @abstractmethod
    def collate(self, samples: Sequence[Any]) -> Batch:
        """Samples as a batch."""

    def shape_of(self, sample: Any) -> Hashable:
        """What samples of one batch have in common, after the transforms."""
        return sample.pixels.shape

    def prepare(self, items: Sequence[Any]) -> Batch:
        """Items as one batch, exactly as in evaluation; they have to be of one shape, see `batches`."""
        return self.collate(self._transformed(items))

    def batches(self, items: Sequence[Any]) -> Iterable[Batch]:
        """A batch of the items of each shape."""
        samples = self._transformed(items)
        for group in alike(map(self.shape_of, samples)):
            yield {**self.collate([samples[k] for k in group]), POSITIONS: group}

    def joined(self, found: Iterable[Found]) -> list[Any]:
        """The results in the items' order."""
        return in_place((self.results(outputs, batch), batch) for outputs, batch in found)

    def _transformed(self, items: Sequence[Any]) -> list[Any]:
        rng = np.random.default_rng(0)
        samples: list[Any] = [self.sample_of(item, number) for number, item in enumerate(items)]
        for transform in self._transforms:
            samples = [transform(sample, rng) for sample in samples]
        return samples


def file_in_json(value: Any, what: str) -> bytes:
    """The file whose base64 text a request has; DataError for anything else. `what` it is: "an image"."""
    if not isinstance(value, str):
        raise DataError(f"takes {what} file as base64 text, got {type(value).__name__}")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataError(f"takes {what} file as base64 text; this is no base64 ({error})") from None


def _film(path: Path | None, rate: float) -> contextlib.AbstractContextManager[Film | None]:
    return contextlib.nullcontext() if path is None else written_film(path, rate)


def _same(item: np.ndarray) -> np.ndarray:
    return item


def _raise(error: DataError) -> None:
    raise error


class ImageItems(PictureProcessor):
    """Items are images, uint8 RGB [H, W, 3]; in JSON they are the base64 text of an image file."""

    files_in_json: ClassVar[bool] = True

    def read(self, path: Path) -> np.ndarray:
        """An image file as uint8 RGB [H, W, 3]."""
        return read_image(path)

    def inputs(self, word: str) -> Iterable[tuple[str, Callable[[], Any]]]:
        """(name, what reads it) of a file or of the files in a folder; of a video each frame, of a TIFF each page."""
        path = Path(word)
        if path.suffix.lower() not in VIDEO_SUFFIXES or path.is_dir():
            for name, read in super().inputs(word):
                yield from self._pages(Path(name)) if name.lower().endswith(_PAGED) else [(name, read)]
            return
        try:
            for at, frame in enumerate(frames_of(path)):
                yield str(path.with_name(f"{path.stem}_{at:06d}.jpg")), partial(_same, frame)
        except DataError as error:
            yield str(path), partial(_raise, error)

    def _pages(self, path: Path) -> Iterable[tuple[str, Callable[[], Any]]]:
        try:
            count = count_pages(path)
        except DataError:  # told when it is read
            count = 1
        if count == 1:
            return [(str(path), partial(self.read, path))]
        name = f"{path.stem}_page{{}}{path.suffix}"
        return [(str(path.with_name(name.format(k + 1))), partial(read_image, path, k)) for k in range(count)]

    def film(self, path: Path, predict: Callable[[list[Any]], list[Any]], how: OverTime) -> list[dict[str, Any]]:
        """The result of each frame with its time; with `video` the frames with what is found on them, as a video."""
        if how.window is not None:
            raise ConfigError("infer: this model looks at single frames, so --window says nothing; take it away")
        found = []
        with opened_moving(path, how.seconds) as source, _film(how.video, source.rate) as film:
            for frame in source.frames():
                (result,) = predict([frame.pixels])
                found.append({"seconds": round(frame.seconds, 3), "found": self.summary(result)})
                drawing = self.draw(frame.pixels, result) if film else ""
                if film and not isinstance(drawing, str):
                    film.add(frame.seconds, drawing)
        return found

    def item(self, given: Any) -> Any:
        """A picture as a person has it in Python; see `as_image`."""
        return as_image(given)

    def from_json(self, value: Any) -> np.ndarray:
        """The image whose file `value` is in base64."""
        return decode_image(file_in_json(value, "an image"), "of the request")

    def is_quick(self, value: Any, length: int) -> bool:
        """Baseline JPEGs of up to 2 million pixels: decoding one takes some steps a pixel and a byte, and no more."""
        if not isinstance(value, str) or not value.startswith(_JPEG) or length > 2 * QUICK_BYTES:
            return False
        try:
            return is_quick_picture(file_in_json(value, "an image"))
        except DataError:
            return True  # that it is no base64 is found at once

    def decoded_bytes(self, value: Any) -> int:
        """Bytes that decoding the image takes, by its header."""
        found = checked_header(file_in_json(value, "an image"), "of the request")
        return found.pixels * found.pixel_bytes

    def example(self) -> str:
        """A black image."""
        return base64.b64encode(encode_image(np.zeros((64, 64, 3), np.uint8))).decode()


class ImageProcessor(ImageItems, VisualProcessor):
    """Images to batches through the transforms of evaluation."""
