"""Schema: which columns of a click log are features, labels, groups and times, and which slot each feature has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from framework.errors import AttributeValueError, ConfigError
from framework.outside import read_text
from suites.ctr.schema.features import Crossed, Dense, Feature, Label, MultiValued, Sequence, Signed, Sparse
from suites.ctr.schema.signs import MAX_SLOT
from suites.engine.config import build_value, plain
from suites.engine.config.config import build_node
from suites.engine.config.schema.components import slot_of
from suites.engine.config.tree.yaml_text import parse_text
from suites.engine.data.intake.written import Written
from suites.engine.names import did_you_mean, listing
from suites.engine.registry import REGISTRY

Kind = TypeVar("Kind", bound=Feature)


@dataclass(frozen=True, kw_only=True)
class Format:
    """How a file is cut into rows and columns.

    Args:
        kind: "delimited" text, CSV and its kin; a "slot" log, a line of `label slot:sign slot:sign ...`, whose columns
            are the slots; or "parquet". For these two only `missing` matters, and for slot logs `head` and `order`.
        head: names of the values that stand before the pairs of a slot log, such as [show, click].
        order: whether the slot or the sign comes first in a pair.
        delimiter: between two columns, one character; "\\t" in Criteo's files.
        header: whether the first line names the columns; "first" where only the first of several files has one.
        columns: their names in the file's order, where there is no header.
        missing: texts that mean that a value is not known; the empty one does anyway.
        strip: take away spaces around a value.
        quote: the character around values that hold the delimiter; null where none is special.
        newlines: whether such a value may also hold ends of lines. A log in memory takes them anyway; a streamed one is
            then read twice, as its blocks have to be cut between rows.
        encoding: of the text where no byte-order mark says it; null for UTF-8. A streamed log must be UTF-8.
        written: by column, how its numbers or its dates are written where they are not plain, such as `1.234,50 €`. It
            counts where a number, a date or a time is wanted, not for the values of `Sparse` without `bucket`.
    """

    kind: Literal["delimited", "slot", "parquet"] = "delimited"
    head: tuple[str, ...] = ()
    order: Literal["slot:sign", "sign:slot"] = "slot:sign"
    delimiter: str = ","
    header: bool | Literal["first"] = True
    columns: tuple[str, ...] | None = None
    missing: tuple[str, ...] = ()
    strip: bool = False
    quote: str | None = '"'
    newlines: bool = False
    encoding: str | None = None
    written: dict[str, Written] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1:
            raise AttributeValueError(f"Format: delimiter is {self.delimiter!r}; it must be one character")
        if self.quote is not None and len(self.quote) != 1:
            raise AttributeValueError(f"Format: quote is {self.quote!r}; it must be one character, or null")
        if self.newlines and self.quote is None:
            raise AttributeValueError("Format: newlines is for values in quotes, and quote is null")
        if not self.header and not self.columns:
            raise AttributeValueError("Format: without a header, columns must name the columns")
        of_text = (self.delimiter, self.header, self.columns, self.strip, self.quote, self.newlines, self.encoding)
        if self.kind != "delimited" and of_text != (",", True, None, False, '"', False, None):
            raise AttributeValueError(
                "Format: delimiter, header, columns, strip, quote, newlines and encoding are for delimited text; "
                f"kind is {self.kind}"
            )
        if self.kind == "slot" and self.written:
            raise AttributeValueError("Format: written is for columns of texts; kind is slot")
        if self.kind != "slot" and (self.head or self.order != "slot:sign"):
            raise AttributeValueError(f"Format: head and order are for slot logs; kind is {self.kind}")
        if len(set(self.head)) != len(self.head):
            raise AttributeValueError(f"Format: head is {list(self.head)}; each name may stand there once")
        if self.columns and len(set(self.columns)) != len(self.columns):
            twice = sorted({name for name in self.columns if self.columns.count(name) > 1})
            raise AttributeValueError(f"Format: the column {twice[0]} is named twice")


@dataclass(frozen=True)
class Fields:
    """What a batch of a schema holds, as models see it.

    Attributes:
        fields: names of the F vectors of a row: sparse and crossed features, then multi-valued ones.
        bags: (name, pooling) of the multi-valued ones, the last of `fields`.
        sequences: (name, place in `fields` of what it is compared with, -1 for nothing) of the sequences.
        groups: places in `sequences` that go together, value by value; the first of each has the offsets.
        max_lengths: of each sequence.
        dense: D, the number of dense features.
        labels: names of the L labels.
    """

    fields: tuple[str, ...]
    bags: tuple[tuple[str, str], ...] = ()
    sequences: tuple[tuple[str, int], ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    max_lengths: tuple[int, ...] = ()
    dense: int = 0
    labels: tuple[str, ...] = ("label",)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The declaration of a click log.

    Args:
        features: by name, in the order of the batch's columns. Columns that nobody names are not read.
        labels: by name; one for most models, several for MMoE and ESMM. Logs to predict on need not have them.
        format: of text files.
        group: column of what rows are ranked within, such as the user, for GAUC.
        time: column of the time, in whole seconds, or of dates (`format.written`).
        weight: column of the weight of each row, 0 or more.
    """

    features: dict[str, Feature]
    labels: dict[str, Label]
    format: Format = field(default_factory=Format)
    group: str | None = None
    time: str | None = None
    weight: str | None = None

    def __post_init__(self) -> None:
        if not self.features:
            raise AttributeValueError("Schema: features is empty; declare at least one")
        if not self.labels:
            raise AttributeValueError("Schema: labels is empty; declare what is predicted")
        self._check_members()
        self._check_sequences()
        self._check_places()
        self._check_written()
        for name in {"sparse", "dense", "labels", "group", "time", "weight"} & self.features.keys():
            raise AttributeValueError(f"Schema: no feature can be called '{name}', which is a part of every batch")
        self.slots()

    def _check_members(self) -> None:
        before: list[str] = []
        for name, feature in self.features.items():
            for member in feature.of if isinstance(feature, Crossed) else ():
                if member not in before:
                    raise AttributeValueError(
                        f"Schema: '{name}' crosses '{member}', which is no sparse feature declared before it"
                        f"{did_you_mean(member, before) or f'; those are {listing(before)}'}"
                    )
            if isinstance(feature, (Sparse, Crossed)):
                before.append(name)

    def _check_sequences(self) -> None:
        sequences = self.of(Sequence)
        for name, feature in sequences.items():
            if feature.along is not None and (feature.along not in sequences or sequences[feature.along].along):
                raise AttributeValueError(
                    f"Schema: '{name}' goes along '{feature.along}', which is no sequence that stands for itself"
                    f"{did_you_mean(feature.along, sequences) or ''}"
                )

    def spread(self) -> dict[str, int]:
        """How many columns side by side hold the values of a feature, by the first of them, where there are several."""
        counts = {name: feature.count for name, feature in self.of(MultiValued).items()}
        counts |= {name: feature.count for name, feature in self.of(Sequence).items()}
        return {self.column_of(name): count for name, count in counts.items() if count > 1}

    def _check_places(self) -> None:
        if self.format.kind != "delimited" and self.spread():
            raise AttributeValueError(
                f"Schema: count is for columns of delimited text; format.kind is {self.format.kind}"
            )
        for name, feature in self.features.items():
            place = getattr(feature, "place", 0)
            if place < 0 or (place and (self.format.kind != "slot" or self.column_of(name) in self.format.head)):
                raise AttributeValueError(
                    f"Schema: '{name}' takes place {place}; that is a number from 0 in a slot of a slot log"
                )

    def _check_written(self) -> None:
        """Written forms are of columns that are read; what takes dates and what takes numbers finds them."""
        columns = self.columns()
        for column in self.format.written:
            if column not in columns:
                raise AttributeValueError(
                    f"Schema: format.written names '{column}', which nothing reads{did_you_mean(column, columns) or ''}"
                )
        for name, feature in self.of(Sparse).items():
            dated = feature.bucket in ("hour", "weekday")
            if feature.bucket and dated != self._is_date(self.column_of(name)):
                raise AttributeValueError(
                    f"Schema: '{name}' has bucket {feature.bucket}, which is for "
                    f"{'dates' if dated else 'numbers'}; say in format.written what '{self.column_of(name)}' holds"
                )
        plain_labels = [name for name, label in self.labels.items() if label.positive is None]
        numbers = [self.weight, *map(self.column_of, plain_labels)]
        for column in filter(None, numbers):
            if self._is_date(column):
                raise AttributeValueError(f"Schema: '{column}' is a date, so it is no label of numbers and no weight")

    def _is_date(self, column: str) -> bool:
        form = self.format.written.get(column)
        return form is not None and form.date is not None

    def of(self, kind: type[Kind]) -> dict[str, Kind]:
        """The features of a kind by name, in order."""
        return {name: feature for name, feature in self.features.items() if isinstance(feature, kind)}

    def sparse(self) -> list[str]:
        """Names of the columns of `sparse`: sparse and crossed features."""
        return [name for name, feature in self.features.items() if isinstance(feature, (Sparse, Crossed))]

    def ragged(self) -> list[str]:
        """Names of the features that are laid end to end: multi-valued ones, then sequences."""
        return [*self.of(MultiValued), *self.of(Sequence)]

    def slots(self) -> dict[str, int]:
        """The slot of each feature that has one; those of one vocabulary share it.

        Raises:
            AttributeValueError: two vocabularies want the same slot, one wants two, or there are more than 4,095.
        """
        signed = self.of(Signed)
        found: dict[str, int] = {}
        for name, feature in signed.items():
            vocabulary = feature.vocabulary or name
            if feature.slot is not None and found.setdefault(vocabulary, feature.slot) != feature.slot:
                raise AttributeValueError(
                    f"Schema: the vocabulary '{vocabulary}' has slots {found[vocabulary]} and "
                    f"{feature.slot}; give it one"
                )
        owners = {slot: vocabulary for vocabulary, slot in found.items()}
        if len(owners) < len(found):
            twice = next(slot for slot in found.values() if list(found.values()).count(slot) > 1)
            raise AttributeValueError(f"Schema: slot {twice} belongs to two vocabularies; give each its own")
        free = (slot for slot in range(1, MAX_SLOT + 1) if slot not in owners)
        for name, feature in signed.items():
            vocabulary = feature.vocabulary or name
            if vocabulary not in found:
                slot = next(free, None)
                if slot is None:
                    raise AttributeValueError(f"Schema: there are more than {MAX_SLOT} vocabularies")
                found[vocabulary] = slot
        return {name: found[feature.vocabulary or name] for name, feature in signed.items()}

    def fields(self) -> Fields:
        """What models are told of the batches."""
        bags = self.of(MultiValued)
        names = (*self.sparse(), *bags)
        sequences = self.of(Sequence)
        order = list(sequences)
        heads = [name for name, feature in sequences.items() if feature.along is None]
        groups = tuple(
            tuple(order.index(name) for name in order if name == head or sequences[name].along == head)
            for head in heads
        )
        return Fields(
            fields=names,
            bags=tuple((name, bag.pooling) for name, bag in bags.items()),
            sequences=tuple((name, self._compared(name, feature, names)) for name, feature in sequences.items()),
            groups=groups,
            max_lengths=tuple(feature.max_length for feature in sequences.values()),
            dense=len(self.of(Dense)),
            labels=tuple(self.labels),
        )

    def _compared(self, name: str, sequence: Sequence, fields: tuple[str, ...]) -> int:
        """The place of the field of the same vocabulary, -1 where there is none."""
        vocabulary = sequence.vocabulary or name
        signed = self.of(Signed)
        return next((i for i, field in enumerate(fields) if (signed[field].vocabulary or field) == vocabulary), -1)

    def with_scales(self, scales: Mapping[str, tuple[float, float]]) -> Schema:
        """The schema with center and scale of the dense features that learn them."""
        features = {
            name: replace(feature, center=scales[name][0], scale=scales[name][1])
            if isinstance(feature, Dense) and name in scales
            else feature
            for name, feature in self.features.items()
        }
        return replace(self, features=features)

    def column_of(self, name: str) -> str:
        """The column that a feature or a label is read from."""
        declared: Any = self.features.get(name) or self.labels[name]
        return declared.column or name

    def columns(self, *, labels: bool = True) -> list[str]:
        """All columns that are read, each once."""
        names = [self.column_of(name) for name, feature in self.features.items() if not isinstance(feature, Crossed)]
        names += [self.column_of(name) for name in self.labels] if labels else []
        names += [name for name in (self.group, self.time, self.weight) if name and labels]
        return list(dict.fromkeys(names))

    def is_number(self, column: str) -> bool:
        """Whether the signs of a column are hashed as numbers: those behind the slots of a slot log."""
        return self.format.kind == "slot" and column not in self.format.head

    def plain(self) -> dict[str, Any]:
        """The declaration as plain data, as a YAML file has it."""
        found: dict[str, Any] = plain(self, suite="ctr")
        return found


def schema_of(value: Any) -> Schema:
    """The schema that plain data describes; raise ConfigError for one that does not fit."""
    schema: Schema = build_value(value, Schema, suite="ctr")
    return schema


def read_schema(path: Path | str) -> Schema:
    """The schema of a YAML file.

    Raises:
        ConfigError: there is no such file, or what is wrong in it, by line.
    """
    path = Path(path)
    try:
        node = parse_text(read_text(path, "yaml_bytes", ConfigError), str(path))
    except OSError as error:
        raise ConfigError(
            f"{path}: the schema cannot be read ({error.strerror}); write one with `paddock data schema`"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is no UTF-8 text ({error.reason})") from None
    if not isinstance(node.value, dict):
        raise ConfigError(f"{path}: is no schema; it must have `features` and `labels`")
    schema: Schema = build_node(slot_of(Schema, REGISTRY.seen_by("ctr")), node, ())
    return schema
