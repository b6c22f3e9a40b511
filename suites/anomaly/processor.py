"""What stands around a model of good pictures when it predicts: pictures to scores, heat maps and boxes of defects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import cv2
import numpy as np

from suites.anomaly.sample import Inspectable, collate
from suites.engine.contract.batch import Batch
from suites.vision.drawing import enlarged, put_below, stroke
from suites.vision.geometry import Placement
from suites.vision.processor import ImageProcessor

_RED, _GREEN = (200, 0, 0), (0, 130, 0)
_HOT = 2.0  # the number of the heat map, in thresholds, that is drawn hottest


class AnomalyProcessor(ImageProcessor):
    """Pictures to `score` and heat map, in which 1 is the threshold, and `regions` that are above it.

    Args:
        transforms: those of evaluation.
        class_names: "good" and "defect".
    """

    suite: ClassVar[str] = "anomaly"

    def sample_of(self, item: np.ndarray, number: int) -> Inspectable:
        """A picture [H, W, 3] of which nothing is known."""
        size = item.shape[:2]
        return Inspectable(
            image=item, mask=np.zeros(size, np.uint8), number=number, name=f"input {number}", original=size
        )

    def collate(self, samples: Sequence[Inspectable]) -> Batch:
        """The batch."""
        return collate(samples)

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[dict[str, Any]]:
        """For each picture `score`, `defect`, `regions` (boxes in its pixels, with their peaks), `heat` [H, W]."""
        found = []
        rows = zip(outputs["scores"], outputs["maps"], batch["placements"], batch["originals"], strict=True)
        for score, heat, placement, original in rows:
            where = Placement(*placement.tolist())
            found.append({
                "score": round(float(score), 6), "defect": bool(score > 1),
                "regions": _regions(heat, where, (int(original[0]), int(original[1]))),
                "heat": np.array(heat, np.float32), "placement": where,
            })  # fmt: skip
        return found

    def summary(self, result: dict[str, Any]) -> dict[str, Any]:
        """Score, whether it is a defect, and regions."""
        return {name: result[name] for name in ("score", "defect", "regions")}

    def lines(self, result: dict[str, Any]) -> list[str]:
        """The verdict, and each region."""
        regions = [f"  {region['box']} up to {region['peak']:.3f}" for region in result["regions"]]
        return [f"{_verdict(result)}", *regions]

    def draw(self, item: np.ndarray, result: dict[str, Any]) -> np.ndarray:
        """The picture under its heat map, with lines around what is above the threshold."""
        canvas, factor = enlarged(item)
        heat = _on_picture(result["heat"], result["placement"], canvas.shape[:2], factor)
        level = np.clip(heat / _HOT, 0, 1)
        colours = cv2.applyColorMap((level * 255).astype(np.uint8), cv2.COLORMAP_JET)[..., ::-1]
        weight = (0.6 * level)[..., None]
        drawn = np.ascontiguousarray((canvas * (1 - weight) + colours * weight).astype(np.uint8))
        outlines, _ = cv2.findContours((heat > 1).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(drawn, outlines, -1, (255, 255, 255), stroke(canvas)[1])
        return put_below(drawn, [(_verdict(result), _RED if result["defect"] else _GREEN)])


def _verdict(result: dict[str, Any]) -> str:
    return f"{'defect' if result['defect'] else 'good'}, score {result['score']:.3f} (1 is the threshold)"


def _on_picture(heat: np.ndarray, placement: Placement, size: tuple[int, int], factor: int) -> np.ndarray:
    """The heat map over a picture of `size` (H, W), which is `factor` times the original."""
    ax, ay, bx, by = placement
    # Centres of pixels: column i of the picture is at (i + 1/2) / factor of the original.
    matrix = np.array([
        [ax / factor, 0, ax * 0.5 / factor + bx - 0.5],
        [0, ay / factor, ay * 0.5 / factor + by - 0.5],
    ])  # fmt: skip
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return cv2.warpAffine(heat, matrix, size[::-1], flags=flags, borderMode=cv2.BORDER_REPLICATE)


def _regions(heat: np.ndarray, placement: Placement, original: tuple[int, int]) -> list[dict[str, Any]]:
    """What is above the threshold and hangs together, the hottest first: `box` in the original's pixels, `peak`."""
    count, parts, stats, _ = cv2.connectedComponentsWithStats((heat > 1).astype(np.uint8), connectivity=8)
    found = []
    for number in range(1, count):
        x, y, width, height = stats[number, :4].tolist()
        box = placement.inverse().boxes(np.array([[x, y, x + width, y + height]], np.float32))[0]
        limits = [original[1], original[0]] * 2
        peak = float(heat[parts == number].max())
        clipped = [round(min(max(float(at), 0.0), most), 2) for at, most in zip(box, limits, strict=True)]
        found.append({"box": clipped, "peak": round(peak, 4)})
    return sorted(found, key=lambda region: -region["peak"])
