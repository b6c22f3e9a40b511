"""The one place that imports the package `onnx`, which only reading and writing ONNX files needs."""

from __future__ import annotations

from typing import Any

from framework.errors import NotSupportedError
from framework.extras import install_command


def require_onnx() -> Any:
    """The package `onnx`.

    Raises:
        NotSupportedError: it is not installed.
    """
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError:
        raise NotSupportedError(
            "onnx: ONNX files are read and written with the package 'onnx', which is not installed; "
            f"run {install_command('onnx')}"
        ) from None
    return onnx
