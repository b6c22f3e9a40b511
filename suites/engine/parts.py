"""What the engine offers to every config: optimizers and schedules of the core, by role."""

from framework import optim
from suites.engine.registry import register, register_role
from suites.engine.slim import lessons
from suites.engine.train.loop import Hook

register_role("optimizer", optim.Optimizer, supplied=("params", "lr"), doc="Updates the weights from their gradients.")
register_role(
    "schedule", optim.Schedule, supplied=("total_steps", "batch_size"), doc="Learning rate as a function of the step."
)

register_role("hook", Hook, doc="Called at points of the training loop.")
register_role("declaration", doc="Guesses for `paddock data schema` which columns of a file are what.")
register_role("published", doc="What a checkpoint's config.json describes, by its model_type; see `{type: Published}`.")
register_role("whole", doc="A published model as a whole, by its config.json's architecture; see `suites.nlp.whole`.")
register_role("openmmlab", doc="Translates a config of OpenMMLab, by its model's type; see `paddock config from-mm`.")
register_role("measure", doc="Measures on the training set what a config's model leaves to it by `auto`.")
register_role("pruner", doc="Makes smaller models of a suite's own kind for `paddock slim prune`.")
register_role("lesson", lessons.Lesson, doc="What a network learns from a teacher, in `distil.losses`.")
register_role("comparison", doc="Trains for `paddock data schema --compare` with columns taken in two ways.")

for _optimizer in (
    optim.SGD,
    optim.Momentum,
    optim.Adam,
    optim.AdamW,
    optim.RMSProp,
    optim.Adagrad,
    optim.LAMB,
):
    register("optimizer")(_optimizer)
for _lesson in (lessons.Logits, lessons.Features, lessons.FSP, lessons.MaskedFeatures):
    register("lesson")(_lesson)
for _schedule in (optim.Constant, optim.Cosine, optim.InverseSqrt, optim.MultiStep, optim.Piecewise, optim.Polynomial):
    register("schedule")(_schedule)
