"""Tensors under another framework's names into a model, every one of them accounted for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from framework.errors import CheckpointError
from framework.nn import Layer
from framework.patterns import checked
from framework.tensors import tensor

HARMLESS = "counters of PyTorch's batch norms not used"
_COUNTER = "num_batches_tracked"
_SHOWN = 8  # names listed of each kind of difference


@dataclass(frozen=True)
class Source:
    """Where a parameter of ours comes from: tensors of a file, joined along their first axis.

    Attributes:
        names: theirs, in order.
        axes: which of their axes ours are, where the order is another: (1, 0) of Paddle's linear weights [in, out].
        flipped: axes of ours that run backwards there.
        skipped: their first rows that ours has no place for, such as those of a box for "background".
        rows: for each of our rows the number of theirs, where the order is another; left as it is where they have
            another number of rows. Rows lie along their axis that becomes our first.
        repeated: how often theirs lies in ours along the last axis, each time divided by this number: the weights of an
            image network for frames laid side by side, which then see the mean frame.
        view: extents that their tensor, a matrix, is seen with before its axes are ordered. The first is -1, its rows,
            or the last is, its columns. Afterwards it is a matrix again, of our rows.
        ones: so many last axes of theirs have an extent of 1 and are not in ours, such as those of a 1x1 convolution
            that is a linear layer here.
        frames: our last axis is so many of theirs times their channels: the frames of a 3-D kernel side by side. `axes`
            has the frames before the channels, last.
        summed: so many neighbours in `names` are added up to one tensor: the two biases of PyTorch's recurrent layers.
        stacked: the tensors lie along a new first axis of ours, not one after the other: directions of such layers.
        columns: for each of our channels along the last axis the number of theirs, where maps are joined in another
            order; left as it is where they have another number.
        less: a tensor of theirs that is taken off: off a batch norm's running mean, the bias of the convolution before.
        picked: (k, n) takes row k of every n of theirs alone, such as the logit of one class of n at each prior. Rows
            lie as for `rows`.
    """

    names: tuple[str, ...]
    axes: tuple[int, ...] | None = None
    flipped: tuple[int, ...] = ()
    skipped: int = 0
    rows: tuple[int, ...] | None = None
    repeated: int = 1
    view: tuple[int, ...] | None = None
    ones: int = 0
    frames: int = 0
    summed: int = 1
    stacked: bool = False
    columns: tuple[int, ...] | None = None
    less: str | None = None
    picked: tuple[int, int] | None = None

    @property
    def needed(self) -> tuple[str, ...]:
        """All tensors of theirs that it is made of."""
        return self.names if self.less is None else (*self.names, self.less)

    def inside(self, prefix: str) -> Source:
        """The same where their names have `prefix` before them."""
        less = None if self.less is None else prefix + self.less
        return replace(self, names=tuple(prefix + name for name in self.names), less=less)

    def joined(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Tensors as `ours` gives them, one for each of `names`, as one; the first where they do not fit together."""
        if len(parts) == 1 or len({part.shape[1:] for part in parts}) > 1 or not all(part.ndim for part in parts):
            return parts[0]
        if self.summed > 1:
            parts = [np.sum(parts[at : at + self.summed], axis=0) for at in range(0, len(parts), self.summed)]
        return np.stack(parts) if self.stacked else np.concatenate(parts)

    def divided(self, ours: np.ndarray) -> list[np.ndarray]:
        """The inverse of `joined`; of tensors that it adds up the first has all, the others zeros."""
        count = len(self.names) // self.summed
        parts = list(ours) if self.stacked else np.split(ours, count)
        return [part if not k else np.zeros_like(part) for part in parts for k in range(self.summed)]

    def ours(self, theirs: np.ndarray) -> np.ndarray:
        """A tensor of theirs as ours has it; as it is where it has another number of axes."""
        theirs = theirs[self.skipped :]
        if self.ones and theirs.shape[-self.ones :] == (1,) * self.ones:
            theirs = theirs.reshape(theirs.shape[: -self.ones])
        at = self._row_axis(theirs)
        if self.rows is not None and len(self.rows) == theirs.shape[at]:
            theirs = np.take(theirs, self.rows, axis=at)
        if self.picked is not None and theirs.shape[at] % self.picked[1] == 0:
            theirs = np.take(theirs, range(self.picked[0], theirs.shape[at], self.picked[1]), axis=at)
        if self.view is not None and self.axes is not None:
            try:
                seen = theirs.reshape(self.view)
            except ValueError:
                return theirs
            return seen.transpose(self.axes).reshape(seen.shape[self.axes[0]], -1)
        if self.axes is None or theirs.ndim != len(self.axes):
            return theirs
        ours = np.flip(theirs.transpose(self.axes), self.flipped)
        if self.columns is not None and len(self.columns) == ours.shape[-1]:
            ours = ours[..., list(self.columns)]
        if self.frames:
            return ours.reshape(*ours.shape[:-2], -1)
        return np.concatenate([ours / self.repeated] * self.repeated, axis=-1) if self.repeated > 1 else ours

    def _row_axis(self, theirs: np.ndarray) -> int:
        """Their axis that becomes our first."""
        return self.axes[0] if self.axes is not None and self.view is None and theirs.ndim == len(self.axes) else 0

    def theirs(self, ours: np.ndarray) -> np.ndarray:
        """The inverse of `ours`; their rows that it skips, or does not pick, are zeros."""
        if self.ones:
            kept = replace(self, ones=0).theirs(ours)
            return kept.reshape(*kept.shape, *(1,) * self.ones)
        if self.rows is not None:
            return replace(self, rows=None).theirs(ours[np.argsort(self.rows)])
        if self.picked is not None:
            k, n = self.picked
            rows = np.zeros((len(ours) * n, *ours.shape[1:]), ours.dtype)
            rows[k::n] = ours
            return replace(self, picked=None).theirs(rows)
        if self.skipped:
            rows = replace(self, skipped=0).theirs(ours)
            return np.concatenate([np.zeros((self.skipped, *rows.shape[1:]), rows.dtype), rows])
        if self.columns is not None:
            return replace(self, columns=None).theirs(ours[..., np.argsort(self.columns)])
        if self.view is not None and self.axes is not None:
            extents = [self.view[axis] for axis in self.axes]
            seen = ours.reshape(extents).transpose(np.argsort(self.axes))
            return seen.reshape(-1, len(ours)) if self.view[-1] == -1 else seen.reshape(len(ours), -1)
        if self.frames:
            frames = ours.reshape(*ours.shape[:-1], self.frames, -1)
            return np.flip(frames, self.flipped).transpose(np.argsort(self.axes or range(frames.ndim)))
        if self.repeated > 1:  # frames that differ are summed: what a film of one frame sees
            ours = ours.reshape(*ours.shape[:-1], self.repeated, -1).sum(axis=-2)
        return ours if self.axes is None else np.flip(ours, self.flipped).transpose(np.argsort(self.axes))


