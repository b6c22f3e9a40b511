"""Small VOC and COCO sets on disk, and a zip of any folder."""

import json
import zipfile
from pathlib import Path

import numpy as np

from suites.vision.pictures.images import write_image

SIZE = (40, 60)  # height, width


def image(seed=0, size=SIZE):
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)


def voc_xml(objects, size=SIZE, filename="x.png"):
    parts = [
        f"<object><name>{name}</name><difficult>{int(difficult)}</difficult><bndbox>"
        f"<xmin>{x1}</xmin><ymin>{y1}</ymin><xmax>{x2}</xmax><ymax>{y2}</ymax></bndbox></object>\n"
        for name, (x1, y1, x2, y2), difficult in objects
    ]
    height, width = size
    head = f"<filename>{filename}</filename><size><width>{width}</width><height>{height}</height></size>\n"
    return f"<annotation>{head}{''.join(parts)}</annotation>"


def write_voc(root: Path, images, lists=None):
    """`images` maps a stem to its objects, each (name, box, difficult)."""
    (root / "Annotations").mkdir(parents=True)
    for at, (stem, objects) in enumerate(images.items()):
        (root / "Annotations" / f"{stem}.xml").write_text(voc_xml(objects))
        write_image(root / "JPEGImages" / f"{stem}.png", image(at))
    for split, stems in (lists or {}).items():
        path = root / "ImageSets" / "Main" / f"{split}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{stem}\n" for stem in stems))
    return root


def write_coco(root: Path, annotations, *, images=2, categories=((3, "cat"), (7, "dog")), **changes):
    """`annotations` are dicts; ids, crowd and area are filled in. Images have the ids 10, 11, ..."""
    for at in range(images):
        write_image(root / "images" / f"{at}.png", image(at))
    height, width = SIZE
    document = {
        "images": [{"id": 10 + i, "file_name": f"{i}.png", "height": height, "width": width} for i in range(images)],
        "categories": [row if isinstance(row, dict) else {"id": row[0], "name": row[1]} for row in categories],
        "annotations": [{"id": i, "iscrowd": 0, **a} for i, a in enumerate(annotations)],
    } | changes
    path = root / "annotations.json"
    path.write_text(json.dumps(document, indent=1))
    return path


def zip_folder(folder: Path, archive: Path):
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                # Pictures are stored, text is deflated: both kinds of member are read.
                kind = zipfile.ZIP_STORED if path.suffix == ".png" else zipfile.ZIP_DEFLATED
                out.write(path, path.relative_to(folder).as_posix(), kind)
    return archive
