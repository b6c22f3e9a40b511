"""Writes detection data sets: COCO's JSON, Pascal VOC's XML, YOLO's text files; pictures are copied as they are."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from framework.atomic import atomic_file
from framework.errors import DataError
from suites.detection.datasets.base import DetectionDataset
from suites.detection.sample import Sample
from suites.vision.pictures.images import encode_image
from suites.vision.pose import Pose

Writer = Callable[[DetectionDataset, Sequence[int], Path, str], Path]


def write_coco(dataset: DetectionDataset, indices: Sequence[int], folder: Path, part: str) -> Path:
    """`<folder>/<part>/` with the pictures and `<folder>/annotations/instances_<part>.json`; returns the JSON."""
    images: list[dict[str, object]] = []
    annotations: list[dict[str, object]] = []
    names, truth = _Names(), dataset.ground_truth()
    for at in indices:
        sample, name = dataset[at], names.of(dataset, at)
        _write(folder / part / name, _picture(dataset, at, sample.image))
        height, width = sample.size
        images.append({"id": sample.image_id, "file_name": name, "height": height, "width": width})
        rows = _coco_rows(sample, truth.areas[truth.offsets[at] : truth.offsets[at + 1]])
        annotations += [{"id": len(annotations) + i, **entry} for i, entry in enumerate(rows, start=1)]
    pose = _named_points(dataset)
    points = (
        {} if pose is None else {"keypoints": list(pose.names), "skeleton": [[a + 1, b + 1] for a, b in pose.skeleton]}
    )
    categories = [{"id": i, "name": name, **points} for i, name in enumerate(dataset.class_names, start=1)]
    document = {"images": images, "categories": categories, "annotations": annotations}
    path = folder / "annotations" / f"instances_{part}.json"
    _write(path, json.dumps(document).encode())
    return path


def _named_points(dataset: DetectionDataset) -> Pose | None:
    """What the points of a set are; None where it has none, or they are others for each class."""
    return getattr(dataset, "pose", None) if dataset.ground_truth().points is not None else None


def _coco_rows(sample: Sample, told: np.ndarray) -> list[dict[str, object]]:
    """The objects of a picture, whose areas `told` are the file's where they have no masks."""
    found = sample.instances
    boxes = told if len(told) == len(found) else found.boxes.areas
    areas = boxes if found.masks is None else found.masks.areas()
    rows: list[dict[str, object]] = []
    for i, (x1, y1, x2, y2) in enumerate(found.boxes.array.tolist()):
        row = {
            "image_id": sample.image_id,
            "category_id": int(found.classes[i]) + 1,
            "bbox": [x1, y1, x2 - x1, y2 - y1],
        }
        rows.append({**row, "area": float(areas[i]), "iscrowd": int(found.crowd[i])})
    for row, code in zip(rows, found.masks.codes() if found.masks else (), strict=False):
        row["segmentation"] = {"size": list(code["size"]), "counts": code["counts"].decode()}
    if found.keypoints is not None and found.pose is not None:
        for row, points in zip(rows, found.keypoints.astype(np.float64), strict=True):
            row |= {"keypoints": points.reshape(-1).tolist(), "num_keypoints": int((points[:, 2] > 0).sum())}
    return rows


def write_voc(dataset: DetectionDataset, indices: Sequence[int], folder: Path, part: str) -> Path:
    """`JPEGImages/`, `Annotations/`, `ImageSets/Main/<part>.txt` and `classes.txt` in `folder`; returns `folder`."""
    stems = []
    names = _Names()
    for at in indices:
        sample, name = dataset[at], names.of(dataset, at)
        stems.append(PurePosixPath(name).stem)
        _write(folder / "JPEGImages" / name, _picture(dataset, at, sample.image))
        _write(folder / "Annotations" / f"{stems[-1]}.xml", _voc_xml(sample, name, dataset.class_names))
    _write(folder / "ImageSets" / "Main" / f"{part}.txt", "".join(f"{stem}\n" for stem in stems).encode())
    _write(folder / "classes.txt", "".join(f"{name}\n" for name in dataset.class_names).encode())
    return folder


