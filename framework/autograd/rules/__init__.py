"""Gradient rules, one line an operator, one file a family (as in framework/native/ops/)."""

from framework.autograd.rules import elementwise as elementwise
from framework.autograd.rules import reduce as reduce
from framework.autograd.rules import shape as shape
