"""The converters of TensorFlow Lite's operators, one small function each, in files by family."""

from framework.modules import import_all

import_all(__name__)
