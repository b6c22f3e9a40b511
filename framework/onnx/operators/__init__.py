"""The converters of ONNX operators, one small function each, in files by family."""

from framework.modules import import_all

import_all(__name__)
