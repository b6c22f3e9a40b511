"""Drawn sets of pictures, with boxes, label maps or classes, in all formats, each with its truth."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from suites.classification.datasets import ImageList, PhotoFolder
from suites.detection.datasets.folder import DetectionFolder
from suites.segmentation.datasets import SegmentationFolder
from suites.video.datasets import ClipFolder, FrameFolders
from tests.suites.intake_drawing import CLASSES, STEMS, Draw, compare, key_of, parts


@dataclass
class Photo:
    """A photo with its boxes: (class, x1, y1, x2, y2)."""

    stem: str
    ending: str
    size: tuple[int, int]
    boxes: list[tuple[str, int, int, int, int]]
    stated: float = 1.0


def photos(d: Draw, classes: tuple[str, ...]) -> list[Photo]:
    """Photos with boxes."""
    found = []
    scale = d.pick(1.0, 0.5, 2.0)
    for stem, ending in d.names(d.rng.randrange(5, 8)):
        height, width = d.rng.choice(((40, 60), (48, 48), (60, 40)))
        boxes = []
        for _ in range(d.rng.randrange(1, 4)):
            x, y = d.rng.randrange(0, width - 20), d.rng.randrange(0, height - 20)
            w, h = d.rng.randrange(8, 20), d.rng.randrange(8, 20)
            boxes.append((d.rng.choice(classes), x, y, x + w, y + h))
        found.append(Photo(stem, ending, (height, width), boxes, scale))
    return found


def stated(d: Draw, photo: Photo) -> tuple[int, int]:
    """(H, W) that an annotation says; rarely of a picture of another shape, which must be refused."""
    height, width = (round(side * photo.stated) for side in photo.size)
    if d.chance(0.01, "wrong stated size"):
        d.wrong = True
        height += 17
    return height, width


def by_pixel(box: tuple[Any, ...]) -> tuple[Any, ...]:
    """An order of boxes that parts of a pixel do not change."""
    return (box[0], *(round(side) for side in box[1:]))


def boxes_read(root: str, sets: list[Any], photos: list[Photo], slack: float) -> None:
    """Compares what a detection set holds with the truth."""
    found: dict[str, list[Any]] = {}
    for one in sets:
        for at in range(len(one)):
            sample = one[at]
            stem = key_of(one.name_of(at))
            size = next((p.size for p in photos if key_of(p.stem) == stem), sample.size)
            scaled = sample.instances.boxes.array * (size[1] / sample.size[1])  # a scaled picture is one, boxes and all
            rows = zip(sample.instances.classes.tolist(), scaled.tolist(), strict=True)
            name = key_of(one.name_of(at))
            assert name not in found, f"{name} stands twice"
            found[name] = sorted(((one.class_names[k], *box) for k, box in rows), key=by_pixel)
    truth = {key_of(p.stem): sorted(p.boxes, key=by_pixel) for p in photos}
    compare(sorted(found), sorted(truth), "photos")
    for name, boxes in truth.items():
        compare([b[0] for b in found[name]], [b[0] for b in boxes], f"classes of {name}")
        for a, b in zip(found[name], boxes, strict=True):
            assert np.abs(np.array(a[1:]) - np.array(b[1:])).max() <= slack, f"{name}: read {a}, truth {b}"


def voc(d: Draw) -> Callable[[], None]:
    """Pascal VOC."""
    every = photos(d, CLASSES)
    beside = d.chance(0.3, "beside")
    images, texts = ("", "") if beside else d.pick(("JPEGImages/", "Annotations/"), ("images/", "annotations/"))
    for at, p in enumerate(every):
        d.picture(f"{images}{p.stem}{p.ending}", 20 * at, p.size)
        s = p.stated
        objects = "".join(
            f"<object><name>{c}</name><difficult>{d.pick('0', 'False', ' 0 ')}</difficult><bndbox><xmin>{x1 * s}</xmin>"
            f"<ymin>{y1 * s}</ymin><xmax>{x2 * s}</xmax><ymax>{y2 * s}</ymax></bndbox></object>\n"
            for c, x1, y1, x2, y2 in p.boxes
        )
        name = f"{p.stem}{p.ending}".replace("&", "&amp;")
        height, width = stated(d, p)
        size = f"<size><width>{width}</width><height>{height}</height></size>"
        d.text(f"{texts}{p.stem}.xml", f"<annotation><filename>{name}</filename>{size}\n{objects}</annotation>\n")
    root = d.finish()
    return lambda: boxes_read(root, parts(lambda part: DetectionFolder(root, part)), every, 1.05)


def coco(d: Draw) -> Callable[[], None]:
    """COCO, in parts or not, also as Roboflow writes it."""
    every = photos(d, CLASSES)
    layout = d.pick("one", "roboflow", "parts")
    groups = {"": every} if layout == "one" else {"train": every[2:], "valid": every[:2]}
    extra = d.chance(0.4, "unused supercategory")
    as_text = d.pick(False, True)
    for part, group in groups.items():
        folder = f"{part}/" if layout == "roboflow" else "images/" if layout == "one" else f"images/{part}/"
        cats = [{"id": at + 1, "name": name, "supercategory": "all"} for at, name in enumerate(CLASSES)]
        if extra:
            cats.insert(0, {"id": 0, "name": "all", "supercategory": "none"})
        pictures, boxes = [], []
        for at, p in enumerate(group):
            d.picture(f"{folder}{p.stem}{p.ending}", 20 * every.index(p), p.size)
            s = p.stated
            prefix = d.pick("", "./", ".\\")
            height, width = stated(d, p)
            pictures.append({
                "id": at, "file_name": f"{prefix}{p.stem}{p.ending}",
                "width": width, "height": height,
            })  # fmt: skip
            for c, x1, y1, x2, y2 in p.boxes:
                box = [x1 * s, y1 * s, (x2 - x1) * s, (y2 - y1) * s]
                boxes.append({
                    "id": len(boxes), "image_id": str(at) if as_text else at, "category_id": CLASSES.index(c) + 1,
                    "bbox": box, "area": box[2] * box[3], "iscrowd": "0" if as_text else 0,
                })  # fmt: skip
        name = {
            "one": "annotations.json",
            "roboflow": f"{part}/_annotations.coco.json",
            "parts": f"annotations/instances_{part}.json",
        }[layout]
        ascii_ = bool(d.pick(True, False))
        whole = {"images": pictures, "annotations": boxes, "categories": cats}
        d.text(name, json.dumps(whole, indent=1, ensure_ascii=ascii_))
    root = d.finish()
    return lambda: boxes_read(root, parts(lambda part: DetectionFolder(root, part)), every, 0.6)


def yolo(d: Draw) -> Callable[[], None]:
    """YOLO's texts: boxes, polygons, oriented boxes, keypoints, confidence."""
    classes = tuple(CLASSES[:4])
    every = photos(d, classes)
    kind = d.pick("box", "confidence", "polygon", "oriented", "keypoints")
    layout = d.pick("flat", "folders")
    for at, p in enumerate(every):
        part = ("val" if at < 2 else "train") + "/" if layout == "folders" else ""
        d.picture(f"images/{part}{p.stem}{p.ending}", 20 * at, p.size)
        lines = [yolo_line(d, kind, classes.index(b[0]), b[1:], p.size) for b in p.boxes]
        d.text(f"labels/{part}{p.stem}.txt", "\n".join(lines) + d.pick("\n", "", "\n\n"))
    names = "\n".join(f"  {k}: {json.dumps(c, ensure_ascii=False)}" for k, c in enumerate(classes))
    lines = ["path: .", "train: images/train", "val: images/val"] if layout == "folders" else []
    lines += ["kpt_shape: [3, 3]"] if kind == "keypoints" else []
    d.text("data.yaml", "\n".join([*lines, f"nc: {len(classes)}", "names:", names, ""]))
    root = d.finish()
    return lambda: boxes_read(root, parts(lambda part: DetectionFolder(root, part)), every, 0.6)


