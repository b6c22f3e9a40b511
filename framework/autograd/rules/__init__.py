"""Gradient rules, one line an operator, one file a family (as in framework/native/ops/)."""

from framework.modules import import_all

import_all(__name__)
