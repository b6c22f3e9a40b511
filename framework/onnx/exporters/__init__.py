"""What writes our operators as nodes of ONNX, in files by family."""

from framework.onnx.exporters import (
    boxes,
    control,
    detection,
    elementwise,
    frames,
    image,
    quantized,
    ragged,
    regions,
    sequences,
    tensor,
)

__all__ = [
    "boxes",
    "control",
    "detection",
    "elementwise",
    "frames",
    "image",
    "quantized",
    "ragged",
    "regions",
    "sequences",
    "tensor",
]