def yolo_line(d: Draw, kind: str, number: int, box: tuple[int, ...], size: tuple[int, int]) -> str:
    """A line of YOLO's text."""
    (x1, y1, x2, y2), (h, w) = box, size
    plain = [(x1 + x2) / 2 / w, (y1 + y2) / 2 / h, (x2 - x1) / w, (y2 - y1) / h]
    corners = [x1 / w, y1 / h, x2 / w, y1 / h, x2 / w, y2 / h, x1 / w, y2 / h]
    if kind == "polygon":
        values = [x1 / w, y1 / h, (x1 + x2) / 2 / w, y1 / h, *corners[2:]]
    elif kind == "oriented":
        values = corners
    else:
        values = plain
    if kind == "confidence":
        values = [*values, 0.25 + d.rng.random() / 2]
    if kind == "keypoints":
        values += [v for _ in range(3) for v in ((x1 + 3) / w, (y1 + 3) / h, 2)]
    return " ".join([str(number), *(f"{v:.6f}" for v in values)])


def labelme(d: Draw) -> Callable[[], None]:
    """labelme's files."""
    every = photos(d, CLASSES)
    for at, p in enumerate(every):
        d.picture(f"{p.stem}{p.ending}", 20 * at, p.size)
        s = p.stated
        shapes = []
        for c, x1, y1, x2, y2 in p.boxes:
            kind = d.pick("rectangle", "polygon")
            points = [[x1, y1], [x2, y2]] if kind == "rectangle" else [[x1, y1], [x2, y1], [x2, y2], [x1, y2]]
            if kind == "rectangle" and d.chance(0.2, "reversed corners"):
                points = points[::-1]
            scaled = [[x * s, y * s] for x, y in points]
            shapes.append({"label": c, "points": scaled, "shape_type": kind, "group_id": None, "flags": {}})
        height, width = stated(d, p)
        path = f"{d.pick('', '.', '..')}"
        path = (
            f"{p.stem}{p.ending}" if not path else f"{path}\\{p.stem}{p.ending}" if path == "." else p.stem + p.ending
        )
        whole = {
            "version": "5.0", "flags": {}, "shapes": shapes, "imagePath": path, "imageData": None,
            "imageHeight": height, "imageWidth": width,
        }  # fmt: skip
        d.text(f"{p.stem}.json", json.dumps(whole, ensure_ascii=bool(d.pick(True, False))))
    root = d.finish()
    return lambda: boxes_read(root, parts(lambda part: DetectionFolder(root, part)), every, 0.6)


