"""What stands around the networks when they draw: seeds or pictures in, pictures out."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from framework.errors import CheckpointError, DataError
from suites.engine.config import build_value, plain
from suites.engine.contract.batch import Batch
from suites.engine.contract.processor import Processor, ServedProcessor
from suites.engine.names import did_you_mean, listing
from suites.generation.sample import Picture, collate, to_picture
from suites.vision.augmentation.pipeline import Transform
from suites.vision.drawing import enlarged
from suites.vision.pictures.images import encode_image
from suites.vision.processor import ImageItems

_WORD = re.compile(r"(\d+)(?:-(\d+))?(?::(.+))?")
_MOST_SEEDS = 10_000  # of one word
_LARGEST = 2**63 - 1


class Wish(NamedTuple):
    """A picture to be drawn from noise.

    Attributes:
        seed: of the noise; the same seed gives the same picture.
        label: its class; 0 where there are none.
    """

    seed: int
    label: int = 0


class GenerationProcessor(Processor):
    """Base: tells from the metadata of a run which of the two it is."""

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> Processor:
        """The processor that `metadata` describes; CheckpointError where a key is missing."""
        given = dict(metadata)
        kinds = {"noise": NoiseProcessor, "picture": TranslationProcessor}
        kind = kinds.get(given.pop("kind", ""))
        if kind is None:
            raise CheckpointError("GenerationProcessor: the metadata of the model say neither 'noise' nor 'picture'")
        try:
            if kind is TranslationProcessor:
                given["transforms"] = build_value(given["transforms"], list[Transform], suite="generation")
            return kind(**given)
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{kind.__name__}: the metadata of the model do not fit: {error}") from error


class _Drawn(ServedProcessor):
    """Results are pictures, uint8 [H, W, 3] under `made`."""

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[dict[str, Any]]:
        """`made` of each, and `back` where there is a way back."""
        names = [name for name in ("made", "back") if name in outputs]
        pictures = {name: to_picture(outputs[name]) for name in names}
        return [{name: pictures[name][at] for name in names} for at in range(len(pictures["made"]))]

    def summary(self, result: dict[str, Any]) -> dict[str, int]:
        """Its size; the picture itself is a file."""
        return {"height": result["made"].shape[0], "width": result["made"].shape[1]}

    def files(self, result: dict[str, Any]) -> dict[str, bytes]:
        """The drawn picture alone, as a file without loss."""
        return {".png": encode_image(result["made"], ".png")}

    def served(self, result: dict[str, Any]) -> dict[str, Any]:
        """Size, and the picture as base64 text of a PNG file."""
        return {**self.summary(result), "png": base64.b64encode(encode_image(result["made"], ".png")).decode()}

    def picture(self, drawing: np.ndarray, ending: str) -> bytes:
        """A drawing as a picture file."""
        return encode_image(drawing, ending)


class NoiseProcessor(_Drawn, GenerationProcessor):
    """Seeds to pictures. On a command line `7` is a seed, `0-15` are sixteen, `7:rose` asks for a class.

    Without a class, seed s draws class s modulo K.

    Args:
        noise: extents of the noise of one picture.
        class_names: K names; one of a model that knows none.
    """

    batch_size: ClassVar[int] = 16

    def __init__(self, noise: Sequence[int], class_names: Sequence[str]) -> None:
        self._noise, self._names = tuple(noise), tuple(class_names)

    def metadata(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {"kind": "noise", "noise": list(self._noise), "class_names": list(self._names)}

    def inputs(self, word: str) -> Iterable[tuple[str, Callable[[], Wish]]]:
        """(name, what gives it) of each seed of a word such as `7`, `0-15` or `0-15:rose`; DataError for another."""
        found = _WORD.fullmatch(word)
        if found is None:
            raise DataError(f"'{word}' is no seed; this model draws from noise: give 7, 0-15 or 7:CLASS")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first or last - first >= _MOST_SEEDS:
            raise DataError(f"'{word}' must go upwards, over at most {_MOST_SEEDS:,} seeds")
        wishes = [self.wish(seed, found[3]) for seed in range(first, last + 1)]
        return [(self.name_of(wish), partial(_same, wish)) for wish in wishes]

    def wish(self, seed: int, name: str | None = None) -> Wish:
        """A seed with a class by name, or that of the seed; DataError for one that there is not."""
        if not 0 <= seed <= _LARGEST:
            raise DataError(f"the seed {seed} is outside of 0 to 2^63 - 1")
        if name is None:
            return Wish(seed, seed % len(self._names))
        if name not in self._names or len(self._names) == 1:
            known = listing(self._names) if len(self._names) > 1 else "it knows no classes"
            raise DataError(f"there is no class '{name}'{did_you_mean(name, self._names)} The model's: {known}")
        return Wish(seed, self._names.index(name))

    def name_of(self, wish: Wish) -> str:
        """What files of it are called."""
        return f"seed_{wish.seed:06d}" + (f"_{self._names[wish.label]}" if len(self._names) > 1 else "") + ".png"

    def read(self, path: Path) -> Wish:
        """A seed by itself."""
        return next(iter(self.inputs(str(path))))[1]()

    def prepare(self, items: Sequence[Wish]) -> Batch:
        """`noise` [N, ...] and `targets` [N]."""
        return {
            "noise": np.stack([noise_of(wish.seed, self._noise) for wish in items]),
            "targets": np.array([wish.label for wish in items], np.int64),
        }

    def draw(self, item: Wish, result: dict[str, Any]) -> np.ndarray:
        """The picture, enlarged where it is small."""
        return enlarged(result["made"])[0]

    def item(self, given: Any) -> Wish:
        """A wish, or what a request may have."""
        if isinstance(given, Wish):
            return given
        return self.from_json(int(given) if isinstance(given, np.integer) else given)

    def from_json(self, value: Any) -> Wish:
        """A seed, or {"seed": 7, "class": "rose"}; DataError for anything else."""
        given = value if isinstance(value, dict) else {"seed": value}
        seed, name = given.get("seed"), given.get("class")
        if isinstance(seed, bool) or not isinstance(seed, int) or set(given) - {"seed", "class"}:
            raise DataError('takes a seed, such as 7, or {"seed": 7, "class": "NAME"}')
        if name is not None and not isinstance(name, str):
            raise DataError(f"the class is {type(name).__name__}; it must be a name")
        return self.wish(seed, name)

    def is_quick(self, value: Any, length: int) -> bool:
        """Always: it is one number."""
        return True

    def example(self) -> int:
        """Seed 0."""
        return 0


class TranslationProcessor(ImageItems, _Drawn, GenerationProcessor):
    """Pictures to what becomes of them; where the model knows classes, one of each class.

    Args:
        transforms: those of evaluation.
        class_names: K names of the classes that can be drawn; one of a model that knows none.
    """

    def __init__(self, transforms: Sequence[Transform], class_names: Sequence[str]) -> None:
        self._transforms, self._names = list(transforms), tuple(class_names)

    def metadata(self) -> dict[str, Any]:
        """The arguments of the constructor, transforms as configs write them."""
        transforms = plain(self._transforms, suite="generation")
        return {"kind": "picture", "transforms": transforms, "class_names": list(self._names)}

    def prepare(self, items: Sequence[np.ndarray]) -> Batch:
        """`images` [N K, H, W, 3] exactly as in evaluation, each K times, and `targets` [N K], each class once."""
        rng, count = np.random.default_rng(0), len(self._names)
        samples = [Picture(image=item, name=f"input {number}") for number, item in enumerate(items)]
        for transform in self._transforms:
            samples = [transform(sample, rng) for sample in samples]
        images = np.repeat(collate(samples)["images"], count, axis=0)
        return {"images": images, "targets": np.tile(np.arange(count, dtype=np.int64), len(items))}

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[dict[str, Any]]:
        """`made` of each, side by side where there are classes, and `back` where there is a way back."""
        drawn, count = super().results(outputs, batch), len(self._names)
        if count == 1:
            return drawn
        rows = [[each["made"] for each in drawn[at : at + count]] for at in range(0, len(drawn), count)]
        return [{"made": np.concatenate(row, axis=1), "each": dict(zip(self._names, row, strict=True))} for row in rows]

    def summary(self, result: dict[str, Any]) -> dict[str, Any]:
        """Its size, and the classes from left to right; the picture itself is a file."""
        return {**_Drawn.summary(self, result), **({"classes": list(result["each"])} if "each" in result else {})}

    def files(self, result: dict[str, Any]) -> dict[str, bytes]:
        """The drawn picture alone, or those of the classes side by side, as a file without loss."""
        return _Drawn.files(self, result)

    def draw(self, item: np.ndarray, result: dict[str, Any]) -> np.ndarray:
        """The given picture as the network sees it, what became of it, and of that again, side by side."""
        given = self.prepare([item])["images"][0]
        back = [result["back"]] if "back" in result else []
        return enlarged(np.concatenate([to_picture(given), result["made"], *back], axis=1))[0]


def noise_of(seed: int, extents: Sequence[int]) -> np.ndarray:
    """Normal noise of a seed, float32 [*extents]; of Philox, so that it is the same everywhere."""
    rng = np.random.Generator(np.random.Philox(key=seed))
    return rng.standard_normal(tuple(extents), np.float32)


def _same(wish: Wish) -> Wish:
    return wish
