"""Optimizer: updates named parameters from their gradients, eagerly or inside a traced Program.

Slots (momentum and the like), the learning rate and the step counter are persistable tensors, so that a Program reads
and updates them in place and a new learning rate needs no new trace.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Required, TypedDict, cast

import numpy as np

from framework import ops
from framework.autograd.tape import no_grad
from framework.context import context
from framework.errors import AttributeValueError, CheckpointError
from framework.ops import internal
from framework.tensors import Tensor, tensor


def _groups(params: Params) -> list[ParamGroup]:
    """The groups, or one of all pairs.

    Raises:
        AttributeValueError: a group takes something else, or lacks its parameters.
    """
    given: list[Any] = list(params)
    groups = [g for g in given if isinstance(g, Mapping)]
    if not groups:
        return [ParamGroup(params=given)]
    for group in given:
        unknown = set(group) - ParamGroup.__annotations__.keys() if isinstance(group, Mapping) else {"a pair"}
        if unknown or "params" not in group:
            raise AttributeValueError(
                "optimizer: a group of parameters takes params (pairs of name and parameter), lr and weight_decay"
                + (f", not {', '.join(sorted(unknown))}" if unknown else "; params is missing")
            )
    return cast("list[ParamGroup]", groups)


def _persistable(t: Tensor, name: str) -> Tensor:
    t.persistable, t.name = True, name
    return t


class Wait(NamedTuple):
    """Parameters that join later; `since` is int64 [], the number of updates when they joined, or -1 until then."""

    params: dict[str, Tensor]
    since: Tensor


class ParamGroup(TypedDict, total=False):
    """Parameters with a learning rate or weight decay of their own; what is left out is the optimizer's.

    Attributes:
        params: (name, parameter) pairs.
        lr: where a schedule gives the optimizer's, this group's keeps its proportion to it.
        weight_decay: of all of these parameters, vectors too.
    """

    params: Required[Iterable[tuple[str, Tensor]]]
    lr: float
    weight_decay: float


Params = Iterable[tuple[str, Tensor]] | Iterable[ParamGroup]


class Optimizer:
    """Base of all optimizers.

    Args:
        params: (name, parameter) pairs, as from `model.named_parameters()`, or groups of them; frozen ones are left
            out.
        lr: learning rate where `step()` is called without one.
        weight_decay: L2 penalty (added to the gradient; decoupled in AdamW).
        decay_vectors: also decay parameters with fewer than two axes: biases and norms' scales. Off, as is usual.
        lr_multipliers: factor on the learning rate by name pattern such as `backbone.*`; the first that fits counts.
        lazy_rows: name patterns of tables [V, D], such as `*.embedding.weight`, whose rows stand still in a step that
            gives them no gradient: no momentum moves them and no weight decay. In a Program such a step costs what the
            rows cost that it touches, however many there are.

    Attributes:
        lr_scaling: how the learning rate follows the batch where a schedule does not say; see `Schedule`.
        lr: float32 [], the learning rate; `set_lr` changes it.
        steps: int64 [], updates done.
    """

    rule: ClassVar[str]  # of the operators `<rule>_step` and `<rule>_rows_step`; one without overrides `_update`
    slot_names: tuple[str, ...] = ()  # the states of a parameter, in the operators' order
    counted: ClassVar[bool] = False  # whether the operators take the step's number
    of_rows: ClassVar[dict[str, Any]] = {}  # attributes of the rows' operator only
    lr_scaling: ClassVar[Literal["linear", "sqrt", "none"]] = "linear"

    def __init__(
        self,
        params: Params,
        lr: float = 0.01,
        weight_decay: float = 0.0,
        decay_vectors: bool = False,
        lr_multipliers: Mapping[str, float] | None = None,
        lazy_rows: Sequence[str] = (),
    ) -> None:
        expect_amounts(type(self).__name__, lr=lr, weight_decay=weight_decay)
        self._params: dict[str, Tensor] = {}
        self._decay: dict[str, float] = {}
        own_rates: dict[str, float] = {}
        for group in _groups(params):
            own = {name: group[name] for name in ("lr", "weight_decay") if name in group}
            expect_amounts(type(self).__name__, **own)
            for name, p in group["params"]:
                if name in self._params:
                    raise AttributeValueError(f"{type(self).__name__}: parameter '{name}' is given twice")
                if p.requires_grad:
                    self._params[name] = p
                    decayed = decay_vectors or p.ndim > 1
                    self._decay[name] = group.get("weight_decay", weight_decay if decayed else 0.0)
                    own_rates[name] = group.get("lr", lr) / lr if lr else 1.0
        if not self._params:
            raise AttributeValueError(f"{type(self).__name__}: there are no parameters to train")
        self._factor = {n: f * own_rates[n] for n, f in self._factors(lr_multipliers or {}).items()}
        self._all_rows = self._lazy(lazy_rows)
        self._waits: dict[str, Wait] = {}
        self.lr = _persistable(tensor(np.array(lr, np.float32)), "optimizer/lr")
        self.steps = _persistable(tensor(np.array(0, np.int64)), "optimizer/steps")
        self._slots = {
            slot: {
                n: _persistable(ops.full_like(p.detach(), value=0.0), f"optimizer/{slot}/{n}")
                for n, p in self._params.items()
            }
            for slot in self.slot_names
        }

    def _expect_used(self, argument: str, patterns: Iterable[str]) -> None:
        unused = [p for p in patterns if not fnmatch.filter(self._params, p)]
        if unused:
            raise AttributeValueError(
                f"{type(self).__name__}: {argument}: no parameter is called '{unused[0]}'; "
                f"names look like {', '.join(list(self._params)[:3])}"
            )

    def _lazy(self, patterns: Sequence[str]) -> dict[str, Tensor]:
        """The numbers of all rows, int64 [V], of the tables whose rows may stand still."""
        self._expect_used("lazy_rows", patterns)
        names = [n for n in self._params if any(fnmatch.fnmatchcase(n, p) for p in patterns)]
        for n in names:
            if self._params[n].ndim != 2:
                raise AttributeValueError(
                    f"{type(self).__name__}: lazy_rows: '{n}' has {self._params[n].ndim} axes; a table of rows has 2"
                )
        return {n: tensor(np.arange(self._params[n].shape[0])) for n in names}

    def _factors(self, patterns: Mapping[str, float]) -> dict[str, float]:
        self._expect_used("lr_multipliers", patterns)
        fitting = {n: [f for p, f in patterns.items() if fnmatch.fnmatchcase(n, p)] for n in self._params}
        return {n: factors[0] if factors else 1.0 for n, factors in fitting.items()}

    def decay_summary(self) -> str:
        """How many parameters weight decay reaches, and which it leaves out, in one line; "" where there is none."""
        rates = sorted({d for d in self._decay.values() if d})
        if not rates:
            return ""
        spared = [n for n, d in self._decay.items() if not d]
        left = f"; {len(spared)} are left out: {', '.join(spared[:3])}{', ...' if len(spared) > 3 else ''}"
        return (
            f"weight decay {', '.join(f'{r:g}' for r in rates)} on {len(self._decay) - len(spared)} of "
            f"{len(self._decay)} parameters{left if spared else ''}"
        )

    @property
    def params(self) -> dict[str, Tensor]:
        """The parameters that are trained, by name."""
        return dict(self._params)

    def scale_lr(self, factors: Mapping[str, float]) -> None:
        """Multiplies the learning rate of single parameters, by name, on top of `lr_multipliers`.

        Raises:
            AttributeValueError: a name is no parameter's that is trained.
        """
        unknown = [name for name in factors if name not in self._params]
        if unknown:
            raise AttributeValueError(
                f"{type(self).__name__}: scale_lr: no trained parameter is called '{unknown[0]}'; "
                f"names look like {', '.join(list(self._params)[:3])}"
            )
        for name, factor in factors.items():
            self._factor[name] *= factor

    def hold(self, key: str, names: Iterable[str]) -> None:
        """Lets parameters wait: they ask for no gradient and stay as they are until `release(key)`.

        A rule that counts updates, as Adam's bias correction does, counts theirs from that moment on. The state keeps
        who waits. A Program of `step` must be traced again after each of the two calls.

        Raises:
            AttributeValueError: the key is used already, or a name is no parameter's that is trained and does not wait.
        """
        waiting = {name for wait in self._waits.values() for name in wait.params}
        chosen = {name: self._params.get(name) for name in names}
        wrong = [name for name, p in chosen.items() if p is None or name in waiting]
        if wrong or key in self._waits:
            what = f"'{wrong[0]}' is no trained parameter, or waits already" if wrong else f"'{key}' is used already"
            raise AttributeValueError(f"{type(self).__name__}: hold: {what}")
        params = {name: p for name, p in chosen.items() if p is not None}
        since = _persistable(tensor(np.array(-1, np.int64)), f"optimizer/joined/{key}")
        self._waits[key] = Wait(params, since)
        _ask(params, gradients=False)

    def release(self, key: str) -> None:
        """Ends the waiting of the parameters that were held under this key."""
        wait = self._waits[key]
        wait.since.set(ops.copy(self.steps))
        _ask(wait.params, gradients=True)

    def waiting(self, key: str) -> bool:
        """Whether the parameters that were held under this key wait still."""
        return int(self._waits[key].since.item()) < 0

    def set_lr(self, lr: float) -> None:
        """Changes the learning rate of the coming steps."""
        self.lr.set(tensor(np.array(lr, np.float32)))

    def zero_grad(self) -> None:
        """Forgets all gradients."""
        for p in self._params.values():
            p.grad = None

    def step(self, lr: Tensor | None = None, grad_scale: Tensor | None = None) -> None:
        """Updates every parameter that has a gradient.

        In a Program the gradients are used up: their memory serves others, and reading `grad` afterwards is an error.

        Args:
            lr: float32 [], in place of `self.lr`; an input of the Program when traced.
            grad_scale: float32 [], factor on all gradients, such as `LossScaler.factor`. Where it is NaN or infinite
                the update is skipped: weights, slots and `steps` stay as they are.
        """
        with no_grad():
            rate = self.lr if lr is None else lr
            count = self.steps + 1
            self.steps.set(count if grad_scale is None else ops.where(ops.isfinite(grad_scale), count, self.steps))
            rates = {1.0: rate, **{f: rate * f for f in sorted(set(self._factor.values()) - {1.0})}}
            counts = dict.fromkeys(self._params, count)
            for wait in self._waits.values():
                counts |= dict.fromkeys(wait.params, count - wait.since)
            for name, p in self._params.items():
                if p.grad is not None:
                    self._update(name, p, p.grad, rates[self._factor[name]], counts[name], grad_scale)
        trace = context.trace
        if trace is not None:
            trace.grads.use_up(list(self._params.values()))

    def _update(self, name: str, p: Tensor, grad: Tensor, lr: Tensor, count: Tensor, grad_scale: Tensor | None) -> None:
        """Sets `p` and its slots to their next values; `count` is the update's number, from 1."""
        states, rows = [p, *(self._slots[slot][name] for slot in self.slot_names)], self._all_rows.get(name)
        step = getattr(internal, f"{self.rule}_step" if rows is None else f"{self.rule}_rows_step")
        given = [p, grad] if rows is None else [p, rows, grad]
        scalars = [lr, count] if self.counted else [lr]
        attrs = self._attributes() | ({} if rows is None else self.of_rows)
        new = step(*given, *states[1:], *scalars, grad_scale, weight_decay=self._decay[name], **attrs)
        for state, value in zip(states, new if len(states) > 1 else [new], strict=True):
            state.set(value)

    def _attributes(self) -> dict[str, Any]:
        """What the operators of its rule take besides weight decay."""
        return {}

    def _named_state(self) -> dict[str, Tensor]:
        slots = {f"{slot}/{n}": t for slot, by_name in self._slots.items() for n, t in by_name.items()}
        joined = {f"joined/{key}": wait.since for key, wait in self._waits.items()}
        return {"lr": self.lr, "steps": self.steps, **slots, **joined}

    def state_dict(self) -> dict[str, Tensor]:
        """Learning rate, step count and slots: the live tensors by name."""
        return self._named_state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes up a state, copying it.

        Raises:
            CheckpointError: it belongs to another optimizer or model.
        """
        own = self._named_state()
        values = {n: v if isinstance(v, Tensor) else tensor(v) for n, v in state.items()}
        wrong = sorted(own.keys() ^ values.keys())
        wrong += [n for n in own if n in values and (values[n].dtype, values[n].shape) != (own[n].dtype, own[n].shape)]
        if wrong:
            raise CheckpointError(
                f"{type(self).__name__}: this state is of another optimizer or model; {len(wrong)} entries do not fit, "
                f"the first is '{wrong[0]}'"
            )
        for name, t in own.items():
            t.set(ops.copy(values[name]))
        for key, wait in self._waits.items():
            _ask(wait.params, gradients=not self.waiting(key))


def _ask(params: Mapping[str, Tensor], *, gradients: bool) -> None:
    for p in params.values():
        p.requires_grad = gradients
        p.grad = None


def expect_amounts(who: str, **values: float) -> None:
    """Refuses values, by name, that are below 0, infinite, or no numbers: every weight would be none after a step."""
    for name, value in values.items():
        if not 0 <= value < float("inf"):
            raise AttributeValueError(f"{who}: {name} is {value}; it must be 0 or more, and finite")


def expect_shares(who: str, **values: float) -> None:
    """Refuses shares of a running mean, by name, that do not lie in [0, 1)."""
    for name, value in values.items():
        if not 0 <= value < 1:
            raise AttributeValueError(f"{who}: {name} is {value}; it must lie in [0, 1)")
