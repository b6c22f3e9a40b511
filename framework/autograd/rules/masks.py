"""Operators of framework/native/ops/masks.cc have no gradient."""

from framework.autograd.rule_table import no_gradient

no_gradient("it makes training targets, which are held fixed", "crop_masks")
no_gradient("it gives pixels of 0 and 1", "paste_masks")