# Pictures with labels ------------------------------------------------------------------------------------------------
def pairs(d: Draw) -> Callable[[], None]:
    """Images and label maps."""
    images, labels, suffix = d.pick(("images", "labels", ".png"), ("imgs", "masks", "_mask.png"), ("img", "gt", ".PNG"))
    truth = {}
    values = d.pick([0, 1, 2], [0, 255])
    for at, (stem, ending) in enumerate(d.names(6)):
        size = d.rng.choice(((20, 30), (24, 24)))
        d.picture(f"{images}/{stem}{ending}", 20 * at, size)
        drawn = np.random.default_rng(d.rng.randrange(10**6)).choice(np.array(values, np.uint8), size)
        d.put(f"{labels}/{stem}{suffix}", cv2.imencode(".png", drawn)[1].tobytes())
        truth[key_of(stem)] = np.minimum(drawn, 1 if values == [0, 255] else 255)
    root = d.finish()

    def read() -> None:
        sets = parts(lambda part: SegmentationFolder(root, part))
        found = {key_of(one.name_of(at)): one[at].labels for one in sets for at in range(len(one))}
        compare(sorted(found), sorted(truth), "images")
        for name, labels in truth.items():
            assert np.array_equal(found[name], labels), f"{name}: label map differs"

    return read


