"""Files of the tool labelme (github.com/wkentaro/labelme): a JSON beside each picture, with shapes and their labels."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.engine.data.files import Source
from suites.engine.data.intake.naming import as_written
from suites.engine.data.intake.texts import json_in
from suites.vision.files import BESIDE, held_out, is_image
from suites.vision.pictures import stated
from suites.vision.pictures.images import IMAGE_SUFFIXES, decode_image
from suites.vision.structures import Patch

WITHOUT_AREA = ("point", "line", "linestrip", "points")  # types of shapes
_CIRCLE = 64  # points of the polygon in place of a circle


def read_document(source: Source, name: str) -> dict[str, Any]:
    """The JSON of a picture, without the picture in it; DataError where it is no file of labelme."""
    document = json_in(source.read(name, "text_bytes"), f"{source.root}/{name}")
    if not isinstance(document, dict) or not isinstance(document.get("shapes"), list):
        raise DataError(f"{source.root}/{name}: has no list `shapes`; is it a file of labelme?")
    strange = next((at for at, shape in enumerate(document["shapes"]) if not isinstance(shape, dict)), None)
    if strange is not None:
        raise DataError(f"{source.root}/{name}: shape {strange} is no object")
    document.pop("imageData", None)  # a whole picture as text
    return document


class Documents:
    """All documents in the root and below, read once; what is wrong with one is told when it is asked for.

    Attributes:
        names: of their files, in order.

    Raises:
        DataError: there are none.
    """

    def __init__(self, source: Source) -> None:
        self.names = source.files("", (".json",), (*IMAGE_SUFFIXES, *BESIDE))
        if not self.names:
            raise DataError(f"{source.root}: no .json files of labelme in it")
        self._source = source
        self._documents: dict[str, dict[str, Any]] = {}
        self._damaged: dict[str, DataError] = {}
        for name in self.names:
            try:
                self._documents[name] = read_document(source, name)
            except DataError as error:
                self._damaged[name] = error

    def __getitem__(self, name: str) -> dict[str, Any]:
        """The document of a file; DataError where it is no file of labelme."""
        if name in self._damaged:
            raise self._damaged[name]
        return self._documents[name]

    def held_out(self, split: str | None, holdout: int, who: str) -> list[str]:
        """Names of a part, see `suites.vision.files.held_out`; copies of a picture stay together."""
        pictures = [self._picture(name) or name for name in self.names]
        return held_out(self._source, self.names, split, holdout, who, pictures)

    def _picture(self, name: str) -> str | None:
        document = self._documents.get(name)
        return None if document is None else picture_of(self._source, name, document)

    def shapes(self) -> Iterator[dict[str, Any]]:
        """All shapes with an area, in the documents that can be read."""
        for document in self._documents.values():
            for shape in document["shapes"]:
                if (shape.get("shape_type") or "polygon") not in WITHOUT_AREA:
                    yield shape

    def labels(self) -> list[str]:
        """All labels of these, sorted."""
        return sorted({label_of(shape) for shape in self.shapes()} - {""})


def picture_of(source: Source, name: str, document: dict[str, Any]) -> str | None:
    """The picture of a document `name`: beside it by the name it gives, else where it says; None if it is not there."""
    said = as_written(str(document.get("imagePath") or ""))
    folder = name.rpartition("/")[0]
    for path in (said.rpartition("/")[2], said):
        found = source.find(f"{folder}/{path}" if folder else path) if is_image(path) else None
        if found is not None:
            return found
    return None


def stated_size(document: dict[str, Any]) -> tuple[int, int]:
    """(H, W) of its picture as a document says; (0, 0) where it does not."""
    return stated.stated_size(document.get("imageHeight"), document.get("imageWidth"))


def label_of(shape: dict[str, Any]) -> str:
    """The label of a shape; "" where it has none."""
    label = shape.get("label")
    return "" if label is None else str(label)


def part_of(shape: Any, where: str) -> np.ndarray | Patch | None:
    """The outline, float64 [P, 2], of a shape, or its bitmap; None for one without an area, such as a line.

    Raises:
        DataError: it has no points, too few, or is of another kind; `where` begins the message.
    """
    kind = shape.get("shape_type") or "polygon"
    try:
        points = np.asarray(shape["points"], np.float64).reshape(-1, 2)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise DataError(f"{where}: has no points [x, y]") from None
    if not np.isfinite(points).all():
        raise DataError(f"{where}: has points that are not finite")
    if kind in WITHOUT_AREA:
        return None
    if len(points) < (3 if kind == "polygon" else 2):
        raise DataError(f"{where}: a {kind} of {len(points)} points; a polygon needs three, others two")
    if kind == "mask":
        (x1, y1), (x2, y2) = np.rint(points.min(axis=0)).astype(int).tolist(), points.max(axis=0).tolist()
        return _bitmap(shape, x1, y1, (round(y2) - y1 + 1, round(x2) - x1 + 1), where)
    if kind == "rectangle":
        (x1, y1), (x2, y2) = points.min(axis=0), points.max(axis=0)
        return np.array([[x1, y1], [x2, y1], [x2, y2], [x1, y2]])
    if kind == "circle":
        turn = np.linspace(0, 2 * np.pi, _CIRCLE, endpoint=False)
        radius = np.hypot(*(points[1] - points[0]))
        return points[0] + radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    if kind != "polygon":
        raise DataError(f"{where}: a shape of type '{kind}'; polygon, rectangle, circle and mask are read")
    return points


def _bitmap(shape: Any, left: int, top: int, size: tuple[int, int], where: str) -> Patch:
    """The bitmap of a shape of type mask: a PNG as text, as large as the two corners say, with both in it."""
    text = shape.get("mask")
    if not isinstance(text, str):
        raise DataError(f"{where}: a mask without its picture (`mask`)")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataError(f"{where}: the picture of its mask is no base64 ({error})") from None
    bitmap = decode_image(data, f"{where}: its mask").any(axis=2)
    if bitmap.shape != size:
        height, width = bitmap.shape
        raise DataError(f"{where}: its mask is {width}x{height}, but its corners are {size[1]}x{size[0]} apart")
    return Patch(bitmap, left, top)
