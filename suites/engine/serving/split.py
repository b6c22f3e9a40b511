"""Several models behind one name: each gets its share of the requests, so that they can be compared on live ones."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import NamedTuple

from framework.errors import AttributeValueError
from suites.engine.serving.errors import NotThere
from suites.engine.serving.service import Service

_LONGEST = 200  # characters of a user's name that are looked at


class Arm(NamedTuple):
    """A model and the share of requests that it gets, between 0 and 1."""

    service: Service
    share: float


class Split:
    """Picks the model that answers a request.

    A request that names one of the models gets it. Any other is given to one by the shares: by its user, who then
    always meets the same model, or by chance where it names none.

    Args:
        name: under which requests are shared out.
        first: the model that gets what the others leave.
        others: further models with their shares.

    Raises AttributeValueError for shares that leave nothing, or two models of one name.
    """

    def __init__(self, name: str, first: Service, others: Sequence[Arm] = ()) -> None:
        for arm in others:
            if not 0 < arm.share < 1:
                raise AttributeValueError(
                    f"split: the share of {arm.service.settings.name} is {arm.share}; it must be between 0 and 1"
                )
        left = 1 - sum(arm.share for arm in others)
        if left <= 0:
            raise AttributeValueError(f"split: the shares leave nothing for {first.settings.name}; lower them")
        self.name, self.first = name, first
        self.arms = (Arm(first, left), *others)
        self._named = {arm.service.settings.name: arm.service for arm in others}
        names = {first.settings.name, *self._named}
        if len(names) < len(self.arms) or name in self._named:
            raise AttributeValueError(
                f"split: two models have one name; they are {[arm.service.settings.name for arm in self.arms]} behind "
                f"'{name}': rename a folder, or give the split a name of its own (--name)"
            )
        if first.settings.name != name:
            self._named[first.settings.name] = first

    @property
    def services(self) -> tuple[Service, ...]:
        """All of them."""
        return tuple(arm.service for arm in self.arms)

    def pick(self, model: str | None, user: str | None = None) -> Service:
        """The model for a request.

        Args:
            model: that it names, if it does.
            user: who asks, if it says so.

        Raises NotThere where there is no such model.
        """
        if model in self._named:
            return self._named[model]
        if model not in (None, self.name):
            raise NotThere(f"there is no model '{model}'; there is {', '.join(map(repr, self.names()))}")
        if len(self.arms) == 1:
            return self.first
        at = random.random() if user is None else _place(f"{self.name}\n{user[:_LONGEST]}")
        for service, share in self.arms:
            at -= share
            if at < 0:
                return service
        return self.first  # where shares add up to a little less than 1

    def names(self) -> list[str]:
        """What requests may name, the split first."""
        return [self.name, *self._named]

    def trouble(self) -> str | None:
        """Why one of them is not alive; None if all are."""
        return next((trouble for service in self.services if (trouble := service.trouble())), None)

    def not_ready(self) -> str | None:
        """Why one of them takes no requests now; None if all do."""
        return next((trouble for service in self.services if (trouble := service.not_ready())), None)


def _place(text: str) -> float:
    """A number in [0, 1) by a text's digest: the same at every server."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2.0**64
