"""A run on several hosts: what they compare before they train, and what they agree on while they do.

Each host runs the whole loop on the same batches, and the device's Programs share the work. So hooks, figures and the
learning rate need nothing; only what may differ from host to host stands here. See `framework.hosts`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from framework import hosts
from framework.data import Source
from framework.data.world import World
from framework.errors import CheckpointError, ConfigError
from suites.engine.config import Config
from suites.engine.contract.capabilities import evaluations
from suites.engine.run.checkpoint import Checkpoints, load
from suites.engine.run.folder import RunFolder

if TYPE_CHECKING:
    from suites.engine.config.settings import Runtime
    from suites.engine.contract.batch import Batch
    from suites.engine.contract.task import Task

_CODE = ("framework", "suites")
_SECONDS = 5.0  # between two agreements, about: how late a signal to one host is seen by all


def expect_fit(runtime: Runtime, world: World) -> None:
    """Raise ConfigError for what several hosts cannot share: our own kernels, and what a clock decides."""
    if world.size == 1:
        return
    if runtime.device == "cpu":
        raise ConfigError(
            f"runtime.device is cpu, which {world.size} hosts cannot share; take gpu, tpu, or xla-cpu to try it"
        )
    timed = {
        "runtime.minutes": runtime.minutes is not None,
        "runtime.checkpoint.unit": runtime.checkpoint.unit == "minutes",
        "runtime.evaluation.unit": runtime.evaluation.unit == "minutes",
    }
    if found := [name for name, is_timed in timed.items() if is_timed]:
        raise ConfigError(
            f"{', '.join(found)}: minutes differ from host to host; with several hosts count steps or epochs"
        )


def expect_same_program(config: Config) -> None:
    """Raise HostError where hosts have another config, or other Python code of Paddock or a plug-in."""
    if hosts.world().size > 1:
        hosts.expect_same({"config": config.digest(), "code": _code_digest(config.imports())})


def expect_same_start(task: Task, loader: Source) -> None:
    """Raise HostError where hosts begin with other weights, or other numbers of samples."""
    if hosts.world().size == 1:
        return
    weights = [part for name, t in task.model.state_dict().items() for part in (name, t.numpy().tobytes())]
    sizes = [str(loader.length), _samples(loader)]
    for name, view in evaluations(task).items():
        evaluation = view.eval_loader(workers=0)
        sizes += [name, str(evaluation.length), _samples(evaluation)]
        evaluation.close()
    hosts.expect_same({"weights": hosts.digest(*weights), "data": ", ".join(sizes)})


def _samples(loader: Source) -> str:
    return str(len(loader.dataset)) if isinstance(loader.dataset, Sized) else "not counted"


def _code_digest(imports: Sequence[str]) -> str:
    parts: list[bytes | str] = []
    for name in (*_CODE, *imports):
        module = importlib.import_module(name)
        places = [Path(p) for p in module.__path__] if hasattr(module, "__path__") else [Path(module.__file__ or "")]
        for place in places:
            for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
                parts += [path.relative_to(place.parent).as_posix(), path.read_bytes()]
    return hosts.digest(*parts)


@contextlib.contextmanager
def opened_run(make: Callable[[Path, Config], RunFolder], path: Path, config: Config) -> Iterator[RunFolder]:
    """The run's folder, closed at the end. Host 0 makes and keeps it; others write into one that is thrown away."""
    world = hosts.world()
    made = hosts.first_alone(partial(make, path, config))
    with contextlib.ExitStack() as stack:
        if made is None:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"paddock-host-{world.rank}-"))
            made = RunFolder.create(Path(scratch) / path.name, config)
        stack.callback(made.close)
        yield made


def newest_checkpoint(run: RunFolder) -> dict[str, Any] | None:
    """The newest whole checkpoint of a run, on each host; None where there is none.

    Raises CheckpointError where none is whole, or this host does not see the run's folder.
    """
    found = hosts.first_alone(Checkpoints(run.weights).newest)
    name = hosts.send(found[0].name if found else None)
    if name is None or found is not None:
        return found[1] if found else None
    folder = run.weights / name
    if not folder.is_dir():
        raise CheckpointError(
            f"{folder}: not there on host {hosts.world().rank}; to resume, all hosts need the run's folder, on a file "
            "system that they share"
        )
    return load(folder)


class Agreement:
    """Between steps: all hosts have the same batch, and all know when one of them was told to end.

    Host 0 says how many steps come before the next time, so that it happens every few seconds.
    """

    def __init__(self) -> None:
        self._next: int | None = None  # the step before which hosts talk again
        self._last = 0
        self._when = time.monotonic()

    def meet(self, step: int, batches: Sequence[Batch], ending: bool) -> bool:
        """Return whether any host is `ending`; between agreed steps False.

        Raises HostError where a host has another batch.
        """
        if self._next is not None and step < self._next:
            return False
        now = time.monotonic()
        seconds = (now - self._when) / max(step - self._last, 1) if self._next is not None else _SECONDS
        mine = {"ending": ending, "pause": max(1, min(int(_SECONDS / max(seconds, 1e-3)), 1000))}
        hosts.expect_same({"data": hosts.digest(*_parts(list(batches))), "step": str(step)})
        told = [json.loads(data) for data in hosts.gather(json.dumps(mine).encode())]
        self._next, self._last, self._when = step + told[0]["pause"], step, now
        return any(each["ending"] for each in told)


def _parts(value: Any) -> Iterator[bytes | str]:
    """What a batch holds, for a digest: its arrays, by name and order."""
    if isinstance(value, Mapping):
        for key in value:
            yield str(key)
            yield from _parts(value[key])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _parts(item)
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, (str, bytes, int, float, np.generic)):
        yield value if isinstance(value, (str, bytes)) else repr(value)
    elif hasattr(value, "__dict__"):  # a type of ours, such as Ragged
        yield from _parts(vars(value))
