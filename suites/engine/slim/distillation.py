"""Learning from a teacher beside the labels, of any task: what `distil` of a config adds to a training step.

The teacher is another run of the same suite, in evaluation mode and without gradients. It sees the student's batch.
What the named layers of both give is compared by lessons (`suites.engine.slim.lessons`), whose terms join the task's
own losses. The trained run needs no teacher.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import Tensor, from_numpy, nn, no_grad, program
from framework.errors import ConfigError
from framework.nn import init
from suites.engine.config.building import limited
from suites.engine.config.sections import DistilSettings
from suites.engine.config.settings import DataSettings
from suites.engine.contract.capabilities import LooksAgain, class_names
from suites.engine.contract.fitting import fitting_here
from suites.engine.contract.losses import Loss, count_of
from suites.engine.contract.step import OwnStep
from suites.engine.names import did_you_mean, listing
from suites.engine.pieces import whole
from suites.engine.predict.inference import open_run
from suites.engine.slim.lessons import Lesson
from suites.engine.slim.teachers import expect_running_teacher, in_float32, undisturbed
from suites.engine.weights.eight_bits import float_step

if TYPE_CHECKING:
    from suites.engine.config import Config
    from suites.engine.contract.task import Task

_SHOWN = 12  # paths of layers in an error
Given = dict[str, list[Tensor]]  # what layers gave, by path


def taught(task: Task, config: Config, seed: int) -> Iterator[str]:
    """Let a task's steps learn from the teacher that a config names, if it does; yield lines for the log.

    A suite may have a `distil` of its own, which its task reads.

    Args:
        task: whose `train_step` is replaced; its `helpers` become what only the lessons need.
        config: of the run.
        seed: of the start of those.

    Raises:
        CheckpointError: there is no such run.
        ConfigError: teacher and student do not fit, or something else in the config excludes it.
    """
    settings = config.build("distil") if config.get("distil") is not None else None
    if not isinstance(settings, DistilSettings):
        return
    _expect_able(task, config)
    (path,) = settings.teachers
    teacher = _opened(path, task, config)
    yield from _compared(path, task, teacher)
    for who, model, paths in (
        ("student", task.model, [p for lesson in settings.losses for p in lesson.layers]),
        ("teacher", teacher.model, [p for lesson in settings.losses for p in lesson.layers.values()]),
    ):
        _expect_layers(who, model, paths)
    helpers = _helpers(task, teacher, settings.losses, seed)
    init.initialize(helpers, seed)
    task.helpers = helpers if list(helpers.parameters()) else None
    step = task.train_step
    task.train_step = _with_lessons(task, step, teacher, settings, helpers)  # type: ignore[method-assign, assignment]
    count = sum(p.size for p in helpers.parameters())
    names = listing(type(lesson).__name__ for lesson in settings.losses)
    yield f"distillation: learns {names} from {path}" + (f", by {count:,} parameters of its own" if count else "")


def _expect_able(task: Task, config: Config) -> None:
    reasons = {
        "eight_bits; learn from the teacher first, then train the student in 8 bits": config.get("eight_bits"),
        f"the update of {type(task).__name__}, which is its own": isinstance(task, OwnStep),
        f"{type(task).__name__}, which has helpers of its own": task.helpers is not None,
    }
    for reason, excludes in reasons.items():
        if excludes:
            raise ConfigError(f"distil: does not go with {reason}")


def _opened(path: str, task: Task, config: Config) -> Task:
    expect_running_teacher(path)
    with undisturbed():
        teacher = open_run(Path(path))
    if type(teacher) is not type(task):
        raise ConfigError(
            f"distil.teachers: {path} is a {type(teacher).__name__}, the student a {type(task).__name__}; both must be "
            f"of the suite {config['suite']}"
        )
    if missing := [name for name in teacher.eval_inputs if name not in task.train_inputs]:
        raise ConfigError(
            f"distil: training batches have no {', '.join(missing)}, which the teacher reads when it predicts"
        )
    for parameter in teacher.model.parameters():
        parameter.requires_grad = False
    return teacher


def _compared(path: str, task: Task, teacher: Task) -> Iterator[str]:
    """Lines on what differs but may; classes may not."""
    yield from in_float32(path, teacher)
    ours, theirs = list(class_names(task)), list(class_names(teacher))
    if ours and theirs and ours != theirs:
        raise ConfigError(
            f"distil.teachers: {path} tells {listing(theirs[:_SHOWN])} apart, the student {listing(ours[:_SHOWN])}; "
            "both need the same classes in the same order"
        )
    metadata = [each.processor().metadata().get("transforms") for each in (task, teacher)]
    if metadata[0] != metadata[1]:
        yield (
            f"distillation: {path} was trained on inputs that were prepared otherwise; it sees those of the student "
            f"(student {metadata[0]}, teacher {metadata[1]})"
        )


def _expect_layers(who: str, model: nn.Layer, paths: Sequence[str]) -> None:
    known = [path for path, _ in model.named_layers()]
    for path in paths:
        if path not in known:
            near = did_you_mean(path, known)
            shown = listing(p for p in known if p and p.count(".") < 2)
            raise ConfigError(f"distil.losses: the {who} has no layer '{path}'{near}; it has {shown[:400]}")


@contextlib.contextmanager
def _listening(model: nn.Layer, paths: Sequence[str]) -> Iterator[Given]:
    """Inside, what layers give is kept by path, call by call."""
    given: Given = {path: [] for path in paths}
    layers = dict(model.named_layers())
    with contextlib.ExitStack() as stack:
        for path in given:

            def keep(layer: nn.Layer, arguments: Any, result: Any, path: str = path) -> None:
                given[path].extend(_tensors(result))

            for layer in _called(layers[path]):
                stack.enter_context(layer.register_forward_hook(keep))
        yield given


def _called(layer: nn.Layer) -> Iterator[nn.Layer]:
    """The layer; for a list of layers, which is not called itself, those in it."""
    if isinstance(layer, nn.LayerList) and not isinstance(layer, nn.Sequential):
        for child in layer:
            yield from _called(child)
    else:
        yield layer


def _tensors(result: Any) -> Iterator[Tensor]:
    """The tensors of a result, in order; it may be a list or mapping of them."""
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, Mapping):
        for value in result.values():
            yield from _tensors(value)
    elif isinstance(result, (list, tuple)):
        for value in result:
            yield from _tensors(value)


def _pairs(lesson: Lesson, ours: Given, theirs: Given) -> list[tuple[Tensor, Tensor]]:
    found: list[tuple[Tensor, Tensor]] = []
    for student, teacher in lesson.layers.items():
        a, b = ours[student], theirs[teacher]
        if len(a) != len(b) or not a:
            raise ConfigError(
                f"distil.losses: the student's layer '{student}' gives {len(a)} tensors and the teacher's '{teacher}' "
                f"{len(b)}; both must give as many, and one or more: name layers that are called as such in training, "
                "such as the layers within it"
            )
        found += zip(a, b, strict=True)
    return found


def _taught(teacher: Task, inputs: Mapping[str, Tensor], paths: Sequence[str]) -> Given:
    """What the teacher's layers give for a batch."""
    teacher.model.eval()
    with no_grad(), whole(), _listening(teacher.model, paths) as given:
        look = teacher.look_once if isinstance(teacher, LooksAgain) else float_step(teacher.eval_step)
        look({name: inputs[name] for name in teacher.eval_inputs})
    return {path: [x.detach() for x in tensors] for path, tensors in given.items()}


