"""A few drawn samples in the format and at the paths of any shipped config, and the config for a short run on them.

`WRITERS` has a function for each type of data set. It takes the arguments that the config gives the data set, and the
number of classes, and writes files below the working folder.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from suites.engine.config import load_config
from suites.segmentation.datasets.cityscapes import CLASSES as CITYSCAPES
from suites.segmentation.labels import encode_labels
from suites.video.features import FeatureWriter
from suites.vision.pictures.images import write_image
from suites.vision.pose import COCO_PERSON
from tests.configs.texts import (
    COUNT,
    WORDS,
    Arguments,
    char_tags,
    dialogues,
    documents,
    json_lines,
    knowledge_dialogues,
    lines,
    parallel,
    prose,
    rng_of,
    squad,
    tagged_tsv,
    texts,
    tsv,
    words_of,
    write,
)
from tests.suites.detection.datasets.helpers import voc_xml
from tests.suites.video.helpers import write_video
from tests.suites.video.test_youtube8m import example, record

HEIGHT, WIDTH = 64, 96  # of pictures
SIDE = 96  # what transforms make of them
CLASSES = 3  # where the config leaves the number to the data
BOXES = ((8, 6, 56, 46), (40, 20, 88, 60))
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def picture(path: Path, size: tuple[int, int] = (HEIGHT, WIDTH)) -> None:
    """An image of coloured blocks."""
    height, width = size
    blocks = rng_of(path.name).integers(0, 256, (height // 8, width // 8, 3), np.uint8)
    write_image(path, blocks.repeat(8, 0).repeat(8, 1))


def part_of(arguments: Arguments) -> str:
    return str(arguments.get("split") or arguments.get("part"))


def names_of(arguments: Arguments, count: int = COUNT) -> list[str]:
    return [f"{part_of(arguments)}{number}" for number in range(count)]


# pictures in a folder for each class


def image_folder(arguments: Arguments, classes: int) -> None:
    root = Path(arguments["root"])
    for label in range(classes):
        for number in range(10 if arguments.get("holdout") or "part" in arguments else 2):
            picture(root / f"class{label:04}" / f"{label}_{number}.png")


def class_folders(arguments: Arguments, classes: int) -> None:
    for number in range(16):
        picture(Path(arguments["root"]) / f"kind{number % 4}" / f"{number}.png")


def coco(arguments: Arguments, classes: int) -> None:
    if arguments.get("first_id") == 0:  # COCO's ids begin with 1, so label 0 has no category
        classes -= 1
    part, images = Path(arguments["annotations"]).stem, []
    spots = list(arguments.get("points", ()))
    count = len(spots)
    for number in range(COUNT):
        images.append({"id": number, "file_name": f"{part}{number}.png", "height": HEIGHT, "width": WIDTH})
        picture(Path(arguments["images"]) / f"{part}{number}.png")
    objects = []
    for number in range(COUNT):
        for x1, y1, x2, y2 in BOXES:
            box = {"bbox": [x1, y1, x2 - x1, y2 - y1], "area": (x2 - x1) * (y2 - y1), "iscrowd": 0}
            outline = [x1, y1, x2, y1, x2, y2, x1, y2]
            label = 1 + len(objects) % classes
            ids = {"id": len(objects), "image_id": number, "category_id": label}
            points = [value for i in range(count) for value in (x1 + i % (x2 - x1), (y1 + y2) // 2, 2)]
            objects.append({**box, **ids, "segmentation": [outline], "keypoints": points})
    names = arguments.get("classes") or [f"class{label}" for label in range(classes)]
    categories = [{"id": 1 + label, "name": name, "keypoints": spots} for label, name in enumerate(names)]
    write(arguments["annotations"], json.dumps({"images": images, "annotations": objects, "categories": categories}))


def voc(arguments: Arguments, classes: int) -> None:
    root, names = Path(arguments["root"]), names_of(arguments)
    for number, name in enumerate(names):
        picture(root / "JPEGImages" / f"{name}.png")
        objects = [(f"class{(number + i) % classes}", box, False) for i, box in enumerate(BOXES)]
        write(root / "Annotations" / f"{name}.xml", voc_xml(objects, (HEIGHT, WIDTH), f"{name}.png"))
    lines(root / "ImageSets" / "Main" / f"{part_of(arguments)}.txt", names)
    lines(root / "classes.txt", [f"class{label}" for label in range(classes)])


def detection_folder(arguments: Arguments, classes: int) -> None:
    if not arguments.get("masks"):
        voc(arguments, classes)
        return
    place = f"{arguments['root']}/{{}}/{part_of(arguments)}"
    coco({"annotations": place.format("annotations") + ".json", "images": place.format("images")}, classes)


def wider(arguments: Arguments, classes: int) -> None:
    root, part, listed, marked = Path(arguments["root"]), part_of(arguments), [], []
    for name in names_of(arguments):
        picture(root / f"WIDER_{part}" / "images" / f"0--Parade/{name}.png")
        sizes = [(x1, y1, x2 - x1, y2 - y1) for x1, y1, x2, y2 in BOXES]
        faces = [f"{x} {y} {w} {h}" for x, y, w, h in sizes]
        listed += [f"0--Parade/{name}.png", str(len(faces)), *(f"{face} 0 0 0 0 0 0" for face in faces)]
        spots = " ".join(f"{x + 9} {y + 9 + i} 0" for i in range(5) for x, y, _, _ in sizes[:1])
        marked += [f"# 0--Parade/{name}.png", *(f"{face} {spots} 0.8" for face in faces)]
    lines(root / "wider_face_split" / f"wider_face_{part}_bbx_gt.txt", listed)
    if arguments.get("landmarks"):
        lines(arguments["landmarks"], marked)


def mvtec_folder(arguments: Arguments, classes: int) -> None:
    root = Path(arguments["root"])
    for number in range(COUNT):
        picture(root / "train" / "good" / f"{number}.png")
        picture(root / "test" / "good" / f"{number}.png")
        picture(root / "test" / "hole" / f"{number}.png")
        picture(root / "ground_truth" / "hole" / f"{number}_mask.png")


def good_bad(arguments: Arguments, classes: int) -> None:
    root = Path(arguments["root"])
    for number in range(10):
        picture(root / arguments.get("good", "good") / f"{number}.png")
    for key in ("bad", "masks"):
        folder = arguments.get(key, "bad" if key == "bad" else None)
        for number in range(COUNT if folder else 0):
            picture(root / str(folder) / f"{number}.png")


def picture_folder(arguments: Arguments, classes: int) -> None:
    root = Path(arguments["root"]) / arguments.get("folder", "")
    for number in range(COUNT):
        picture(root / (f"class{number % 2}" if arguments.get("classes") else "") / f"{number}.png")


def two_folders(arguments: Arguments, classes: int) -> None:
    for folder in (arguments.get("a", "trainA"), arguments.get("b", "trainB")):
        for number in range(COUNT):
            picture(Path(arguments["root"]) / folder / f"{number}.png")


def side_by_side(arguments: Arguments, classes: int) -> None:
    for number in range(COUNT):
        picture(Path(arguments["root"]) / arguments.get("folder", "train") / f"{number}.png", (HEIGHT, 2 * HEIGHT))


def coco_keypoints(arguments: Arguments, classes: int) -> None:
    images, rows = [], []
    for number in range(COUNT):
        picture(Path(arguments["images"]) / f"{number}.png")
        images.append({"id": number, "file_name": f"{number}.png"})
        points = [value for k in range(len(COCO_PERSON.names)) for value in (10 + 3 * k, 8 + 2 * k, 2)]
        rows.append({"id": number, "image_id": number, "category_id": 1, "bbox": [8, 6, 56, 46], "keypoints": points})
    kinds = [{"id": 1, "name": "person", "keypoints": list(COCO_PERSON.names)}]
    write(arguments["annotations"], json.dumps({"images": images, "annotations": rows, "categories": kinds}))


def point_table(arguments: Arguments, classes: int) -> None:
    root, table = Path(arguments["root"]), arguments["table"]
    names = [f"{table}{number}.png" for number in range(COUNT)]
    for name in names:
        picture(root / name)
    points = ",".join(f"{10 + k},{50 - k % 40}" for k in range(68))
    lines(root / table, [f"{name},{points}" for name in names])


def icdar_text(arguments: Arguments, classes: int) -> None:
    root, split = Path(arguments["root"]), part_of(arguments)
    for name in names_of(arguments):
        picture(root / f"{split}_images" / f"{name}.png")
        lines(root / f"{split}_gts" / f"gt_{name}.txt", ["4,4,40,4,40,16,4,16,word", "8,24,20,24,20,30,8,30,###"])


def line_list(arguments: Arguments, classes: int) -> None:
    root, listed = Path(arguments["root"]), arguments["annotations"]
    names = [f"{listed}{number}.png" for number in range(COUNT)]
    for name in names:
        picture(root / name, (16, 48))
    lines(root / listed, [f"{name}\tA{number}" for number, name in enumerate(names)])


def label_map(path: Path, ids: list[int]) -> None:
    """Blocks of these class ids."""
    blocks = rng_of(path.name, "labels").choice(ids, (HEIGHT // 8, WIDTH // 8)).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_labels(blocks.repeat(8, 0).repeat(8, 1), []))


def pairs(arguments: Arguments, classes: int) -> None:
    root = Path(arguments["root"])
    for number in range(COUNT):
        picture(root / arguments["images"] / f"{number}.png")
        label_map(root / arguments["labels"] / f"{number}.png", [*range(classes), *arguments.get("ignore_labels", [])])
    lines(root / "classes.txt", [f"class{label}" for label in range(classes)])


def segmentation_folder(arguments: Arguments, classes: int) -> None:
    for part in ("train", "val"):
        pairs({**arguments, "images": f"{part}/images", "labels": f"{part}/labels"}, classes)


def cityscapes(arguments: Arguments, classes: int) -> None:
    root, part = Path(arguments["root"]), part_of(arguments)
    for number in range(COUNT):
        name = f"ulm/ulm_{number:06}"
        picture(root / "leftImg8bit" / part / f"{name}_leftImg8bit.png")
        label_map(root / "gtFine" / part / f"{name}_gtFine_labelIds.png", [0, *(number for number, _, _ in CITYSCAPES)])


# videos


def clip_list(arguments: Arguments, classes: int, write_clip: Callable[[Path, int], str]) -> None:
    """`write_clip` writes one clip at a path and returns its line but for the label."""
    root, part = Path(arguments["root"]), Path(arguments["annotations"]).stem
    rows = [f"{write_clip(root / f'{part}{number}', number)} {number % classes}" for number in range(COUNT)]
    lines(root / arguments["annotations"], rows)
    if isinstance(arguments.get("classes"), str):
        # Names that a mirror swaps are among those of the gesture recipes.
        named = ["left", "right", "down", "up", *(f"class{label}" for label in range(4, classes))]
        lines(root / arguments["classes"], named[:classes])


def film(path: Path) -> Path:
    blocks = rng_of(path.name).integers(0, 256, (40, HEIGHT // 8, WIDTH // 8, 3), np.uint8)
    return write_video(path, blocks.repeat(8, 1).repeat(8, 2))


def video_files(arguments: Arguments, classes: int) -> None:
    clip_list(arguments, classes, lambda path, number: film(path.with_suffix(".mp4")).name)


def frame_folders(arguments: Arguments, classes: int) -> None:
    def frames(path: Path, number: int) -> str:
        for at in range(8):
            picture(path / f"{at:02}.png")
        return f"{path.name} 8"

    clip_list(arguments, classes, frames)


def clip_features(arguments: Arguments, classes: int) -> None:
    with FeatureWriter(arguments["features"], {"rgb": 320}, {"network": "drawn"}) as writer:

        def features(path: Path, number: int) -> str:
            writer.add(path.name, {"rgb": rng_of(path.name).standard_normal((6, 320)).astype(np.float32)})
            return path.name

        clip_list(arguments, classes, features)


def clip_folder(arguments: Arguments, classes: int) -> None:
    for label in range(classes):
        for number in range(10):
            film(Path(arguments["root"]) / f"class{label}" / f"{label}_{number}.mp4")


def youtube8m(arguments: Arguments, classes: int) -> None:
    path = Path(arguments["files"].replace("*", "00"))
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = (example([number, number + 7], 5, {"rgb": 1024, "audio": 128}) for number in range(COUNT))
    path.write_bytes(b"".join(record(data) for data, _ in rows))


# click logs


def click_log(arguments: Arguments, classes: int) -> None:
    schema = arguments["schema"]
    form = schema.get("format", {})
    found: dict[str, list[str]] = {}
    rng = rng_of(arguments["files"])
    for name in form.get("columns") or _columns(schema):
        found[name] = [str(value) for value in rng.integers(1, 6, ROWS)]
    for name, label in schema["labels"].items():
        yes, no = (label or {}).get("positive", ["1"])[0], "no" if (label or {}).get("positive") else "0"
        found[(label or {}).get("column", name)] = [yes if clicked else no for clicked in rng.random(ROWS) < 0.5]
    rows = [form.get("delimiter", ",").join(row) for row in zip(*found.values(), strict=True)]
    header = [] if form.get("header", True) is False else [form.get("delimiter", ",").join(found)]
    root = Path(arguments["root"])
    for path in [root] if root.suffix == ".csv" else [root / name for name in arguments["files"]]:
        lines(path, header + rows)


ROWS = 400


def _columns(schema: Arguments) -> list[str]:
    return list(dict.fromkeys(feature.get("column", name) for name, feature in schema["features"].items()))


def movielens(arguments: Arguments, classes: int) -> None:
    rng = rng_of("films")
    ratings = [(user, item, rng.integers(1, 6), 1000 + 7 * item + user) for user in range(8) for item in range(30)]
    tables = {
        "inter": (["user_id:token", "item_id:token", "rating:float", "timestamp:float"], ratings),
        "user": (
            ["user_id:token", "age:token", "gender:token", "occupation:token", "zip_code:token"],
            [(user, 20 + user, "F", "none", 1) for user in range(8)],
        ),
        "item": (
            ["item_id:token", "movie_title:token_seq", "release_year:token", "class:token_seq"],
            [(item, "film", 1990 + item % 9, "Drama War") for item in range(30)],
        ),
    }
    Path(arguments["root"]).parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(arguments["root"], "w") as wheel:
        for ending, (head, rows) in tables.items():
            text = "".join("\t".join(map(str, row)) + "\n" for row in [head, *rows])
            wheel.writestr(f"recbole/dataset_example/ml-100k/ml-100k.{ending}", text)


WRITERS: dict[str, Callable[[Arguments, int], None]] = {
    "CharTags": char_tags,
    "Cityscapes": cityscapes,
    "ClassFolders": class_folders,
    "ClickLog": click_log,
    "ClipFeatures": clip_features,
    "ClipFolder": clip_folder,
    "CocoDetection": coco,
    "DetectionFolder": detection_folder,
    "Dialogues": dialogues,
    "Digits": lambda arguments, classes: None,
    "DigitScenes": lambda arguments, classes: None,
    "Documents": documents,
    "DrawnPairs": lambda arguments, classes: None,
    "FrameFolders": frame_folders,
    "CocoKeypoints": coco_keypoints,
    "PointTable": point_table,
    "GoodBad": good_bad,
    "IcdarText": icdar_text,
    "ImageFolder": image_folder,
    "ImageLabelPairs": pairs,
    "JsonLines": json_lines,
    "KnowledgeDialogues": knowledge_dialogues,
    "LineList": line_list,
    "MovieLens100K": movielens,
    "MvtecFolder": mvtec_folder,
    "Pairs": parallel,
    "PhotoFolder": image_folder,
    "PictureFolder": picture_folder,
    "Prose": prose,
    "SegmentationFolder": segmentation_folder,
    "SideBySide": side_by_side,
    "SquadJson": squad,
    "TaggedTsv": tagged_tsv,
    "Texts": texts,
    "Tsv": tsv,
    "TwoFolders": two_folders,
    "VideoFiles": video_files,
    "VocDetection": voc,
    "WiderFace": wider,
    "YouTube8M": youtube8m,
}


def _pose_of(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """Which points a detector's head finds; none said are COCO's."""
    found: Mapping[str, Any] = (model.get("keypoint_head") or model.get("head") or {}).get("pose") or {}
    return found


def draw(name: str) -> list[str]:
    """Write samples for a shipped config below the working folder; the overrides of a run of two steps on them."""
    config = load_config(name, check=False).as_dict()
    data = config["data"]
    changes: dict[str, Any] = {"runtime.epochs": None, "runtime.steps": 2, "runtime.workers": 0}
    changes |= {
        "runtime.evaluation.every": 0,
        "runtime.evaluation.pictures": 1,
        "runtime.weights": None,
        **_drawn_words(data.get("tokenizer", {})),
    }
    classes = data.get("num_classes", CLASSES)
    if data.get("train") and data["train"]["dataset"]["type"] in ("ImageFolder", "VideoFiles") and classes > 100:
        classes = changes["data.num_classes"] = CLASSES  # each class must have a sample
    for path, part in parts_of(data):
        arguments = {"schema": data.get("schema"), **part["dataset"]}
        if arguments.get("keypoints"):
            arguments["points"] = _pose_of(config["model"]).get("names", COCO_PERSON.names)
        if arguments["schema"] in ("auto", "schema.yml"):
            write("schema.yml", yaml.safe_dump(OWN_SCHEMA))
            arguments["schema"] = OWN_SCHEMA
        WRITERS[arguments["type"]](arguments, CLASSES if classes == "auto" else classes)
        if "batch_size" in part:
            grouped = 2 * (part.get("order") or {}).get("m", 1)  # two classes, where samples of one stand together
            changes[f"{path}.batch_size"] = 64 if config["suite"] == "ctr" else grouped
        for key in ("transforms", "batch_transforms"):
            if part.get(key):
                changes[f"{path}.{key}"] = [_smaller(transform, config["model"]["type"]) for transform in part[key]]
    if config.get("problem", {}).get("scores"):
        changes["problem.scores"] = {f"class{i}": i / 2 for i in range(3)}  # of the drawn labels
    if config["suite"] == "anomaly":
        changes["model.size"] = SIDE  # as of the transforms
    if config["suite"] == "generation":
        changes |= {"model.size": min(config["model"]["size"], SIDE), "features.size": 32}
        changes["features.backbone"] = {"type": "MobileNetV2", "scale": 0.25, "out_strides": [8], "pretrained": None}
        if config["model"].get("halvings", 0) > 5:
            changes["model.halvings"] = 5  # of 96 pixels
        if config["model"].get("steps"):
            changes |= {"model.steps": 2, "model.times": 4}
        if "classes" in config["model"]:
            changes["model.classes"] = 2
    changes |= dict.fromkeys(_weights(config["model"], "model"))
    return [f"{path}={json.dumps(value)}" for path, value in changes.items()]


OWN_SCHEMA = {
    "features": {"user": {"type": "Sparse"}, "price": {"type": "Dense"}},
    "labels": {"click": {}},
}


def parts_of(data: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and section of each data set of a config."""
    for name in ("train", "eval"):
        if data.get(name):
            yield f"data.{name}", data[name]
    for name, part in data.get("more_eval", {}).items():
        yield f"data.more_eval.{name}", part


