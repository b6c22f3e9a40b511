"""The models of a server by name: which version answers a request, by its name, by its user, or by chance."""

from __future__ import annotations

import contextvars
import hashlib
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from framework.errors import AttributeValueError
from suites.engine.contract.capabilities.generating import CacheSettings
from suites.engine.serving.errors import NotThere, RequestError
from suites.engine.serving.generation.engine import Engine
from suites.engine.serving.generation.requests import EngineLimits
from suites.engine.serving.memory import Budget, machine_bytes, weight_files
from suites.engine.serving.metrics import Traffic
from suites.engine.serving.service import Service, Settings
from suites.engine.serving.versions import Found, Slot, Source, Version

_LONGEST = 200  # characters of a user's name that are looked at
_NEAR = 1e-6  # how far shares may be from 1


class Share(NamedTuple):
    """A source and the share of a model's requests that it gets, between 0 and 1."""

    source: Source
    share: float


@dataclass(frozen=True)
class Offer:
    """A model to serve: its name, and the sources between which its requests are shared out."""

    name: str
    shares: tuple[Share, ...]

    def __post_init__(self) -> None:
        wrong = next((each.share for each in self.shares if not 0 < each.share <= 1), None)
        if wrong is not None:
            raise AttributeValueError(f"serve: {self.name}: a share is {wrong:g}; it is above 0, and at most 1")
        if abs(sum(each.share for each in self.shares) - 1) > _NEAR:
            told = " + ".join(f"{each.share:g}" for each in self.shares)
            raise AttributeValueError(f"serve: {self.name}: its shares are {told}; together they must be 1")
        labels = [each.source.label for each in self.shares]
        if len(set(labels)) < len(labels):
            raise AttributeValueError(
                f"serve: {self.name}: two of its folders have one name ({', '.join(labels)}); rename one"
            )


class Writes(NamedTuple):
    """How models that write are asked.

    Attributes:
        cache: of keys and values, of each model.
        limits: of requests and steps.
    """

    cache: CacheSettings
    limits: EngineLimits


@dataclass
class Taken:
    """What a request holds: versions that stay until it is answered."""

    versions: list[Version] = field(default_factory=list)

    def drop(self) -> None:
        """Hold them no more."""
        for version in self.versions:
            version.drop()
        self.versions = []


class Served:
    """A model: its name, and the slots that its requests are shared out between."""

    def __init__(self, name: str, slots: Sequence[tuple[Slot, float]]) -> None:
        self.name = name
        self.slots = tuple(slots)

    @property
    def has_versions(self) -> bool:
        """Whether answers are told apart by version."""
        return len(self.slots) > 1 or self.slots[0][0].source.has_versions

    @property
    def versions(self) -> list[Version]:
        """Those that answer."""
        return [slot.now for slot, _ in self.slots]

    def hold(self, user: str | None, label: str | None) -> Version:
        """The version for a request, kept for it; NotThere where there is none of that label."""
        if label is not None:
            for slot, _ in self.slots:
                version = slot.hold()
                if version.label == label:
                    return version
                version.drop()
            known = ", ".join(version.label for version in self.versions)
            raise NotThere(f"{self.name} has no version '{label[:200]}'; it has {known}")
        return self._pick(user).hold()

    def _pick(self, user: str | None) -> Slot:
        if len(self.slots) > 1:
            at = random.random() if user is None else _place(f"{self.name}\n{user[:_LONGEST]}")
            for slot, share in self.slots:
                at -= share
                if at < 0:
                    return slot
        return self.slots[0][0]  # also where shares add up to a little less than 1


