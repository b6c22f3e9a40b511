"""Which algorithm convolutions take where their call names none: a choice for a block of code and this thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from framework.context import context
from framework.errors import AttributeValueError

CHOICES = ("auto", "direct")


@contextlib.contextmanager
def conv_algorithm(name: str) -> Iterator[None]:
    """Inside, convolutions and their gradients whose `algorithm` is "auto" take `name`: "auto" or "direct".

    It is read when an operator runs, or is traced: a Program keeps what it was traced with, and one that was traced
    outside is traced again inside. "direct" computes every product of the definition and no transform, so its rounding
    errors are the smaller ones; "auto" takes what should be fastest for the shapes.

    Raises:
        AttributeValueError: there is no such choice.
    """
    if name not in CHOICES:
        raise AttributeValueError(f"conv_algorithm: it is '{name}'; takes {', '.join(map(repr, CHOICES))}")
    before, context.conv_algorithm = context.conv_algorithm, name
    try:
        yield
    finally:
        context.conv_algorithm = before


def chosen(algorithm: str) -> str:
    """What an operator's attribute `algorithm` comes to here."""
    return context.conv_algorithm if algorithm == "auto" else algorithm
