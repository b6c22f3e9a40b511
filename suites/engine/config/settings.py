"""Settings of a run that every suite shares: the section `runtime` of a config."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from framework import limits
from framework.errors import AttributeValueError, ConfigError
from framework.optim import LossScaler
from suites.engine.bonds import bound
from suites.engine.config.schema.rules import Whole, rule


@dataclass(frozen=True)
class CheckpointSettings:
    """When weights are saved.

    Args:
        every: Steps between two checkpoints; one is also saved at each evaluation, at the end and on Ctrl-C.
        keep: How many of the newest checkpoints stay.
        unit: "epochs" or "minutes" in place of steps.
    """

    every: int = 500
    keep: int = 2
    unit: Literal["steps", "epochs", "minutes"] = "steps"

    def __post_init__(self) -> None:
        at_least("runtime.checkpoint", every=(self.every, 1), keep=(self.keep, 1))


@dataclass(frozen=True)
class EvaluationSettings:
    """When the evaluation set is gone through.

    Args:
        every: Epochs between two evaluations; there is always one at the end. 0: only at the end.
        unit: "steps" or "minutes" in place of epochs; "percent" of all updates of the run.
        pictures: How many predictions are drawn at each evaluation.
        loss: Also compute the loss over the evaluation set, as the figures `loss` and `loss/TERM`, in evaluation mode:
            without dropout, and with the running statistics of batch norm. Its batches must hold what training takes.
        main: The figure that decides which weights are best and when to stop early; null for the task's own, such as
            AP. A figure of one of several evaluation sets has its name before it, such as val/AP.
        better: "higher" or "lower": which of two main figures is better; null for what the task says, and lower for
            a figure whose name ends in "loss".
    """

    every: int = 1
    unit: Literal["steps", "epochs", "minutes", "percent"] = "epochs"
    pictures: int = 8
    loss: bool = False
    main: str | None = None
    better: Literal["higher", "lower"] | None = None

    def __post_init__(self) -> None:
        at_least("runtime.evaluation", every=(self.every, 0), pictures=(self.pictures, 0))


@dataclass(frozen=True)
class DataSettings:
    """What is put up with in the data.

    Args:
        max_skipped: Share of a data set's samples that may be unusable (a file that is missing, cut off or no image).
            In training the next sample takes the place of one; in evaluation it is left out, and `skipped` stands
            beside the figures. They are named in the log. With more of them the run ends; 0 ends it with the first.
            Of a small set, where the share is less than two samples, two are put up with, and an eighth at most.
        timeout: Seconds that a data worker may take for one sample; 0 for any time.
        hung: What happens to a sample that takes longer. "skip": it counts as unusable, and another worker goes on;
            "end": the run ends.
    """

    max_skipped: float = 0.01
    timeout: float = 600.0
    hung: Literal["skip", "end"] = "skip"

    def __post_init__(self) -> None:
        at_least("runtime.data", max_skipped=(self.max_skipped, 0), timeout=(self.timeout, 0))
        if self.max_skipped > 1:
            raise AttributeValueError(f"runtime.data: max_skipped is {self.max_skipped}; it is a share, 1 at most")
        if self.hung != "skip" and not self.timeout:
            raise AttributeValueError(f"runtime.data: hung is {self.hung!r}, but timeout is 0, so that nothing hangs")


_PLACES = ("type", "path", "root", "images", "lists", "annotations")


@rule("data.train.dataset.holdout", "data.eval.dataset.holdout")
def parts_of_the_same_files_are_divided_alike(config: Whole) -> Iterator[tuple[str, str]]:
    """What is evaluated was not trained on: parts of the same files are divided by the same `holdout`."""
    train, own = config.get("data.train.dataset"), config.get("data.eval.dataset")
    if all(train.get(key) == own.get(key) for key in _PLACES) and train["holdout"] != own["holdout"]:
        yield (
            "data.eval.dataset.holdout",
            f"is {own['holdout']} but data.train.dataset.holdout is {train['holdout']}, of the same files, so that "
            "what is evaluated was trained on; set both to one value",
        )


@dataclass(frozen=True)
class EarlyStopSettings:
    """Stop once the main figure no longer grows, or is good enough.

    Args:
        patience: Evaluations in a row without a better figure after which the run ends.
        min_delta: By how much a figure must be better to count here. The best weights are those of the highest figure.
        target: The run ends when the figure is as good as this; null for never.
    """

    patience: int = 10
    min_delta: float = 0.0
    target: float | None = None

    def __post_init__(self) -> None:
        at_least("runtime.early_stop", patience=(self.patience, 1), min_delta=(self.min_delta, 0))


@dataclass(frozen=True)
class EmaSettings:
    """A moving average of the weights, which is evaluated, drawn with and exported in their place.

    Args:
        decay: Weight of the past at each step; smaller in the first steps, min(decay, (1 + t) / (10 + t)).
    """

    decay: float = 0.9998

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise AttributeValueError(f"runtime.ema: decay is {self.decay}; it must be in [0, 1)")


@dataclass(frozen=True)
class AsgdSettings:
    """The mean of all weights from when evaluations stopped getting better (NT-ASGD; Merity et al. 2018, section 3).

    It is evaluated, drawn with and exported in place of the weights. Meant for SGD at a constant rate.

    Args:
        patience: The mean begins at the first evaluation that is worse than the best of those so many and more before.
    """

    patience: int = 5

    def __post_init__(self) -> None:
        at_least("runtime.asgd", patience=(self.patience, 1))


@bound(needs=dict.fromkeys(("growth", "backoff", "interval", "floor"), ("mode", ("auto", "dynamic"))))
@dataclass(frozen=True)
class LossScaleSettings:
    """A factor on the loss that keeps small gradients from becoming 0 in float16; see `framework.optim.LossScaler`.

    Args:
        mode: "auto" is "dynamic" with precision float16 and "none" otherwise; "dynamic" moves the scale, "static" keeps
            `initial`. With both, an update whose gradients overflow is skipped.
        initial: The scale at the start.
        growth: Factor on the scale after `interval` updates without an overflow. It and what follows are for a scale
            that moves.
        backoff: Factor on the scale after an overflow.
        interval: Updates in a row without an overflow before the scale grows.
        floor: The scale never falls below it.
    """

    mode: Literal["auto", "dynamic", "static", "none"] = "auto"
    initial: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000
    floor: float = 1.0

    def __post_init__(self) -> None:
        self._scaler(dynamic=True)  # which refuses numbers that do not fit

    def scaler(self, precision: str) -> LossScaler | None:
        """Return what scales the loss of a run of this precision; None where nothing does."""
        mode = self.mode if self.mode != "auto" else "dynamic" if precision == "float16" else "none"
        return None if mode == "none" else self._scaler(dynamic=mode == "dynamic")

    def _scaler(self, *, dynamic: bool) -> LossScaler:
        return LossScaler(self.initial, self.growth, self.backoff, self.interval, self.floor, dynamic=dynamic)


_LEAST_TIMEOUT = 10.0  # seconds; a process tells that it goes on once a second


@dataclass(frozen=True)
class Runtime:
    """How long and how a run trains; one of `epochs` and `steps` says how long.

    Args:
        epochs: Passes over the training set.
        steps: Updates of the weights, in place of epochs.
        least_steps: Updates of the weights that a run of `epochs` has at least: a hundred photos give so few an
            epoch that epochs say little.
        minutes: The run ends after so many minutes if it is not at its end before. The learning rate follows `epochs`
            or `steps` all the same.
        seed: Of the weights' start, the order of samples and all random transforms.
        workers: Processes that read data ahead; 0 reads in the training process.
        threads: Threads that compute; null for one a core. The result does not depend on it.
        device: What computes Programs: "cpu" with our kernels; "gpu" or "tpu" through XLA, which the extras [cuda] and
            [xla] install; "xla-cpu" is XLA on the CPU, to try what a GPU would run.
        devices: How many of them share each batch. The figures are those of one device, batch norm over the whole batch
            included; `data.train.batch_size` is that of all together.
        products: How an accelerator takes the float32 factors of matrix products, convolutions and attention: "tf32"
            and "bfloat16" round them to 10 and 7 bits of mantissa, for speed. Sums stay float32. The CPU's own kernels
            never round.
        shard_optimizer: Each of several devices of a host keeps a part of the optimizer's slots in place of all of
            them, and computes that part of the update (ZeRO stage 1). The numbers stay the same.
        hosts_timeout: Of several hosts: seconds without a step, a batch of an evaluation or a checkpoint after which a
            host counts as hanging, and the job ends. More than any compilation takes; null for any time.
        eager: Run operator by operator instead of as one traced Program; slower, for debugging.
        detect_anomaly: Look at the results of every operator of a training step, and end the run with an error that
            names the first one with a NaN; slower, for finding out why a loss became one.
        flush_subnormals: Kernels of the CPU take numbers below 1.2e-38 for zero. Gradients get there when a loss is
            almost 0, and some processors take up to fifty times as long for such numbers.
        conv_algorithm: How convolutions are computed, in training, evaluation and exported models: "auto" takes what
            should be fastest for each shape, such as Winograd's transforms (error up to 1e-5 of the largest value);
            "direct" computes every product.
        log_every: Steps between two log lines and TensorBoard points.
        weights: What to start from: a safetensors file, of which what does not fit the model is listed and left out;
            the name of published weights (`paddock zoo list`); or a checkpoint of another framework, as file or folder.
        accumulate: Batches whose gradients are averaged for one update: a large batch in the memory of a small one.
        clip_norm: Gradients are scaled down to at most this norm over all parameters; null for none.
        checkpoint: When weights are saved.
        evaluation: When the evaluation set is gone through.
        early_stop: When to stop before the end; null for never.
        ema: The moving average of the weights; null for none.
        asgd: The mean of the weights from when evaluations get no better; null for none.
        precision: In which type layers keep what lies between them while training: "bfloat16" and "float16" take half
            the memory. Weights, losses, optimizer, evaluation and exported models stay float32.
        loss_scale: The factor on the loss, for float16.
        data: What is put up with in the data.
        limits: What files of the data may cost, by the names of `framework.limits.Limits`, in place of the defaults.
    """

    epochs: int | None = None
    steps: int | None = None
    least_steps: int = 0
    minutes: float | None = None
    seed: int = 0
    workers: int = 2
    threads: int | None = None
    device: Literal["cpu", "gpu", "tpu", "xla-cpu"] = "cpu"
    devices: int = 1
    products: Literal["float32", "tf32", "bfloat16"] = "float32"
    shard_optimizer: bool = False
    hosts_timeout: float | None = 1800.0
    eager: bool = False
    detect_anomaly: bool = False
    flush_subnormals: bool = True
    conv_algorithm: Literal["auto", "direct"] = "auto"
    log_every: int = 20
    weights: str | None = None
    accumulate: int = 1
    clip_norm: float | None = None
    checkpoint: CheckpointSettings = field(default_factory=CheckpointSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    early_stop: EarlyStopSettings | None = None
    ema: EmaSettings | None = None
    asgd: AsgdSettings | None = None
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    loss_scale: LossScaleSettings = field(default_factory=LossScaleSettings)
    data: DataSettings = field(default_factory=DataSettings)
    limits: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check_precision()
        limits.changed(**self.limits)
        if self.ema is not None and self.asgd is not None:
            raise AttributeValueError("runtime: it has both ema and asgd; one average is kept, set the other to null")
        if (self.epochs is None) == (self.steps is None):
            both = f"; it has both, {self.epochs} and {self.steps}: set one to null" if self.epochs is not None else ""
            raise AttributeValueError(f"runtime: it needs either epochs or steps, which say how long to train{both}")
        length = {"epochs": self.epochs} if self.steps is None else {"steps": self.steps}
        at_least("runtime", **{name: (value or 0, 1) for name, value in length.items()})
        at_least("runtime", least_steps=(self.least_steps, 0))
        at_least("runtime", workers=(self.workers, 0), log_every=(self.log_every, 1), accumulate=(self.accumulate, 1))
        if self.devices < 1 or (self.device == "cpu" and self.devices > 1):
            raise AttributeValueError(
                f"runtime: devices is {self.devices} with device {self.device}; it must be 1 or more, and 1 with cpu, "
                "whose cores are runtime.threads"
            )
        if self.device != "cpu" and (self.eager or self.detect_anomaly):
            raise AttributeValueError(
                f"runtime: eager and detect_anomaly look at operators one by one, on the CPU; device is {self.device}"
            )
        if self.threads is not None:
            at_least("runtime", threads=(self.threads, 1))
        if self.minutes is not None and self.minutes <= 0:
            raise AttributeValueError(f"runtime: minutes is {self.minutes}; it must be above 0, or null for any time")
        if self.hosts_timeout is not None and self.hosts_timeout < _LEAST_TIMEOUT:
            raise AttributeValueError(
                f"runtime: hosts_timeout is {self.hosts_timeout:g} s; it must be {_LEAST_TIMEOUT:g} or more, or null"
            )
        if self.clip_norm is not None and self.clip_norm <= 0:
            raise AttributeValueError(f"runtime: clip_norm is {self.clip_norm}; it must be above 0, or null for none")

    def _check_precision(self) -> None:
        mode = self.loss_scale.mode
        if self.precision == "float16" and mode == "none":
            raise AttributeValueError(
                "runtime: precision float16 needs a loss scale, or gradients below 6e-8 become 0; leave "
                "loss_scale.mode at auto, or use precision bfloat16, which needs none"
            )
        if self.precision == "float32" and mode in ("dynamic", "static"):
            raise AttributeValueError(
                f"runtime: loss_scale.mode is {mode} but precision float32 has nothing to scale; leave it at auto, or "
                "set precision to float16"
            )

    def total_steps(self, steps_per_epoch: int | None) -> int:
        """Return the number of updates of the whole run.

        Raises ConfigError where an epoch has no length and no number of steps is given.
        """
        if self.steps is None and steps_per_epoch is None:
            raise ConfigError("runtime.epochs: the training set has no end, so it has no epochs; give runtime.steps")
        if self.steps is not None:
            return self.steps
        return max((self.epochs or 0) * (steps_per_epoch or 0), self.least_steps)


def at_least(who: str, **values: tuple[float, float]) -> None:
    """Raise AttributeValueError for a value below its least one.  values: (value, least) by name, below `who`."""
    for name, (value, least) in values.items():
        if value < least:
            raise AttributeValueError(f"{who}: {name} is {value}; it must be {least} or more")
