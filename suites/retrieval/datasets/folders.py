"""ClassFolders: a folder of pictures for each class, divided by class: those of evaluation are never trained on."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from itertools import takewhile

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.engine.contract.recognising import part_of
from suites.engine.data.files import Source
from suites.engine.data.intake.dividing import Part
from suites.engine.data.intake.naming import in_order
from suites.engine.data.skipping import SetError
from suites.engine.data.sources import open_source
from suites.engine.names import listing
from suites.engine.registry import register, register_role
from suites.vision.files import pictures_below
from suites.vision.recognition.datasets import RecognitionDataset
from suites.vision.recognition.files import ImageFiles

register_role("dataset", RecognitionDataset, doc="pictures with their classes, by index")


@register("dataset")
class ClassFolders(ImageFiles):
    """Every folder that has pictures is a class, at any depth; some of the classes are for evaluation alone.

    A class is called as its folder's path, such as `Greek/character03`. Folders of parts at the top, such as `train`
    and `test`, or in the one folder that holds all, are left out of the name: what lies in `train/apple` and
    `test/apple` is one class.

    Args:
        root: the folder or zip.
        part: "train" for the classes to train on, "val" for the others.
        unseen: classes for evaluation: a share of them, the last by name; or patterns of names, such as `Korean/*`.
    """

    def __init__(self, root: str, part: Part = "train", unseen: float | list[str] = 0.5) -> None:
        source = open_source(root)
        files = _classes(source, root)
        names = in_order(files)
        held = set(_unseen(names, unseen, root))
        wanted = [name for name in names if (name in held) == (part == "val")]
        if not wanted:
            raise SetError(
                f"ClassFolders {root}: no class is left for the part '{part}': {len(held)} of {len(names)} are unseen"
            )
        counts = [len(files[name]) for name in wanted]
        if max(counts) < 2:
            raise SetError(
                f"ClassFolders {root}: each class of the part '{part}' has one picture; two of a class are needed, "
                "to find one by the other"
            )
        paths = [path for name in wanted for path in files[name]]
        labels = np.repeat(np.arange(len(wanted)), counts)
        super().__init__(f"ClassFolders {root} {part}", source, paths, labels.astype(np.int64), wanted)

    def classes_of_samples(self) -> list[np.ndarray]:
        """For each sample its class, int64 [1]."""
        return list(self.labels[:, None])


def _classes(source: Source, root: str) -> dict[str, list[str]]:
    """The pictures of each class by its name."""
    paths = pictures_below(source)
    below = [path.split("/")[:-1] for path in paths]
    # Parts lie at the top, or in the one folder in which all lies.
    top = len([*takewhile(lambda names: len({*names}) == 1, zip(*below, strict=False))])
    found: dict[str, list[str]] = {}
    for path, folders in zip(paths, below, strict=True):
        at = next((at for at, name in enumerate(folders[: top + 1]) if part_of(name)), None)
        kept = folders if at is None or at == len(folders) - 1 else [*folders[:at], *folders[at + 1 :]]
        found.setdefault("/".join(kept), []).append(path)
    loose = found.pop("", [])
    if loose:
        source.passed.note("pictures beside the folders of classes", loose[0])
    if len(found) < 2:
        raise DataError(f"ClassFolders {root}: {len(found)} folders have pictures; expected a folder for each class")
    return found


def _unseen(names: Sequence[str], unseen: float | list[str], root: str) -> list[str]:
    if isinstance(unseen, list):
        for pattern in unseen:
            if not fnmatch.filter(names, pattern):
                raise SetError(f"ClassFolders {root}: no class is like {pattern!r}; there are {listing(names)}")
        return [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in unseen)]
    if not 0 <= unseen <= 1:
        raise AttributeValueError(f"ClassFolders: unseen is {unseen}; it is a share from 0 to 1, or patterns of names")
    count = int(len(names) * unseen)
    return list(names[len(names) - count :])
