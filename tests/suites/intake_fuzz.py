"""Draws small data sets of all formats with oddities of strangers' files, each with its truth, and reads them back.

`python -m tests.suites.intake_fuzz --seeds 3000` reads that many and names what was read otherwise.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import traceback
import unicodedata
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from framework.errors import PaddockError
from suites.classification.datasets import ImageList, PhotoFolder
from suites.ctr.datasets import ClickLog
from suites.ctr.guess import guess_schema
from suites.ctr.schema import schema_of
from suites.detection.datasets.folder import DetectionFolder
from suites.engine.config.yaml_text import parse_text
from suites.nlp.datasets import CharTags, Texts
from suites.segmentation.datasets import SegmentationFolder
from suites.video.datasets import ClipFolder, FrameFolders

STEMS = ("a b", "a,b", "50%", "x (1)", "café", "日本", "o'b", "img_", "IMG-", "p.q", "&amp", "#n", "a+b", "Ünï", "v=1")
ENDINGS = (".jpg", ".JPG", ".jpeg", ".jfif", ".png", ".PNG", ".bmp")
CLUTTER = (
    *(".DS_Store", "Thumbs.db", "desktop.ini", "._0.jpg", "__MACOSX/._1.jpg", ".ipynb_checkpoints/1-checkpoint.jpg"),
    *("@eaDir/1.jpg", "sub@/Thumbs.db", ".git/config"),
)
CLASSES = ("cat", "big dog", "Vögel", "猫", "2", "10")


@dataclass
class Draw:
    """A drawn data set.

    Attributes:
        rng: draws.
        root: the folder that it is written into.
        odd: its oddities, for messages.
        wrong: it is wrong in a way that must be refused, or left out with a count.
    """

    rng: random.Random
    root: Path
    odd: list[str] = field(default_factory=list)
    wrong: bool = False

    def chance(self, share: float, odd: str) -> bool:
        """Whether an oddity is drawn."""
        if self.rng.random() < share:
            self.odd.append(odd)
            return True
        return False

    def pick(self, *options: Any) -> Any:
        """One of the options, the first half the time; the others are oddities."""
        if self.rng.random() < 0.5 or len(options) == 1:
            return options[0]
        found = self.rng.choice(options[1:])
        self.odd.append(repr(found))
        return found

    def text(self, path: str, text: str, *, wide: bool = True, ends: bool = True) -> None:
        """Writes a text in a drawn encoding with drawn ends of lines."""
        end = self.pick("\n", "\r\n", "\r") if ends else "\n"
        encodings = ("utf-8", "utf-8-sig", "utf-16", "utf-16-be") if wide else ("utf-8", "utf-8-sig")
        encoding = self.pick(*encodings)
        data = text.replace("\n", end).encode("utf-16-be" if encoding == "utf-16-be" else encoding)
        self.put(path, b"\xfe\xff" + data if encoding == "utf-16-be" else data)

    def put(self, path: str, data: bytes) -> None:
        """Writes a file."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)

    def stem(self, number: int) -> str:
        """A name, unique by its number."""
        name = f"{self.rng.choice(STEMS)}{number}" if self.odd_names else f"photo{number}"
        return unicodedata.normalize(self.form, name)

    odd_names: bool = False
    form: Any = "NFC"

    def picture(self, path: str, value: int, size: tuple[int, int]) -> None:
        """Writes a picture whose mean says its number."""
        pixels = np.full((*size, 3), value, np.uint8)
        pixels[:: 1 + value % 7, :: 1 + value % 5] += 3
        kind = ".png" if path.lower().endswith(".png") else ".bmp" if path.lower().endswith(".bmp") else ".jpg"
        self.put(path, cv2.imencode(kind, pixels)[1].tobytes())

    def names(self, count: int) -> list[tuple[str, str]]:
        """(stem, ending) of pictures."""
        self.odd_names = self.chance(0.5, "names")
        self.form = self.pick("NFC", "NFD") if self.odd_names else "NFC"
        other = self.chance(0.3, "endings")
        return [(self.stem(at), self.rng.choice(ENDINGS) if other else ".jpg") for at in range(count)]

    def finish(self) -> str:
        """Adds clutter, packs; returns the root to read."""
        if self.chance(0.4, "clutter"):
            for name in self.rng.sample(CLUTTER, 3):
                self.put(name, b"\0\1clutter")
        kind = self.pick("folder", "zip", "zip with backslashes", "link loop")
        if kind == "link loop":
            (self.root / "loop").symlink_to(self.root, target_is_directory=True)
        if not kind.startswith("zip"):
            return str(self.root)
        archive = self.root.parent / f"{self.root.name}.zip"
        with zipfile.ZipFile(archive, "w") as packed:
            for path in sorted(self.root.rglob("*")):
                if path.is_file():
                    name = path.relative_to(self.root).as_posix()
                    info = zipfile.ZipInfo(name)
                    if "back" in kind:
                        info.filename = name.replace("/", "\\")
                    packed.writestr(info, path.read_bytes())
        return str(archive)


