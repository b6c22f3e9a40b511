"""GoodBad: own pictures, good ones in one folder and bad ones in others."""

from __future__ import annotations

from typing import Literal

from suites.anomaly.datasets.base import FINE, GOOD, AnomalyFiles, Row, matched
from suites.engine.data.skipping import SetError
from suites.engine.data.sources import open_set
from suites.engine.registry import register
from suites.vision.files import held_out, pictures_below


@register("dataset")
class GoodBad(AnomalyFiles):
    """A folder of good pictures, and for evaluation a folder of bad ones.

    Folders below `bad` are kinds of defects. Copies of a picture never stand in both parts.

    Args:
        root: the folder or zip.
        part: "train" for good pictures to learn from; "val" for the others and the bad ones.
        good: folder of the good pictures.
        bad: folder of the bad ones; null for none.
        masks: folder of pictures that are not black where the defect is, of the bad pictures' names, with or without
            `_mask` behind them; null where nobody says.
        holdout: every how manyth good picture is for "val"; null for all.

    Raises:
        SetError: there are no pictures, a bad one has no mask of its name, or a mask no picture; a folder of good
            pictures lies among the bad ones.
    """

    def __init__(
        self,
        root: str,
        part: Literal["train", "val"] = "train",
        good: str = GOOD,
        bad: str | None = "bad",
        masks: str | None = None,
        holdout: int | None = 5,
    ) -> None:
        source, what = open_set(root, holding=[good]), f"GoodBad {root} {part}"
        pictures = [f"{good}/{name}" for name in pictures_below(source, good)]
        if not pictures:
            raise SetError(f"{what}: the folder {good} has no pictures")
        if holdout is not None:
            pictures = held_out(source, pictures, part, holdout, "GoodBad")
        rows = [Row(picture) for picture in pictures]
        if part == "val" and bad is not None:
            names = pictures_below(source, bad)
            paths = [f"{bad}/{name}" for name in names]
            kinds = [name.split("/")[0] if "/" in name else "defect" for name in names]
            fine = {*FINE, good.rpartition("/")[2].lower()}
            if kept := [kind for kind in kinds if kind.lower() in fine]:
                raise SetError(
                    f"{what}: {bad}/{kept[0]} has {kept.count(kept[0])} pictures, which would be called defects; give "
                    "`bad` a folder of bad pictures alone, or call that kind of defect otherwise"
                )
            there: list[str | None] = [None] * len(names)
            if masks is not None:
                there = [*matched(what, names, pictures_below(source, masks), (bad, masks))]
            rows += [Row(*row) for row in zip(paths, kinds, there, strict=True)]
        super().__init__(what, source, rows)
