"""What writes our operators as nodes of ONNX, in files by family."""

from framework.onnx.exporters import detection, elementwise, image, tensor

__all__ = ["detection", "elementwise", "image", "tensor"]
