"""Weights from files into models: our own, and those of other frameworks under other names.

Nothing that is read can run code: pickles go through an interpreter that knows tensors and nothing else.
"""

from suites.engine.weights.answers import drawn
from suites.engine.weights.formats.reading import find_weights, read_weights
from suites.engine.weights.loading import load_weights
from suites.engine.weights.matching import ClassRows, LoadReport, Names, Source, load_mapped, rename
from suites.engine.weights.origins import Origins
from suites.engine.weights.pretrained import (
    load_pretrained,
    load_wanted,
    load_what_fits,
    loaded_names,
    resolve,
    shown_otherwise,
    start_from,
    wants_weights,
)

__all__ = [
    "ClassRows",
    "LoadReport",
    "Names",
    "Origins",
    "Source",
    "drawn",
    "find_weights",
    "load_mapped",
    "load_pretrained",
    "load_wanted",
    "load_weights",
    "load_what_fits",
    "loaded_names",
    "read_weights",
    "rename",
    "resolve",
    "shown_otherwise",
    "start_from",
    "wants_weights",
]
