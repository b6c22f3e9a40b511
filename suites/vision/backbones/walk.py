"""A walk over a backbone's blocks, for models that put something between or into them."""

from __future__ import annotations

from collections.abc import Callable

from framework.tensors import Tensor
from suites.vision.backbones.base import Backbone, Block, Place

Visit = Callable[[Place, Block, Tensor], Tensor]  # called in place of each block, with what the block takes


def places(backbone: Backbone) -> list[Place]:
    """Where each block stands, in the order in which the image passes them.

    Raises:
        NotSupportedError: the backbone is not made of blocks.
    """
    return [place for place, _ in backbone.placed()]


def walk(backbone: Backbone, x: Tensor, visit: Visit) -> list[Tensor]:
    """As `backbone(x)`, but `visit(place, block, x)` is called for `block(x)`.

    Raises:
        NotSupportedError: the backbone is not made of blocks.
    """
    last: dict[int, Tensor] = {}  # what the last block of each stride gave
    blocks = backbone.placed()
    x = backbone.before_blocks(x)
    for place, block in blocks:
        x = last[place.stride] = visit(place, block, x)
    return [backbone.after_blocks(last[stride]) for stride in backbone.strides]
