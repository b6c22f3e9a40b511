"""MTCNN: three small networks that find faces and five points each, from coarse to fine (Zhang et al. 2016,
arXiv:1604.02878), as facenet-pytorch has it.

Letters: N pictures of H = W pixels, P proposals, D detections, L = 5 points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from framework import ops, tensor
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError, NotSupportedError, ShapeError
from framework.tensors import Tensor
from suites.detection.matching import rows_of
from suites.detection.models.base import Detections, Detector, PostProcess, Targets
from suites.detection.models.faces.areas import Areas
from suites.detection.models.faces.cascade import CELL, LAST, REFINED, CascadeNet, output_net, proposal_net, refine_net
from suites.detection.models.one_stage import full_sizes
from suites.detection.models.pieces import in_pieces
from suites.engine.registry import register
from suites.engine.weights import start_from
from suites.vision.pose import FACE_POINTS

FILES = ("pnet.pt", "rnet.pt", "onet.pt")
_STRIDE = 2  # pixels from one place of the first network to the next
_AT_ONE_SCALE, _OVERLAP = 0.5, 0.7  # from which on the worse of two boxes is left out
_TOGETHER = 32  # cuts that a network looks at in one go
_A_PIXEL = np.array([0, 0, 1, 1])  # a box for what is no proposal
_ROUNDS = 16  # which settle chains of so many boxes, each on the next one


@register("detector")
class MTCNN(Detector):
    """Faces of at least `min_face` pixels with five points each, of square pictures; 0.5 million parameters.

    A small network looks at each place of smaller and smaller copies of the picture; a second one at what it proposes,
    in 24 x 24 pixels; a third one at what is left, in 48 x 48, and says where eyes, nose and corners of the mouth are.
    Cuts and copies are means over areas. It is not trained here: each of its networks learns from cuts of its own.

    Args:
        size: side of the pictures.
        min_face: the smallest face, in their pixels.
        factor: from one copy of the picture to the next smaller one.
        thresholds: how likely a face is at least, for each of the three networks.
        proposals: that the second network looks at, at most.
        candidates: that the third one looks at, at most: so many faces can be found.
        pretrained: name of published weights, or a folder with facenet-pytorch's three files; see
            docs/howto/pretrained.md.
    """

    landmarks = len(FACE_POINTS.names)
    pose = FACE_POINTS
    num_classes = 1

    def __init__(
        self,
        size: int = 640,
        min_face: int = 20,
        factor: float = 0.709,
        thresholds: tuple[float, float, float] = (0.6, 0.7, 0.7),
        proposals: int = 1000,
        candidates: int = 200,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        if not CELL <= min_face <= size or not 0 < factor < 1 or min(candidates, proposals - candidates + 1) < 1:
            raise AttributeValueError(
                f"MTCNN: size is {size}, min_face {min_face}, factor {factor}, proposals {proposals}, candidates "
                f"{candidates}; needed are {CELL} <= min_face <= size, 0 < factor < 1, 1 <= candidates <= proposals"
            )
        self.proposal, self.refine, self.output = proposal_net(), refine_net(), output_net()
        self._size, self._thresholds, self._candidates = size, thresholds, candidates
        self._scales = _scales(size, min_face, factor)
        self._proposals = proposals
        for part, file in zip((self.proposal, self.refine, self.output), FILES, strict=True):
            start_from(part, None if pretrained is None else f"{pretrained}/{file}")

    def losses(self, images: Tensor, targets: Targets) -> Mapping[str, Any]:
        """NotSupportedError: its parts learn from cuts of their own, which is not here."""
        raise NotSupportedError("MTCNN: runs on published weights and is not trained; to train, take RetinaFace")

    def forward(self, images: Tensor) -> Detections:
        """images: [N, size, size, 3]; what `detect` gives."""
        return self.detect(images)

    def detect(self, images: Tensor, sizes: Tensor | None = None) -> Detections:
        """Faces with their points; see `Detector.detect`. The images are (pixel - 127.5) / 128.

        ShapeError for images of another size.
        """
        if tuple(images.shape[1:3]) != (self._size, self._size):
            height, width = images.shape[1:3]
            raise ShapeError(f"MTCNN: images are {width}x{height}; its size is {self._size}, square")
        with no_grad():
            areas = Areas(images, (self._size, self._size))
            found, codes = self._proposed(areas)
            found, (codes,) = self._looked_at(areas, self.refine, REFINED, self._thresholds[1], _squared(found, codes))
            found, index = PostProcess(0.0, self._proposals, _OVERLAP, self._candidates).indexed(
                found.boxes, ops.expand_dims(found.scores, axis=2)
            )
            found = _squared(found, rows_of(codes, ops.maximum(index, 0)), inclusive=1.0)
            found, (codes, points) = self._looked_at(areas, self.output, LAST, self._thresholds[2], found)
            marks = _points(found.boxes, points)
            found = _apart(replace(found, boxes=_moved(found.boxes, codes, 1.0), landmarks=marks))
            sizes = full_sizes(images) if sizes is None else sizes
            return replace(found, boxes=ops.clip_boxes(found.boxes, sizes))

    def _proposed(self, areas: Areas) -> tuple[Detections, Tensor]:
        """What the first network finds in all copies, and the codes [N, P, 4] of the boxes."""
        boxes, scores, codes = [], [], []
        for scale in self._scales:
            side = int(self._size * scale + 1)
            faces, code = self.proposal(areas.resized((side, side)))
            faces, code = ops.reshape(faces, shape=(0, -1, 1)), ops.reshape(code, shape=(0, -1, 4))
            cells = _cells(side, scale)
            count = len(cells)
            choose = PostProcess(self._thresholds[0], count, _AT_ONE_SCALE, min(count, self._proposals))
            found, index = choose.indexed(code * 0.0 + tensor(cells), faces)
            boxes.append(found.boxes)
            scores.append(found.scores)
            codes.append(rows_of(code, ops.maximum(index, 0)))
        every = ops.concat(scores, axis=1)
        choose = PostProcess(self._thresholds[0], self._proposals * len(boxes), _OVERLAP, self._proposals)
        found, index = choose.indexed(ops.concat(boxes, axis=1), ops.expand_dims(every, axis=2))
        return found, rows_of(ops.concat(codes, axis=1), ops.maximum(index, 0))

    def _looked_at(
        self, areas: Areas, net: CascadeNet, side: int, least: float, found: Detections
    ) -> tuple[Detections, list[Tensor]]:
        """What a network says of cuts: scores anew, 0 where it sees no face, and its other outputs [N, P, width]."""
        low, high = ops.split(ops.cast(ops.trunc(found.boxes), dtype="int64"), axis=2, sizes=(2, 2))
        low, high = ops.maximum(low, 1) - 1, ops.minimum(high, self._size)
        there = ops.logical_and(ops.all(high > low, axes=(2,)), found.scores > 0.0)
        count = self._proposals if net is self.refine else self._candidates
        boxes = ops.concat([low, high], axis=2)

        def looked(boxes: Tensor, there: Tensor) -> list[Tensor]:
            whole = ops.where(ops.expand_dims(there, axis=2), boxes, tensor(_A_PIXEL))
            return net(areas.cuts(whole, side))

        shapes = [(width,) for width in net.widths]
        faces, *others = in_pieces(looked, shapes, [boxes], there, count, _TOGETHER)
        sure = ops.logical_and(there, faces[..., 0] > least)
        return replace(found, scores=ops.where(sure, faces[..., 0], 0.0)), others


def _scales(size: int, min_face: int, factor: float) -> list[float]:
    """Of the copies of a picture, the largest first; the smallest still has a place of the first network."""
    scales, scale = [], CELL / min_face
    while size * scale >= CELL:
        scales.append(scale)
        scale *= factor
    return scales


def _cells(side: int, scale: float) -> np.ndarray:
    """What the first network sees at each of its places in a copy of `side` pixels, in the picture: float32 [M, 4]."""
    count = -(-(side - 2) // 2) - 4  # a convolution, a halving that rounds up, two convolutions
    y, x = np.mgrid[:count, :count] * _STRIDE
    corners = np.stack([x + 1, y + 1, x + CELL, y + CELL], axis=-1).reshape(-1, 4)
    return np.floor(corners.astype(np.float32) / np.float32(scale))


def _moved(boxes: Tensor, codes: Tensor, inclusive: float) -> Tensor:
    """Boxes [N, P, 4] whose corners go by a code [N, P, 4] times their sides; 1 where the last pixel is inside."""
    low, high = ops.split(boxes, axis=2, sizes=(2, 2))
    sides = high - low + inclusive
    return boxes + codes * ops.concat([sides, sides], axis=2)


def _squared(found: Detections, codes: Tensor, inclusive: float = 0.0) -> Detections:
    """Moved, then as wide as high around the same middle."""
    low, high = ops.split(_moved(found.boxes, codes, inclusive), axis=2, sizes=(2, 2))
    sides = high - low
    side = ops.max(sides, axes=(2,), keepdims=True)
    low = low + (sides - side) * 0.5
    return replace(found, boxes=ops.concat([low, low + side], axis=2))


def _points(boxes: Tensor, codes: Tensor) -> Tensor:
    """Points [N, P, L, 2] by codes [N, P, 2 L] of boxes: first x, then y, as shares of their sides."""
    low, high = ops.split(boxes, axis=2, sizes=(2, 2))
    places = ops.stack(ops.split(codes, axis=2, sizes=(5, 5)), axis=3)
    return places * ops.expand_dims(high - low + 1.0, axis=2) + ops.expand_dims(low - 1.0, axis=2)


def _apart(found: Detections) -> Detections:
    """Without boxes that a better one covers, by their share of the smaller one; best first."""
    assert found.landmarks is not None
    count = int(found.scores.shape[1])
    scores, order = ops.topk(found.scores, k=count, axis=1)
    boxes = rows_of(found.boxes, order)
    low, high = ops.split(boxes, axis=2, sizes=(2, 2))
    first, second = (lambda x: ops.expand_dims(x, axis=2)), (lambda x: ops.expand_dims(x, axis=1))
    inner = ops.prod(
        ops.maximum(ops.minimum(first(high), second(high)) - ops.maximum(first(low), second(low)) + 1.0, 0.0), axes=(3,)
    )
    area = ops.prod(high - low + 1.0, axes=(2,))
    covers = inner / ops.minimum(first(area), second(area)) > _OVERLAP
    better = tensor(np.triu(np.ones((count, count), np.bool_), 1))
    real = ops.cast(scores > 0.0, dtype="float32")
    covered = ops.cast(ops.logical_and(covers, better), dtype="float32")  # [N, better, worse]
    kept = real
    for _ in range(_ROUNDS):
        by = ops.sum(covered * ops.expand_dims(kept, axis=2), axes=(1,))
        kept = real * ops.cast(by < 0.5, dtype="float32")
    scores, again = ops.topk(scores * kept, k=count, axis=1)
    marks = rows_of(rows_of(ops.flatten(found.landmarks, start=2, end=3), order), again)
    return Detections(
        rows_of(boxes, again),
        scores,
        ops.full_like(again, value=0),
        ops.cast(ops.sum(kept, axes=(1,)), dtype="int32"),
        landmarks=ops.reshape(marks, shape=(0, 0, -1, 2)),
    )
