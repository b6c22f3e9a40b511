"""What writes our operators as nodes of ONNX, in files by family."""

from framework.onnx.exporters import control, detection, elementwise, image, quantized, ragged, sequences, tensor

__all__ = ["control", "detection", "elementwise", "image", "quantized", "ragged", "sequences", "tensor"]