def _drawn_words(tokenizer: Mapping[str, Any]) -> dict[str, Any]:
    """Write what a tokenizer reads; the overrides that say where."""
    if tokenizer.get("model"):
        import sentencepiece

        lines("drawn/words.txt", WORDS)
        lines("drawn/text.txt", [" ".join(words_of(number)) for number in range(200)])
        more = {"vocab_size": 40, "hard_vocab_limit": False, "minloglevel": 2}
        more["user_defined_symbols"] = ["[CLS]", "[SEP]"]
        sentencepiece.SentencePieceTrainer.train(input="drawn/text.txt", model_prefix="drawn/pieces", **more)
        found = {"model": "drawn/pieces.model", "vocabulary": None, "dictionary": "drawn/words.txt"}
    elif tokenizer.get("vocabulary"):
        lines("drawn/vocab.txt", [*SPECIAL, *dict.fromkeys([*WORDS, *"王先生是经理了在北京大学"])])
        found = {"vocabulary": "drawn/vocab.txt"}
    else:
        return {}
    return {f"data.tokenizer.{key}": value for key, value in found.items()}


def _smaller(transform: Any, model: str) -> Any:
    """A transform whose pictures are small, but for networks that belong to one size."""
    found = dict(transform)
    if model in ("SSD", "MTCNN", "FaceSSD", "FacePoints", "FaceDescriptor"):
        return found
    small = {"size": SIDE, "short": SIDE, "max_long": 2 * SIDE, "sizes": [SIDE]}
    for key, value in small.items():
        if (isinstance(found.get(key), int) and found[key] > value) or isinstance(found.get(key), list):
            found[key] = value
    if isinstance(found.get("transform"), Mapping):
        found["transform"] = _smaller(found["transform"], model)
    return found


def _weights(section: Mapping[str, Any], path: str) -> Iterator[str]:
    """The keys that name files of weights, which need not be there."""
    for key, value in section.items():
        if key == "pretrained" and value:
            yield f"{path}.{key}"
        elif isinstance(value, Mapping):
            yield from _weights(value, f"{path}.{key}")