@dataclass(frozen=True)
class Names:
    """What another framework calls the tensors of a model.

    Attributes:
        sources: for names of the model, where they come from.
        unused: regular expressions of names of theirs that may find no place in the model.
        copies: likewise, with the name of ours that such a tensor has to equal: an output matrix in the file of a model
            whose word vectors are that matrix too.
    """

    sources: Mapping[str, Source]
    unused: tuple[str, ...] = ()
    copies: Mapping[str, str] = field(default_factory=dict)

    @property
    def theirs(self) -> set[str]:
        """All tensors of a file that it asks for."""
        return {name for source in self.sources.values() for name in source.needed}

    def below(self, prefix: str) -> Names:
        """The same for a model that has this one under `prefix`, such as "backbone."."""
        copies = {pattern: prefix + name for pattern, name in self.copies.items()}
        return Names({prefix + name: source for name, source in self.sources.items()}, self.unused, copies)

    def inside(self, prefix: str) -> Names:
        """The same where their names have `prefix` before them, such as "vit."; what is unused is found as before."""
        if not prefix:
            return self
        moved = {n: s.inside(prefix) for n, s in self.sources.items()}

        def below(pattern: str) -> str:
            return f"^{re.escape(prefix)}{pattern[1:]}" if pattern.startswith("^") else pattern

        return Names(moved, tuple(map(below, self.unused)), {below(p): name for p, name in self.copies.items()})

    def __or__(self, other: Names) -> Names:
        """Both together: `other` names further tensors of the model."""
        return Names({**self.sources, **other.sources}, (*self.unused, *other.unused), {**self.copies, **other.copies})


