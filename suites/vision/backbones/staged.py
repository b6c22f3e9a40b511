"""Backbones of one stage after the other, each with a map at its end, that know their whole plan's names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from framework import nn
from framework.tensors import Tensor
from suites.engine.weights import Names, Source
from suites.vision.backbones.base import Backbone

Stage = tuple[int, int, Callable[[], nn.Layer]]  # stride and channels at its end, and what makes it


class Staged(Backbone):
    """Stage after stage; the network ends with the stage of the last wanted stride.

    A class fills it with `keep` and says in `all_names` what a scheme calls the tensors of all stages, also of those
    that are not made; a file may hold them.

    Attributes:
        stem: what stands before them where they begin with stride 4; else None.
        stages: the layers.
        unread: regular expressions of names that files have besides, such as those of classifiers halfway.
    """

    unread: tuple[str, ...] = ()
    stem: nn.Layer | None = None

    def keep(self, stages: Iterable[Stage]) -> None:
        """Makes the stages up to the last wanted stride."""
        self.stages = nn.LayerList()
        found: dict[int, tuple[int, int]] = {}  # stride -> (index, channels) of its last stage
        for stride, channels, make in stages:
            if stride > self.strides[-1]:
                break
            self.stages.append(make())
            found[stride] = (len(self.stages) - 1, channels)
        self._each = tuple(found)
        self._taps = tuple(found[s][0] for s in self.strides)
        self._ends = tuple(found[s][0] + 1 for s in found)
        self.channels = tuple(found[s][1] for s in self.strides)

    def parts(self) -> Sequence[Sequence[nn.Layer]]:
        """The stem, if any, and the stages of each stride."""
        stages = list(self.stages)
        by_stride: dict[int, list[nn.Layer]] = {} if self.stem is None else {2: [self.stem]}
        for stride, start, end in zip(self._each, (0, *self._ends), self._ends, strict=False):
            by_stride[stride] = stages[start:end]
        return [by_stride.get(1 << k, []) for k in range(1, 6)]

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; one map for each of `strides`."""
        x, maps = x if self.stem is None else self.stem(x), []
        for i, stage in enumerate(self.stages):
            x = stage(x)
            if i in self._taps:
                maps.append(x)
        return maps

    def all_names(self, scheme: str) -> dict[str, Source]:
        """What `scheme` calls the tensors of the whole plan's stages."""
        raise NotImplementedError(f"{type(self).__name__} defines no all_names()")

    def names_in(self, scheme: str) -> Names:
        """Names of the stages that are there; the rest of the plan and what is behind it may be left over."""
        return chosen(self, self.all_names(scheme), self.top_names(scheme), self.unread)


def chosen(layer: nn.Layer, every: dict[str, Source], behind: Names, unread: Sequence[str] = ()) -> Names:
    """Of all names those of a layer's own tensors; a file may have the others, those behind it, and what is unread."""
    own = layer.state_dict()
    sources = {name: source for name, source in every.items() if name in own}
    used = {n for source in sources.values() for n in source.names}
    others = [*every.values(), *behind.sources.values()]
    left = dict.fromkeys(n for source in others for n in source.names if n not in used)
    return Names(sources, (*(f"^{re.escape(n)}$" for n in left), *behind.unused, *unread))