def _both(
    task: Task, step: Callable[..., Any], teacher: Task, lessons: Sequence[Lesson], inputs: dict[str, Tensor]
) -> tuple[Any, Given, Given]:
    theirs = _taught(teacher, inputs, [p for lesson in lessons for p in lesson.layers.values()])
    with _listening(task.model, [p for lesson in lessons for p in lesson.layers]) as ours:
        terms = step(inputs)
    return terms, ours, theirs


def _helpers(task: Task, teacher: Task, lessons: Sequence[Lesson], seed: int) -> nn.LayerList:
    """What each lesson needs, by the shapes that a batch shows."""
    with limited(task.train_loader(seed=seed, workers=0), DataSettings(), "another") as loader:
        (batch,) = islice(loader.stream(), 1)
    arrays, fitting = {name: batch[name] for name in task.train_inputs}, fitting_here(task)
    inputs = {name: from_numpy(a) for name, a in (fitting.fill(arrays) if fitting else arrays).items()}
    found: list[nn.Layer] = []

    def look(inputs: dict[str, Tensor]) -> list[Tensor]:
        _, ours, theirs = _both(task, task.train_step, teacher, lessons, inputs)
        for lesson in lessons:
            pairs = _pairs(lesson, ours, theirs)
            found.append(lesson.helpers([(tuple(a.shape), tuple(b.shape)) for a, b in pairs]))
        return [tensors[0] for tensors in ours.values()]

    task.model.train()
    with undisturbed(), no_grad():
        program(look, pass_names=()).program_for(inputs)
    return nn.LayerList(found)


def _with_lessons(
    task: Task, step: Callable[..., Any], teacher: Task, settings: DistilSettings, helpers: nn.LayerList
) -> Callable[[dict[str, Tensor]], Mapping[str, Any]]:
    def run(inputs: dict[str, Tensor]) -> Mapping[str, Any]:
        if not task.model.training:  # the loss of an evaluation is the task's own
            return dict(step(inputs))
        terms, ours, theirs = _both(task, step, teacher, settings.losses, inputs)
        own = {n: t * settings.hard if isinstance(t, Loss) else t for n, t in terms.items()}
        count = count_of(inputs[teacher.eval_inputs[0]])
        for number, lesson in enumerate(settings.losses):
            helpers[number].train()
            term = lesson.term(_pairs(lesson, ours, theirs), helpers[number])
            name = f"distil_{type(lesson).__name__}" + (f"_{number}" if number else "")
            own[name] = Loss(term, count) * lesson.weight
        return own

    return run