@dataclass(frozen=True)
class ClassRows:
    """Where the rows of classes lie along the first axis of a tensor whose size depends on their number K.

    The axis is `groups` times: `before` rows of no class, `each` rows of every class, `after` rows of no class.
    """

    groups: int = 1
    before: int = 0
    each: int = 1
    after: int = 0

    def kept(
        self, own: np.ndarray, theirs: np.ndarray, names: Sequence[str], their_names: Sequence[str]
    ) -> np.ndarray | None:
        """Our tensor with their rows of no class, and of classes whose name both know; else our own rows.

        Args:
            own: [groups * (before + each * K + after), ...].
            theirs: the same for another number of classes.
            names: of our K classes; none where nobody knows them.
            their_names: of theirs, likewise.

        Returns None where `theirs` is no such tensor.
        """
        width = len(theirs) // self.groups
        count, rest = divmod(width - self.before - self.after, self.each)
        if len(theirs) % self.groups or rest or count < 1 or theirs.shape[1:] != own.shape[1:]:
            return None
        ours = own.reshape(self.groups, -1, *own.shape[1:]).copy()
        given = theirs.reshape(self.groups, width, *own.shape[1:])
        ours[:, : self.before] = given[:, : self.before]
        ours[:, ours.shape[1] - self.after :] = given[:, width - self.after :]
        if len(their_names) == count:
            for k, name in enumerate(names):
                if name in their_names:
                    ours[:, self._of(k)] = given[:, self._of(their_names.index(name))]
        return ours.reshape(own.shape)

    def _of(self, k: int) -> slice:
        """The rows of class k in a group."""
        return slice(self.before + k * self.each, self.before + (k + 1) * self.each)


@dataclass(frozen=True)
class Classes:
    """Names of the classes that a model has and of those that a file's network has; empty where nobody knows them."""

    ours: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()

    @property
    def differ(self) -> bool:
        """Whether both are known and are not the same in the same order."""
        return bool(self.ours and self.theirs) and self.ours != self.theirs

    @property
    def shared(self) -> list[str]:
        """Names of ours that the file has too."""
        return [name for name in self.ours if name in self.theirs]


@dataclass(frozen=True)
class LoadReport:
    """What became of the tensors of a file.

    Attributes:
        loaded: names of ours that were replaced.
        new: names of ours that the file does not have and was allowed not to have; they are as they were.
        unused: names of the file that this model has no place for.
        resized: names of ours that the file has for another number of classes, with both shapes; they are as they were.
        partly: names of ours of which rows were replaced: those of no class, and of the classes in `shared`.
        shared: names of classes that the file has too.
    """

    loaded: list[str]
    new: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    resized: list[str] = field(default_factory=list)
    partly: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{len(self.loaded)} tensors loaded"]
        lines += [f"{len(self.new)} new: {shown(self.new)}"] if self.new else []
        if self.resized:
            lines.append(f"{len(self.resized)} new, of another size in the file: {shown(self.resized)}")
        if self.partly:
            known = f"; of the classes {shown(self.shared)}" if self.shared else "; its classes start new"
            lines.append(f"{len(self.partly)} in part, for other classes: {shown(self.partly)}{known}")
        counters = [name for name in self.unused if name.endswith(_COUNTER)]
        left = [name for name in self.unused if name not in counters]
        lines += [f"{len(left)} of the file not used: {shown(left)}"] if left else []
        lines += [f"{len(counters)} {HARMLESS}"] if counters else []
        return "; ".join(lines)