class Models:
    """All models of a server.

    Args:
        offers: the models.
        settings: what is allowed, of each.
        writes: how models that write are asked.
        memory: bytes for all models; by default those of the machine.
        on_death: called when a worker died, with whether it was the last one that is made good.
        say: gets what belongs in a log.
        drain: seconds for a version that was replaced to finish.
        every: seconds between two looks for newer versions.

    Attributes:
        settings: what is allowed.
        budget: of memory.
        traffic: what is counted of requests.
        draining: nothing new is taken.
        inside: requests that were let in and are not answered.

    Raises AttributeValueError for names that are there twice, OutOfBudget where a model does not fit, and what opening
    a model raises.
    """

    def __init__(
        self,
        offers: Sequence[Offer],
        settings: Settings,
        *,
        writes: Writes | None = None,
        memory: int | None = None,
        on_death: Callable[[BaseException, bool], None] = lambda error, given_up: None,
        say: Callable[[str], None] = lambda text: None,
        drain: float = 30.0,
        every: float = 1.0,
    ) -> None:
        names = [offer.name for offer in offers]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None or not names:
            raise AttributeValueError(f"serve: '{twice}' is the name of two models; give one another: NAME=FOLDER")
        self.settings, self.budget = settings, Budget(machine_bytes() if memory is None else memory)
        self.draining, self.inside = False, 0
        self._writes, self._on_death, self._say = writes, on_death, say
        self._drain, self._every = drain, every
        self._ended = threading.Event()
        self._follower: threading.Thread | None = None
        slots: list[Slot] = []
        try:
            for offer in offers:
                for source, _ in offer.shares:
                    slots.append(Slot(source, offer.name, self._opened, self._close, say, every))
        except BaseException:
            for slot in slots:
                slot.now.close(0)
            raise
        made = iter(slots)
        self._served = {
            offer.name: Served(offer.name, [(next(made), share) for _, share in offer.shares]) for offer in offers
        }
        self.several = len(offers) > 1 or any(each.has_versions for each in self._served.values())
        self.traffic = Traffic(by_model=self.several)

    # -- life
    def start(self) -> None:
        """Start all workers, and to look for newer versions of what has versions."""
        for version in self.versions:
            version.start()
        if any(slot.source.has_versions for slot in self._slots()):
            context = contextvars.copy_context()  # with this thread's limits
            self._follower = threading.Thread(
                target=context.run, args=(self._follow,), name="serving-versions", daemon=True
            )
            self._follower.start()

    def close(self, timeout: float) -> bool:
        """Finish what was taken, for at most `timeout` seconds; return whether all of it was."""
        self._ended.set()
        if self._follower is not None:
            self._follower.join(timeout)  # it may be opening a version
        return min([version.close(timeout) for version in self.versions])  # all are closed

    def _follow(self) -> None:
        while not self._ended.wait(self._every / 2):
            for slot in self._slots():
                slot.look()

    def _opened(self, source: Source, name: str, found: Found) -> Version:
        """A version that has run once and fits beside the others."""
        full = f"{name}@{found.label}"
        self.budget.expect(full, weight_files(found.path))
        model = source.open(found.path)
        service = Service(model, replace(self.settings, name=name), on_death=self._on_death, say=self._say)
        version = Version(name, found.label, service)
        cache = 0
        try:
            service.warm_up()
            if self._writes is not None and model.generator is not None:
                version.engine = Engine(model.generator(self._writes.cache), self._writes.limits, self._say)
                version.engine.warm_up()
                service.metrics.writes(version.engine)
                cache = version.engine.generator.cache_bytes
            if model.memory is not None:
                self.budget.take(version, full, model.memory(), cache)
        except BaseException:
            version.close(0)
            raise
        return version

    def _close(self, version: Version) -> None:
        if not version.close(self._drain):
            self._say(f"{version.name}: a worker did not end within {self._drain:.0f} s")
        self.budget.give(version)

    # -- what there is
    def _slots(self) -> list[Slot]:
        return [slot for each in self._served.values() for slot, _ in each.slots]

    @property
    def all(self) -> list[Served]:
        """The models."""
        return list(self._served.values())

    @property
    def versions(self) -> list[Version]:
        """The versions that answer."""
        return [version for each in self._served.values() for version in each.versions]

    def names(self) -> list[str]:
        """What requests may name: models, and versions where one has several."""
        found = list(self._served)
        return found + [v.name for each in self._served.values() if len(each.slots) > 1 for v in each.versions]

    def of(self, name: str) -> Served:
        """A model; NotThere where none has that name."""
        if name not in self._served:
            known = ", ".join(map(repr, self.names()))
            raise NotThere(f"there is no model '{name[:200]}'; there is {known}")
        return self._served[name]

    def take(self, taken: Taken, model: str | None, user: str | None = None, label: str | None = None) -> Version:
        """The version that answers a request, which holds it.

        Args:
            taken: of the request.
            model: that it names, with or without `@VERSION`; None where there is one only.
            user: who asks: meets the same version each time, where several share a model's requests.
            label: of the version that it names.

        Raises NotThere where there is no such model or version, RequestError where it names none of several.
        """
        if model is None:
            if len(self._served) > 1:
                known = ", ".join(map(repr, self.names()))
                raise RequestError(f"model: is missing; there is {known}")
            model = next(iter(self._served))
        elif model not in self._served and label is None:
            name, _, version = model.rpartition("@")
            if name in self._served:
                model, label = name, version
        version_taken = self.of(model).hold(user, label)
        taken.versions.append(version_taken)
        return version_taken

    def load(self, model: str) -> None:
        """Open the newest versions of a model anew and take them up; a PaddockError leaves in place what answers."""
        for slot, _ in self.of(model).slots:
            slot.load()

    def told(self, version: Version) -> str:
        """What answers call it: the model's name, with the version's where it has several."""
        return version.name if self._served[version.model].has_versions else version.model

    def trouble(self) -> str | None:
        """Why a model is not alive; None if all are."""
        return next((trouble for version in self.versions if (trouble := version.trouble())), None)

    def not_ready(self) -> str | None:
        """Why requests are not taken now; None if they are."""
        if self.draining:
            return "it is shutting down"
        for version in self.versions:
            trouble = version.service.not_ready() or (version.engine.trouble() if version.engine else None)
            if trouble:
                return trouble
        return None


def _place(text: str) -> float:
    """A number in [0, 1) by a text's digest: the same at every server."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2.0**64
