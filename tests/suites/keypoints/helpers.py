"""Drawn people: dots at known places in a COCO file."""

import json

import numpy as np

from suites.vision.pictures.images import write_image
from suites.vision.pose import COCO_PERSON


def person(at, seen=17, **changes):
    """Annotation `at` with its points along a diagonal of its box; the first `seen` are labelled."""
    points = [v for k in range(17) for v in ((20 + 2 * k, 12 + 2 * k, 2) if k < seen else (0, 0, 0))]
    found = {"id": at, "image_id": at, "category_id": 1, "bbox": [16, 8, 44, 44], "area": 1500.0, "keypoints": points}
    return {**found, **changes}


def coco(root, rows, **category):
    """A file of these annotations, each of a picture of its own; (annotations, images)."""
    images = [{"id": at, "file_name": f"{at}.png"} for at in range(len(rows))]
    for image in images:
        pixels = np.full((64, 80, 3), 40, np.uint8)
        pixels[10:50, 18:58] = 200
        write_image(root / image["file_name"], pixels)
    kinds = [{"id": 1, "name": "person", "keypoints": list(COCO_PERSON.names), **category}]
    (root / "a.json").write_text(json.dumps({"images": images, "annotations": rows, "categories": kinds}))
    return str(root / "a.json"), str(root)