def folders(d: Draw) -> Callable[[], None]:
    """A folder of photos for each class."""
    classes = d.rng.sample(CLASSES, 3)
    form = d.pick("NFC", "NFD")
    split, below = d.pick(False, True), d.pick("", "session 1/")
    truth = {}
    for at, (stem, ending) in enumerate(d.names(15)):
        name = classes[at % 3]
        part = ("train/" if at < 9 else d.pick("val/", "val/")) if split else ""
        d.picture(f"{part}{unicodedata.normalize(form, name)}/{below}{stem}{ending}", 10 * at, (16, 16))
        truth[key_of(stem)] = name
    root = d.finish()

    def read() -> None:
        sets = parts(lambda part: PhotoFolder(root, part))
        found = {
            key_of(one.name_of(at)): unicodedata.normalize("NFC", one.class_names[one.labels[at]])
            for one in sets
            for at in range(len(one))
        }
        compare(found, truth, "classes")
        names = sorted(unicodedata.normalize("NFC", name) for name in sets[0].class_names)
        compare(names, sorted(classes), "names of classes")
        compare(sum(map(len, sets)), len(truth), "photos")

    return read


def lists(d: Draw) -> Callable[[], None]:
    """A list of photos with numbers of classes."""
    truth, lines = {}, []
    mark = d.pick("", "./", ".\\")
    for at, (stem, ending) in enumerate(d.names(6)):
        d.picture(f"all/{stem}{ending}", 20 * at, (16, 16))
        listed = unicodedata.normalize(d.pick("NFC", "NFD"), f"all/{stem}{ending}")
        lines.append(
            f"{mark}{listed.replace('/', chr(92)) if mark == '.' + chr(92) else listed}{d.pick(' ', chr(9))}{at % 3}"
        )
        truth[key_of(stem)] = at % 3
    d.text("list.txt", "\n".join(lines) + d.pick("\n", ""))
    d.text("classes.txt", "a\nb b\nç\n")
    root = d.finish()

    def read() -> None:
        one = ImageList(root, "list.txt", "classes.txt")
        assert one.class_names == ("a", "b b", "ç")
        compare({key_of(one.name_of(at)): int(one.labels[at]) for at in range(len(one))}, truth, "labels")

    return read


def frames(d: Draw) -> Callable[[], None]:
    """Folders of frames, by folder or by a list; frames are numbered without zeros."""
    listed = d.pick(False, True)
    ending = d.pick(".png", ".PNG", ".bmp")
    pattern = d.pick("{}", "frame_{}", "f ({})", "{:05d}")
    truth, lines = {}, []
    for at in range(10):
        name, count = ("wave", "bow")[at % 2], d.rng.randrange(9, 13)
        clip = f"{name}/{d.rng.choice(STEMS[:4]) if d.rng.random() < 0.4 else 'c'}{at}"
        for frame in range(count):
            d.picture(f"{clip}/{pattern.format(frame + d.rng.choice((0,)))}{ending}", 18 * frame, (8, 8 + at))
        truth[clip.rpartition("/")[2]] = (name, count)
        lines.append(f"{clip} {count} {at % 2}")
    if listed:
        d.text("list.txt", "\n".join(lines))
    root = d.finish()

    def read() -> None:
        names = ["wave", "bow"]
        sets = [FrameFolders(root, "list.txt", names)] if listed else parts(lambda part: ClipFolder(root, part))
        found = {}
        for one in sets:
            for at in range(len(one)):
                pixels = one.frames(at, lambda total: np.arange(total))
                values = [round(float(np.median(frame)) / 18) for frame in pixels]
                clip = one.name_of(at).rpartition("/")[2]
                assert values == list(range(len(values))), f"{clip}: frames in the order {values}"
                found[clip] = (one.class_names[one.labels[at]], len(values))
        compare(found, truth, "clips")

    return read