def key_of(name: str) -> str:
    """What names a picture in a truth: its file's name without ending, composed."""
    return unicodedata.normalize("NFC", re.sub(r"\.[A-Za-z]+$", "", name.rpartition("/")[2]))


def parts(make: Callable[[str], Any]) -> list[Any]:
    """Both parts of a set."""
    return [make(part) for part in ("train", "val")]


def compare(found: Any, truth: Any, what: str) -> None:
    """Raises AssertionError with both where they differ."""
    assert found == truth, f"{what}: read {str(found)[:600]}, truth {str(truth)[:600]}"


# Detection ---------------------------------------------------------------------------------------------------------
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


# Texts and tables ----------------------------------------------------------------------------------------------------
WORDS = ("good", "bad", "film", "été", "猫", "it's", "50%", "a;b", "x|y", "so-so", "(really)", "naïve", "1,5", "C#")


def sentence(d: Draw, at: int) -> str:
    """A text of several words, unique by its number."""
    return " ".join([*d.rng.choices(WORDS, k=d.rng.randrange(4, 9)), f"n{at}"])


def quoted(cell: str, mark: str, always: bool) -> str:
    """A cell as RFC 4180 writes it."""
    needs = always or any(c in cell for c in (mark, '"', "\n", "\r"))
    return '"' + cell.replace('"', '""') + '"' if needs else cell


def texts(d: Draw) -> Callable[[], None]:
    """Labelled texts as CSV, TSV or JSON lines."""
    kind = d.pick("csv", "tsv", "jsonl", "json", "semicolon")
    labels = d.pick(("pos", "neg"), ("1", "0"), ("très bien", "mal"), ("1.0", "2.0", "3.0"))
    rows = [(sentence(d, at), labels[at % len(labels)]) for at in range(d.rng.randrange(20, 40))]
    if kind.startswith("json"):
        ascii_ = bool(d.pick(True, False))
        objects = [json.dumps({"text": a, "label": b}, ensure_ascii=ascii_) for a, b in rows]
        if kind == "jsonl":
            d.text("a.jsonl", "\n".join(objects))
        else:
            d.text("a.json", "[" + ",\n".join(objects) + "]")
        path = "a.jsonl" if kind == "jsonl" else "a.json"
    else:
        path = tables(d, kind, rows)
    whole = str(d.root / path)

    def read() -> None:
        sets = parts(lambda part: Texts(whole, part, max_skipped=0))
        compare(sorted((e.text, e.label) for one in sets for e in one.examples), sorted(rows), "rows")

    return read


def tables(d: Draw, kind: str, rows: list[tuple[str, str]]) -> str:
    """Writes rows as a table; returns its name."""
    mark = {"csv": ",", "tsv": "\t", "semicolon": ";"}[kind]
    always = bool(d.pick(False, True))
    index, header = d.pick(False, True), d.pick(True, False)
    names = [d.pick("text", "Review", "sentence"), d.pick("label", "Sentiment")]
    multiline = kind != "tsv" and d.chance(0.2, "ends of lines in cells")
    twice = header and d.chance(0.15, "repeated column")
    lost = d.chance(0.1, "missing label")
    d.wrong = d.wrong or lost
    lines = []
    for at, (text, label) in enumerate(rows):
        if multiline and at % 5 == 0:
            rows[at] = (text.replace(" ", "\n", 1), label)
        known = d.rng.choice(("", "NaN", "#N/A", "<NA>")) if lost and at == 3 else label
        cells = [quoted(rows[at][0], mark, always), quoted(known, mark, False), *(["x", str(at)] if twice else [])]
        lines.append(mark.join([*([str(at)] if index else []), *cells]))
    if header:
        first = [d.pick("", "Unnamed: 0")] if index else []
        lines.insert(0, mark.join([*first, *names, *(["note", "note"] if twice else [])]))
    if kind == "semicolon" and d.chance(0.4, "sep="):
        lines.insert(0, "sep=;")
    name = "a.tsv" if kind == "tsv" else "a.csv"
    d.text(name, "\n".join(lines) + d.pick("\n", "", "\n\n"))
    return name


