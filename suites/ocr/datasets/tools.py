"""Pictures with the outlines of their texts in JSON: TextOCR's one file, and labelme's file beside each picture."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.engine.data.intake.texts import json_in
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.ocr.datasets.pages import PageDataset, Written
from suites.ocr.sample import ILLEGIBLE, checked_polygon
from suites.vision.files import listed_file
from suites.vision.labelme import Documents, label_of, part_of, picture_of, stated_size
from suites.vision.pictures import stated
from suites.vision.structures import Patch

_log = logging.getLogger(__name__)
_ILLEGIBLE = "."  # TextOCR's word for it


@register("dataset")
class TextOcr(PageDataset):
    """TextOCR's form: a JSON with `imgs`, `anns` and `imgToAnns`; an outline is `points` x1, y1, x2, y2, ...

    A text "." is illegible. Pictures without an entry in `imgToAnns` have no text.

    Args:
        root: folder or zip.
        annotations: the JSON, relative to the root.
        images: folder of the pictures, before their `file_name`; null where that is relative to the root.
        max_skipped: share of the texts that may be wrong; they are left out and logged. 0: the first one is an error.
    """

    def __init__(
        self, root: str, annotations: str, images: str | None = None, max_skipped: float = MAX_SKIPPED
    ) -> None:
        source, skipped = open_source(root), Tally()
        where = f"{source.root}/{annotations}"
        found = json_in(source.read(annotations), where)
        pictures, texts = _objects(found, "imgs", where), _objects(found, "anns", where)
        names, rows, sizes = {}, [], []
        for key, picture in pictures.items():
            if not isinstance(picture, Mapping) or not isinstance(picture.get("file_name"), str):
                raise DataError(f"{where}: imgs {key}: has no file_name")
            name = picture["file_name"]
            names[str(key)] = listed_file(source, f"{images}/{name}" if images else name)
            sizes.append(stated.stated_size(picture.get("height"), picture.get("width")))
        for key, text in texts.items():
            if not isinstance(text, Mapping) or str(text.get("image_id")) not in names:
                raise DataError(f"{where}: anns {key}: its image_id is none of imgs")
            rows.append((str(text["image_id"]), f"{where}: anns {key}", text))
        read = usable(f"TextOcr {root}", rows, _of_annotation, max_skipped, skipped, "texts")
        written: dict[str, list[Written]] = {key: [] for key in names}
        for (key, _, _), made in read:
            written[key].append(made)
        texts_of = list(written.values())
        super().__init__(f"TextOcr {root} {annotations}", source, list(names.values()), texts_of, skipped, sizes)


def _objects(found: Any, key: str, where: str) -> Mapping[str, Any]:
    held = found.get(key) if isinstance(found, Mapping) else None
    if not isinstance(held, Mapping):
        raise DataError(f"{where}: has no object '{key}'; is it a file of TextOCR?")
    return held


def _of_annotation(row: tuple[str, str, Mapping[str, Any]]) -> Written:
    _, where, text = row
    try:
        points = np.array(text["points"], np.float64).reshape(-1, 2)
    except (KeyError, ValueError, TypeError):
        raise DataError(f"{where}: points are x1, y1, x2, y2, ..., found {str(text.get('points'))[:60]!r}") from None
    said = str(text.get("utf8_string", ""))
    try:
        return checked_polygon(points), ILLEGIBLE if said == _ILLEGIBLE else said
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


@register("dataset")
class LabelmeText(PageDataset):
    """Files of labelme beside their pictures; the label of a shape is what is written there.

    Where all shapes of the set have one label, such as "text", and some a `description`, that is what is written.
    Polygons of 4 points or more and rectangles are outlines. A shape that does not say what is written is an error.

    Args:
        root: folder or zip.
        split: "train" or "val" of a part held out; null for all pictures.
        holdout: every how many-th picture is held out.
        max_skipped: share of the shapes that may be wrong; they are left out and logged. 0: the first one is an error.
    """

    def __init__(self, root: str, split: str | None = None, holdout: int = 5, max_skipped: float = MAX_SKIPPED) -> None:
        source, skipped = open_source(root), Tally()
        documents = Documents(source)
        names, rows, key = {}, [], _text_key(documents)
        files = documents.names if split is None else documents.held_out(split, holdout, "LabelmeText")
        for file in files:
            picture = picture_of(source, file, documents[file])
            if picture is None:
                raise DataError(f"{source.root}/{file}: its picture is not there")
            names[file] = picture
            shapes = documents[file]["shapes"]
            where = f"{source.root}/{file}: shape"
            rows += [(file, f"{where} {at}", {**shape, "label": shape.get(key)}) for at, shape in enumerate(shapes)]
        read = usable(f"LabelmeText {root}", rows, _of_shape, max_skipped, skipped, "shapes")
        written: dict[str, list[Written]] = {file: [] for file in names}
        for (file, _, _), made in read:
            written[file] += [made] if made else []
        sizes, texts = [stated_size(documents[file]) for file in names], list(written.values())
        super().__init__(f"LabelmeText {root}", source, list(names.values()), texts, skipped, sizes)


def _text_key(documents: Documents) -> str:
    """The key of shapes that says what is written."""
    shapes = list(documents.shapes())
    described = any(str(shape.get("description") or "").strip() for shape in shapes)
    if not described or len({label_of(shape) for shape in shapes}) > 1:
        return "label"
    _log.info("LabelmeText: all shapes are called %r; their descriptions are the texts", label_of(shapes[0]))
    return "description"


def _of_shape(row: tuple[str, str, dict[str, Any]]) -> Written | None:
    _, where, shape = row
    outline = part_of(shape, where)
    if outline is None:
        return None
    if isinstance(outline, Patch):
        raise DataError(f"{where}: is a painted mask; text is outlined by polygons or rectangles")
    if not label_of(shape).strip():
        raise DataError(
            f"{where}: does not say what is written there, by its label or, where all labels are the same, its "
            f"description; {ILLEGIBLE} is what nobody can read"
        )
    try:
        return checked_polygon(outline), label_of(shape).strip()
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
