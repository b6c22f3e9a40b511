"""ONNX in and out: `load` and `open_model` read files, `export` writes them, `backend` runs the ONNX project's tests.

Needs the package `onnx`, for the file format only.
"""

from framework.onnx.export import EXPORT_PASSES as EXPORT_PASSES
from framework.onnx.export import export as export
from framework.onnx.model import Model as Model
from framework.onnx.model import Session as Session
from framework.onnx.model import load as load
from framework.onnx.model import open_model as open_model
from framework.onnx.model import program_of as program_of
