"""Optimizer steps are the end of a step: nothing differentiates through them."""

from framework.autograd.rule_table import no_gradient

no_gradient(
    "it updates a parameter or its average",
    "sgd_step",
    "sgd_rows_step",
    "momentum_rows_step",
    "momentum_step",
    "adam_step",
    "adam_rows_step",
    "ema_step",
)
no_gradient("it updates parameters or their averages", "sgd_steps", "momentum_steps", "adam_steps", "ema_steps")
no_gradient("clipping takes its factor as a constant; use sum(square(x))", "sum_of_squares")
