"""What a stranger's folder of texts in pictures is: lines with a list, or pages in ICDAR's form."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from framework.errors import DataError
from suites.engine.contract.recognising import Recognised, part_in, recogniser
from suites.engine.data.files import Source
from suites.engine.data.intake.dividing import EVERY
from suites.engine.data.intake.naming import ending, stem
from suites.engine.data.intake.texts import numbered_lines
from suites.engine.data.skipping import OtherKindError
from suites.engine.data.sources import open_set
from suites.engine.registry import register
from suites.vision.files import is_image, pictures_below

_LOOKED_AT = 64  # lines of a list
_PAGES = ("train_images", "train_gts", "test_images", "test_gts")


@register("recogniser", "ocr")
@recogniser()
def recognise(path: Path) -> Recognised | None:
    """What a folder or zip of texts in pictures is, and the command that trains on it."""
    source = open_set(path)
    if set(_PAGES) <= set(source.folders()):
        learnt, shown = (len(pictures_below(source, f"{part}_images")) for part in ("train", "test"))
        what = f"ICDAR: {learnt} pages to train on, {shown} to judge by"
        return Recognised(what, "ocr/dbnet_icdar2015", (f"data.root={source.root}",), 96)
    found = {name: "" for name in source.names() if ending(name) == ".txt" and _lists_lines(source, name)}
    parts = {part: name for name in reversed(found) if (part := part_in(stem(name))) is not None}
    train = parts.get("train") or next(iter(found), None)
    if train is None:
        raise OtherKindError(f"{source.root}: no list of pictures of lines (`path TAB text`)")
    held = parts.get("val") or parts.get("test")
    if held == train:
        held = None
    chosen = {"train": f"annotations={train}", "eval": f"annotations={held or train}"}
    overrides = [f"data.{part}.dataset.{said}" for part, said in chosen.items()]
    if held is None:
        for part, split in (("train", "train"), ("eval", "val")):
            overrides += [f"data.{part}.dataset.holdout={EVERY}", f"data.{part}.dataset.split={split}"]
    said = "in parts for training and evaluation" if held else "without parts, so every fifth is for evaluation"
    what = f"pictures of lines with a list of what they say ({train}), {said}"
    return Recognised(what, "ocr/svtr_lcnet_lines", (f"data.root={source.root}", *overrides), 92)


def _lists_lines(source: Source, name: str) -> bool:
    """Whether the first lines of a text are pictures that are there, each with a tab and a text that is no JSON.

    Most texts differ: where few do, they are classes.
    """
    try:
        text = source.read(name, "text_bytes")
        lines = [line for _, line in islice(numbered_lines(text, name), _LOOKED_AT) if line.strip()]
    except DataError:
        return False
    rows = [line.partition("\t") for line in lines]
    return 2 * len({said for _, _, said in rows}) > len(rows) > 0 and all(
        tab and said.strip() and not said.lstrip().startswith("[{") and is_image(file) and source.find(file) is not None
        for file, tab, said in rows
    )