def brief(line: str) -> str:
    """A line about loaded weights without what needs nobody's attention."""
    return "; ".join(part for part in line.split("; ") if not part.endswith(HARMLESS))


def shown(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f", ... ({len(names) - _SHOWN} more)" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def load_mapped(
    model: Layer,
    arrays: Mapping[str, np.ndarray],
    sources: Mapping[str, Source],
    *,
    file: str,
    new: Iterable[str] = (),
    unused: Iterable[str] = (),
    resized: Iterable[str] = (),
    rows: Mapping[str, ClassRows] = MappingProxyType({}),
    classes: Classes = Classes(),
    copies: Mapping[str, str] = MappingProxyType({}),
) -> LoadReport:
    """Puts arrays under foreign names into a model.

    Args:
        model: whose parameters and buffers are replaced by copies.
        arrays: the file's tensors by its names.
        sources: for names of the model, where they come from.
        file: for messages.
        new: prefixes of names of the model that the file may lack; those stay as they are.
        unused: regular expressions of names of the file that may find no place.
        resized: regular expressions of names of the model that may be missing or of another shape in the file, as they
            depend on the number of classes; those stay as they are.
        rows: by regular expressions of names, where the rows of classes lie in such tensors, which keep what fits.
        classes: of the model and of the file.
        copies: by regular expressions, names of the file that find no place and have to equal a tensor of the model;
            see `Names`.

    Raises:
        CheckpointError: something is missing, unexpected, of another shape or no copy; all of it is listed, and the
            model is unchanged.
    """
    state, other_size, missing, different = _assembled(model, arrays, sources)
    resized = (*resized, *_new_tensors(model))
    fresh = [name for name in missing if name.startswith(tuple(new)) or _matches(name, resized)]
    other = [text for name, text in different.items() if not _matches(name, resized)]
    used = Names(sources).theirs
    left = [name for name in arrays if name not in used]
    own = model.state_dict()
    whole_numbers = [
        f"{name} ({array.dtype})"
        for name, array in state.items()
        if array.dtype.kind in "iu" and array.ndim > 1 and own[name].dtype.startswith(("float", "bfloat"))
    ]
    endless = [name for name, array in state.items() if not _is_finite(array)]
    unexpected = [name for name in left if not _matches(name, (*unused, *copies))]
    problems = [
        f"{len(names)} {what}: {shown(names)}"
        for what, names in (
            ("not of finite numbers, as after a training that diverged", endless),
            ("missing", [f"{n} (from {_wanted(sources, n)})" for n in missing if n not in fresh]),
            ("unexpected", unexpected),
            ("of another shape", other),
            (
                "of another content than the tensor that the model has for both, so it is not known which is meant "
                "(take one out of the file, or say in its config.json that they differ: tie_word_embeddings: false)",
                _no_copies({name: arrays[name] for name in left}, state, copies),
            ),
            ("of whole numbers, as a file in 8 or 4 bits has them (take the one it was made of)", whole_numbers),
        )
        if names
    ]
    if problems:
        raise CheckpointError(f"{file}: it does not fit this {type(model).__name__}; {'; '.join(problems)}")
    partly: dict[str, np.ndarray] = {}
    for name, array in (state | other_size if classes.differ else other_size).items():
        layout = next((found for pattern, found in rows.items() if checked(pattern).search(name)), None)
        kept = layout.kept(own[name].numpy(), array, classes.ours, classes.theirs) if layout else None
        if kept is not None:
            partly[name] = kept
    whole = {name: array for name, array in state.items() if name not in partly}
    for name, array in (whole | partly).items():
        own[name].set(tensor(array, dtype=own[name].dtype))
    note_loaded(model, whole)
    new_size = [text for name, text in different.items() if name not in partly]
    return LoadReport(list(whole), fresh, left, new_size, list(partly), classes.shared if partly else [])


def note_loaded(layer: Layer, names: Iterable[str]) -> None:
    """Remember which tensors of a network, or of a part of one, hold weights that were loaded."""
    layer.__dict__.setdefault("_holds_loaded", set()).update(names)


def loaded_tensors(model: Layer) -> set[str]:
    """Names of the tensors that hold weights from a file, as a whole; not those of which only rows were kept."""
    return {
        f"{path}.{name}" if path else name
        for path, part in model.named_layers()
        for name in part.__dict__.get("_holds_loaded", ())
    }


def _is_finite(array: np.ndarray) -> bool:
    """Whether no number of an array is NaN or infinite; the sum tells nearly always, and is faster."""
    if array.dtype.kind not in "fc":
        return True
    with np.errstate(all="ignore"):
        return bool(np.isfinite(array.sum()) or np.isfinite(array).all())


def _no_copies(left: Mapping[str, np.ndarray], state: Mapping[str, np.ndarray], copies: Mapping[str, str]) -> list[str]:
    """Which tensors should equal one of the model's and do not, to the precision of bfloat16."""
    found = []
    for pattern, ours in copies.items():
        for name, array in left.items() if ours in state else ():
            if checked(pattern).search(name):
                own = state[ours]
                same = array.shape == own.shape and np.allclose(array, own, rtol=2.0**-7, atol=2.0**-24)
                found += [] if same else [f"{name} ({ours})"]
    return found


def _new_tensors(model: Layer) -> Iterator[str]:
    """Expressions for tensors that files of plain networks lack, as layers say by `new_tensors`."""
    for path, part in model.named_layers():
        for name in getattr(part, "new_tensors", ()):
            yield f"^{re.escape(f'{path}.{name}' if path else name)}"


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(checked(pattern).search(name) for pattern in patterns)


def _wanted(sources: Mapping[str, Source], name: str) -> str:
    return " + ".join(sources[name].needed) if name in sources else "no known name"


def _assembled(
    model: Layer, arrays: Mapping[str, np.ndarray], sources: Mapping[str, Source]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[str], dict[str, str]]:
    """The model's tensors that the file has, those of another shape, the names that it lacks, and both shapes."""
    state: dict[str, np.ndarray] = {}
    other_size: dict[str, np.ndarray] = {}
    missing: list[str] = []
    different: dict[str, str] = {}
    for name, own in model.state_dict().items():
        source = sources.get(name)
        if source is None or any(theirs not in arrays for theirs in source.needed):
            missing.append(name)
            continue
        parts = [source.ours(arrays[theirs]) for theirs in source.names]
        joined = source.joined(parts)
        if source.less is not None and arrays[source.less].shape == joined.shape:
            joined = joined - arrays[source.less]
        if joined.shape == own.shape:
            state[name] = joined
        else:
            theirs = " + ".join(f"{n} {list(arrays[n].shape)}" for n in source.names)
            different[name] = f"{name} {list(own.shape)} from {theirs}"
            other_size[name] = joined
    return state, other_size, missing, different


def rename(model: Layer, sources: Mapping[str, Source]) -> dict[str, np.ndarray]:
    """The model's tensors under foreign names: what `load_mapped` undoes.

    Raises:
        CheckpointError: a tensor of the model has no foreign name.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, own in model.state_dict().items():
        if name not in sources:
            raise CheckpointError(f"{type(model).__name__}: '{name}' has no name in this format")
        source = sources[name]
        for theirs, part in zip(source.names, source.divided(own.numpy()), strict=True):
            arrays[theirs] = np.ascontiguousarray(source.theirs(part))
        if source.less is not None:
            arrays[source.less] = np.zeros_like(arrays[source.names[0]])
    return arrays
