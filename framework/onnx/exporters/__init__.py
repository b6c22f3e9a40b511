"""What writes our operators as nodes of ONNX, in files by family."""

from framework.onnx.exporters import (
    boxes,
    composed,
    control,
    detection,
    elementwise,
    frames,
    image,
    indices,
    movement,
    quantized,
    ragged,
    regions,
    selection,
    sequences,
    tensor,
)

__all__ = [
    "boxes",
    "composed",
    "control",
    "detection",
    "elementwise",
    "frames",
    "image",
    "indices",
    "movement",
    "quantized",
    "ragged",
    "regions",
    "selection",
    "sequences",
    "tensor",
]
