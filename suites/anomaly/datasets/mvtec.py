"""MvtecFolder: a category of MVTec AD, or own pictures in its layout.

Bergmann et al. 2019, "MVTec AD", https://www.mvtec.com/company/research/datasets/mvtec-ad.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from suites.anomaly.datasets.base import FINE, GOOD, AnomalyFiles, Row, matched
from suites.engine.contract.recognising import Recognised, recogniser
from suites.engine.data.skipping import SetError
from suites.engine.data.sources import open_set
from suites.engine.registry import register
from suites.vision.files import pictures_below

_PARTS = ("train", "test")


@register("dataset")
class MvtecFolder(AnomalyFiles):
    """`train/good/*`, `test/good/*`, `test/KIND/*`, and masks `ground_truth/KIND/NAME_mask.png`.

    Args:
        root: the folder of a category, such as `bottle`, or a zip of it.
        part: "train" for the good pictures to learn from, "test" for the others.

    Raises:
        SetError: there are no pictures; good ones of the test are called otherwise; some kinds have masks and some have
            none; a picture has no mask of its name, or a mask no picture.
    """

    def __init__(self, root: str, part: Literal["train", "test"] = "train") -> None:
        source, what = open_set(root, holding=_PARTS), f"MvtecFolder {root} {part}"
        if not source.folders(part):
            raise SetError(f"{what}: there is no folder {part}/{GOOD}; root is the folder of one category")
        kinds = [GOOD] if part == "train" else source.folders(part)
        if fine := [kind for kind in kinds if kind != GOOD and kind.lower() in FINE]:
            raise SetError(f"{what}: test/{fine[0]} would be a kind of defect; call the folder of good pictures {GOOD}")
        known = source.folders("ground_truth") if part == "test" else []
        rows: list[Row] = []
        unmasked: list[str] = []
        for kind in kinds:
            folder, truth = f"{part}/{kind}", f"ground_truth/{kind}"
            pictures = pictures_below(source, folder)
            masks: list[str | None] = [None] * len(pictures)
            if kind in known:
                masks = [*matched(what, pictures, pictures_below(source, truth), (folder, truth))]
            elif kind != GOOD and pictures:
                unmasked.append(kind)
            rows += [Row(f"{folder}/{picture}", kind, mask) for picture, mask in zip(pictures, masks, strict=True)]
        if without := sorted(set(known) - set(kinds)):
            raise SetError(f"{what}: ground_truth has masks of {', '.join(without)}, of which test has no pictures")
        if unmasked and any(row.mask for row in rows):
            raise SetError(f"{what}: there are no masks of {', '.join(unmasked)}, but of other kinds there are")
        super().__init__(what, source, rows)


@register("recogniser", "anomaly")
@recogniser()
def recognise(path: Path) -> Recognised | None:
    """What a folder or zip in MVTec AD's layout is, and the command that learns its good pictures."""
    source = open_set(path, holding=_PARTS)
    kinds = source.folders("test")
    if source.folders("train") != [GOOD] or not kinds or set(kinds) == {GOOD}:
        return None
    good, shown = (len(pictures_below(source, folder)) for folder in (f"train/{GOOD}", "test"))
    masks = "with masks" if source.folders("ground_truth") else "without masks"
    what = f"{good} good pictures to learn from, {shown} to judge by in {len(kinds)} kinds, {masks}"
    return Recognised(what, "anomaly/patchcore", (f"data.root={path}",), 97)