def stray(d: Draw) -> Callable[[], None]:
    """A TSV as it stands, with quotes in its texts."""
    rows = [(sentence(d, at), "pos" if at % 2 else "neg") for at in range(24)]
    for at in d.rng.sample(range(24), 5):
        text, label = rows[at]
        rows[at] = (d.rng.choice((f'"{text}', f'{text}"', f'say "{text}', f'a "b" {text}')), label)
    d.text("a.tsv", "\n".join(["text\tlabel", *(f"{a}\t{b}" for a, b in rows)]))
    whole = str(d.root / "a.tsv")

    def read() -> None:
        sets = parts(lambda part: Texts(whole, part, max_skipped=0))
        compare(sorted((e.text, e.label) for one in sets for e in one.examples), sorted(rows), "rows")

    return read


def tags(d: Draw) -> Callable[[], None]:
    """CoNLL files of 2, 4 or 10 columns in four forms of tags."""
    form, columns = d.pick("BIO", "IOB1", "BIOES", "BILOU"), d.pick(2, 4, 10)
    mark = d.pick("\t", " ") if columns != 10 else "\t"
    lines: list[str] = ["-DOCSTART- -X- O O", ""] if columns == 4 and d.chance(0.4, "docstart") else []
    truth = []
    for _ in range(d.rng.randrange(8, 14)):
        words, spans = [], []
        while len(words) < 6:
            length = d.rng.choice((0, 0, 1, 2, 3))
            words += [d.rng.choice(("Ann", "saw", "Zoë", "#tag", "東京", "it's", "50%")) for _ in range(max(1, length))]
            spans.append((max(1, length), d.rng.choice(("PER", "LOC")) if length else None))
        written = list(tagged(spans, form))
        truth.append((tuple(words), tuple(tagged(spans, "BIOES" if form in ("BIOES", "BILOU") else "BIO"))))
        if columns == 10 and d.chance(0.3, "remarks"):
            lines.append("# text = some words")
        for at, (word, tag) in enumerate(zip(words, written, strict=True)):
            cells = {
                2: [word, tag],
                4: [word, "NNP", "I-NP" if at else "B-NP", tag],
                10: [str(at + 1), word, word.lower(), "NOUN", "NN", "_", str(at), "root", "_", tag],
            }[columns]
            lines.append(mark.join(cells))
        lines += [""] * d.rng.choice((1, 1, 2))
    d.text("a.conll", "\n".join(lines))

    def read() -> None:
        one = CharTags(str(d.root / "a.conll"), max_skipped=0)
        compare([(e.words, e.tags) for e in one.examples], truth, "sentences")

    return read


def tagged(spans: list[tuple[int, str | None]], form: str) -> list[str]:
    """Tags of spans in a form."""
    found: list[str] = []
    before = None
    for length, kind in spans:
        if kind is None:
            found += ["O"] * length
        elif form == "IOB1":
            found += [f"{'B' if before == kind else 'I'}-{kind}", *[f"I-{kind}"] * (length - 1)]
        elif form == "BIO":
            found += [f"B-{kind}", *[f"I-{kind}"] * (length - 1)]
        else:
            single, last = ("S", "E") if form == "BIOES" else ("U", "L")
            found += (
                [f"{single}-{kind}"] if length == 1 else [f"B-{kind}", *[f"I-{kind}"] * (length - 2), f"{last}-{kind}"]
            )
        before = kind
    return found


