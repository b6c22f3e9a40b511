"""L2-SP: weights are pulled to what they were when they were loaded (Li et al. 2018, arXiv:1802.01483, equation 4).

The penalty is alpha / 2 |w - w0|^2 over parameters that were loaded as w0, and beta / 2 |w|^2 over those that were
drawn. Its gradient is added to that of the losses before gradients are clipped, so that no loss term changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from framework import Tensor, no_grad, ops, tensor
from framework.errors import CheckpointError

if TYPE_CHECKING:
    from suites.engine.config.sections import L2SPSettings


class Pull:
    """The penalty's gradients.

    Args:
        settings: how strong.
        params: those that are trained, by name.
        loaded: names of those that hold loaded weights now; None where `load_state_dict` will say so.
    """

    def __init__(self, settings: L2SPSettings, params: Mapping[str, Tensor], loaded: Collection[str] | None) -> None:
        self._settings, self._params = settings, dict(params)
        kept = [] if loaded is None else [name for name in params if name in loaded]
        self._anchors = {name: _anchor(name, params[name]) for name in kept}

    def __str__(self) -> str:
        new = len(self._params) - len(self._anchors)
        return (
            f"L2-SP: {len(self._anchors)} parameters are pulled to what was loaded (alpha {self._settings.alpha:g}), "
            f"{new} new ones to 0 (beta {self._settings.beta:g})"
        )

    @property
    def count(self) -> int:
        """How many parameters were loaded."""
        return len(self._anchors)

    def add(self, scale: Tensor | None) -> None:
        """Add to the gradients that there are; `scale` is that of the loss, float32 []."""
        with no_grad():
            for name, p in self._params.items():
                if p.grad is None:
                    continue
                anchor = self._anchors.get(name)
                pull = p * self._settings.beta if anchor is None else (p - anchor) * self._settings.alpha
                p.grad = p.grad + (pull if scale is None else pull * scale)

    def state_dict(self) -> dict[str, Tensor]:
        """The loaded weights by name."""
        return dict(self._anchors)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take up what `state_dict` returned; raise CheckpointError if it is another model's."""
        wrong = [n for n, w in state.items() if n not in self._params or self._params[n].shape != w.shape]
        if wrong:
            raise CheckpointError(f"finetune.l2_sp: the checkpoint has weights of another model, such as '{wrong[0]}'")
        self._anchors = {name: _anchor(name, weight) for name, weight in state.items()}


def _anchor(name: str, weight: Tensor) -> Tensor:
    kept = tensor(ops.copy(weight.detach()))
    kept.persistable, kept.name = True, f"loaded/{name}"
    return kept
