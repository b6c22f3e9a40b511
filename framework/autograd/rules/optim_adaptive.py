"""Optimizer steps are the end of a step: nothing differentiates through them."""

from framework.autograd.rule_table import no_gradient

no_gradient("it updates a parameter", "rmsprop_step", "rmsprop_rows_step", "adagrad_step", "adagrad_rows_step")
no_gradient("it updates a parameter", "lamb_step")
no_gradient("it updates parameters", "rmsprop_steps", "adagrad_steps", "lamb_steps")
