"""What writes our operators as nodes of ONNX, in files by family."""

from framework.modules import import_all

import_all(__name__)
