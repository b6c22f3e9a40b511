"""kind_of: what computes the steps of a model in pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from suites.nlp.models.ensemble import Ensemble
from suites.nlp.models.paged.ensembles import PagedEnsemble
from suites.nlp.models.paged.language import PagedSteps
from suites.nlp.models.paged.recurrent import PagedRnn, PagedStates
from suites.nlp.models.paged.translating import PagedPairs
from suites.nlp.models.writing import WritingModel

_KINDS: Sequence[type[PagedSteps] | type[PagedPairs] | type[PagedStates] | type[PagedRnn]]
_KINDS = (PagedSteps, PagedPairs, PagedStates, PagedRnn)


class Kind(NamedTuple):
    """What computes a model's steps in pages.

    Attributes:
        make: the steps, of the model and `pages`, `page` and `int8`.
        page_bytes: what a page of so many words takes.
    """

    make: Callable[..., Any]
    page_bytes: Callable[[int], int]


def kind_of(model: WritingModel) -> Kind | None:
    """What computes the steps of a model; None where they are not computed in pages."""
    if isinstance(model, Ensemble):
        found = [kind_of(member) for member in model.members]  # type: ignore[arg-type]
        kinds = [kind for kind in found if kind is not None]
        if len(kinds) < len(found):
            return None
        return Kind(
            lambda ensemble, **how: PagedEnsemble(ensemble, [kind.make for kind in kinds], **how),
            lambda page: sum(kind.page_bytes(page) for kind in kinds),
        )
    for kind in _KINDS:
        if kind.fits(model):
            return Kind(kind, partial(kind.bytes_of_page, model))  # type: ignore[arg-type]
    return None
