"""Weights from files into models: our own, and those of other frameworks under other names.

Nothing that is read can run code: pickles go through an interpreter that knows tensors and nothing else.
"""

from typing import TYPE_CHECKING

from framework.lazy import exports

if TYPE_CHECKING:
    from suites.engine.weights.answers import drawn as drawn
    from suites.engine.weights.formats.reading import find_weights as find_weights
    from suites.engine.weights.formats.reading import read_weights as read_weights
    from suites.engine.weights.loading import load_weights as load_weights
    from suites.engine.weights.matching import ClassRows as ClassRows
    from suites.engine.weights.matching import LoadReport as LoadReport
    from suites.engine.weights.matching import Names as Names
    from suites.engine.weights.matching import Source as Source
    from suites.engine.weights.matching import load_mapped as load_mapped
    from suites.engine.weights.matching import rename as rename
    from suites.engine.weights.origins import Origins as Origins
    from suites.engine.weights.pretrained import load_pretrained as load_pretrained
    from suites.engine.weights.pretrained import load_wanted as load_wanted
    from suites.engine.weights.pretrained import load_what_fits as load_what_fits
    from suites.engine.weights.pretrained import loaded_names as loaded_names
    from suites.engine.weights.pretrained import resolve as resolve
    from suites.engine.weights.pretrained import shown_otherwise as shown_otherwise
    from suites.engine.weights.pretrained import start_from as start_from
    from suites.engine.weights.pretrained import wants_weights as wants_weights

_MODULES = {
    "answers": "drawn",
    "formats.reading": "find_weights read_weights",
    "loading": "load_weights",
    "matching": "ClassRows LoadReport Names Source load_mapped rename",
    "origins": "Origins",
    "pretrained": "load_pretrained load_wanted load_what_fits loaded_names resolve shown_otherwise start_from "
    "wants_weights",
}

__getattr__, __dir__ = exports(__name__, {name: module for module, names in _MODULES.items() for name in names.split()})
