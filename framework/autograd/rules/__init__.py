"""Gradient rules, one line an operator, one file a family (as in framework/native/ops/).

The tape is there for others once all rules are: no operator is remembered without them.
"""

from framework.autograd.tape import backward, backward_from, remember
from framework.context import gradients
from framework.modules import import_all

import_all(__name__)

vars(gradients).update(remember=remember, backward=backward, backward_from=backward_from)