def _voc_xml(sample: Sample, file: str, class_names: Sequence[str]) -> bytes:
    root = ET.Element("annotation")
    ET.SubElement(root, "filename").text = file
    size = ET.SubElement(root, "size")
    for key, side in zip(("height", "width", "depth"), sample.image.shape, strict=True):
        ET.SubElement(size, key).text = str(side)
    found = sample.instances
    apart = found.difficult | found.crowd  # neither learnt as objects nor counted
    for box, label, difficult in zip(found.boxes.array.tolist(), found.classes, apart, strict=True):
        entry = ET.SubElement(root, "object")
        ET.SubElement(entry, "name").text = class_names[int(label)]
        ET.SubElement(entry, "difficult").text = str(int(difficult))
        corners = ET.SubElement(entry, "bndbox")
        for key, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True):
            ET.SubElement(corners, key).text = f"{value:.7g}"
    return ET.tostring(root)


def write_yolo(dataset: DetectionDataset, indices: Sequence[int], folder: Path, part: str) -> Path:
    """`images/<part>/`, `labels/<part>/` and `data.yaml` in `folder`, boxes only; returns `folder`."""
    names = _Names()
    for at in indices:
        sample, name = dataset[at], names.of(dataset, at)
        _write(folder / "images" / part / name, _picture(dataset, at, sample.image))
        height, width = sample.size
        objects = sample.instances[~sample.instances.crowd]
        lines = []
        for (x1, y1, x2, y2), label in zip(objects.boxes.array.tolist(), objects.classes, strict=True):
            shares = (x1 + x2) / 2 / width, (y1 + y2) / 2 / height, (x2 - x1) / width, (y2 - y1) / height
            lines.append(f"{label} " + " ".join(f"{share:.6f}" for share in shares) + "\n")
        _write(folder / "labels" / part / f"{PurePosixPath(name).stem}.txt", "".join(lines).encode())
    listed = "".join(f"  {i}: {json.dumps(name)}\n" for i, name in enumerate(dataset.class_names))
    _write(folder / "data.yaml", f"train: images/train\nval: images/val\nnames:\n{listed}".encode())
    return folder


WRITERS: dict[str, Writer] = {"coco": write_coco, "voc": write_voc, "yolo": write_yolo}
# What becomes of what a format has no place for.
_LOST = {
    "coco": {
        "difficult": "difficult objects become plain ones",
        "unnamed": "points are not written, as they are others for each class",
    },
    "voc": {
        "masks": "masks are not written",
        "points": "points are not written",
        "crowd": "crowd regions become difficult objects",
    },
    "yolo": {
        "masks": "masks are not written",
        "points": "points are not written",
        "crowd": "crowd regions are left out",
        "difficult": "difficult objects become plain ones",
    },
}


def lost_in(kind: str, dataset: DetectionDataset, indices: Sequence[int]) -> list[str]:
    """What a format cannot say of the objects of some images of `dataset`, with their number."""
    truth = dataset.ground_truth()
    written = np.isin(truth.owners(), indices)
    counts = {"difficult": int(truth.difficult[written].sum()), "crowd": int(truth.crowd[written].sum())}
    counts["masks"] = 0 if truth.masks is None else int(written.sum())
    counts["points"] = 0 if truth.points is None else int((truth.points[written, :, 2] > 0).any(axis=1).sum())
    counts["unnamed"] = counts["points"] if _named_points(dataset) is None else 0
    return [f"{text} ({counts[name]})" for name, text in _LOST[kind].items() if counts[name]]


class _Names:
    """File names of pictures, each once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def of(self, dataset: DetectionDataset, at: int) -> str:
        path = PurePosixPath(dataset.name_of(at))
        stem, suffix = (path.stem, path.suffix) if path.suffix else (f"{at:06d}", ".png")
        if stem in self._taken:
            stem = f"{stem}_{at}"
        self._taken.add(stem)
        return f"{stem}{suffix}"


def _picture(dataset: DetectionDataset, at: int, image: np.ndarray) -> bytes:
    """The picture's file as it is, where there is one."""
    file = dataset.file_of(at)
    return encode_image(image) if file is None else file


def _write(path: Path, data: bytes) -> None:
    if path.exists() and path.read_bytes() != data:
        raise DataError(f"{path}: is there already with another content; choose an empty folder")
    with atomic_file(path) as part:
        part.write_bytes(data)