def clicks(d: Draw) -> Callable[[], None]:
    """A click log by its guessed schema."""
    mark = d.pick(",", "\t", ";", "|")
    missing = d.pick("", "NA", "NaN", "NULL", "#N/A", "n/a", "<NA>")
    index = d.pick(False, True)
    spaces = d.pick("", " ")
    rows = [
        (
            d.rng.randrange(2),
            f"u{d.rng.randrange(9)}",
            d.rng.choice(("été", "日本", "a b", "50%", "x")),
            d.rng.random() * 9,
        )
        for _ in range(80)
    ]
    lines, prices = [], []
    for at, (click, user, word, price) in enumerate(rows):
        lost = at % 17 == 5
        prices.append(None if lost else round(price, 3))
        cells = [str(click), user, quoted(word, mark, bool(d.rng.random() < 0.2)), missing if lost else f"{price:.3f}"]
        lines.append((mark + spaces).join([*([str(at)] if index else []), *cells]))
    names = ["click", "member", "word", "price"]
    lines.insert(0, mark.join([*([d.pick("", "Unnamed: 0")] if index else []), *names]))
    if mark == ";" and d.chance(0.4, "sep="):
        lines.insert(0, "sep=;")
    d.text("log.csv", "\n".join(lines) + d.pick("\n", ""))
    path = d.root / "log.csv"

    def read() -> None:
        schema = schema_of(parse_text(guess_schema(path), "guessed").plain())
        compare(list(schema.labels), ["click"], "label")
        compare(sorted(schema.features), ["member", "price", "word"], "features")
        log = ClickLog(schema, str(path), [], max_skipped=0)
        compare(len(log.clicks), len(rows), "rows")
        compare(log.clicks.labels[:, 0].astype(int).tolist(), [row[0] for row in rows], "clicks")
        dense = log.clicks.dense[:, 0].tolist()
        for at, (value, known) in enumerate(zip(dense, prices, strict=True)):
            assert known is None or abs(value - known) < 1e-3, f"price of row {at}: read {value}, truth {known}"
        signs = {row[2]: set() for row in rows}
        place = schema.sparse().index("word")
        for at, row in enumerate(rows):
            signs[row[2]].add(int(log.clicks.sparse[at, place]))
        assert all(len(each) == 1 for each in signs.values()), f"a word has several signs: {signs}"
        assert len(set.union(*signs.values())) == len(signs), f"words share a sign: {signs}"

    return read


FINE = {"right", "refused"}
KINDS = (voc, coco, yolo, labelme, pairs, folders, lists, frames, texts, stray, tags, clicks)


def run(seed: int, folder: Path) -> tuple[str, str]:
    """What became of a set, which is one of `FINE` or a fault, and what was drawn."""
    rng = random.Random(seed)
    make = KINDS[seed % len(KINDS)]
    root = folder / f"set {seed}" if rng.random() < 0.3 else folder / f"set{seed}"
    root.mkdir()
    draw = Draw(rng, root)
    read = make(draw)
    said = f"seed {seed} {make.__name__} {', '.join(dict.fromkeys(draw.odd))}"
    try:
        read()
        assert not draw.wrong, "what is wrong was read without a word"
    except PaddockError as error:
        named = root.name in str(error) or "a." in str(error)
        result = "refused" if draw.wrong else "refused though right"
        return (result if named else "refused without a name"), f"{said}: {error}"
    except AssertionError as error:
        return "differs", f"{said}: {error}"
    except Exception:
        return "crashed", f"{said}: {traceback.format_exc(limit=-4)}"
    return "right", said


def main() -> int:
    """Read sets of many seeds and say what was not right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", help="only this kind")
    arguments = parser.parse_args()
    counts: dict[str, int] = {}
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        if arguments.kind and KINDS[seed % len(KINDS)].__name__ != arguments.kind:
            continue
        with tempfile.TemporaryDirectory() as folder:
            result, said = run(seed, Path(folder))
        counts[result] = counts.get(result, 0) + 1
        if result not in FINE:
            print(f"{result}: {said}", flush=True)
    print(counts)
    return int(bool(counts.keys() - FINE))


if __name__ == "__main__":
    sys.exit(main())
