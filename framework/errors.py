"""Every error that Paddock raises on purpose, with one message format.

A message reads ``who: what was found, what is allowed, what to do``, for example
``conv2d: x has 48 channels (axis -1 of [8, 56, 56, 48]) but weight [64, 3, 3, 32] expects 32``.
The C++ core raises the first five by name; Python code raises all of them.
"""

from __future__ import annotations


class PaddockError(Exception):
    """Base of all errors raised on purpose, so that tools can print them without a traceback."""


class ShapeError(PaddockError, ValueError):
    """Shapes of an operator's inputs do not fit each other or its attributes."""


class DTypeError(PaddockError, TypeError):
    """An operator was given a data type that it does not take."""


class AttributeValueError(PaddockError, ValueError):
    """An operator's attribute or a function's argument has a value outside its range."""


class NotSupportedError(PaddockError, NotImplementedError):
    """A combination is valid but has no kernel, gradient or implementation here."""


class StateError(PaddockError, RuntimeError):
    """A state was half written by a run that failed; set it again before it is read."""


class HostError(PaddockError, RuntimeError):
    """Hosts that train together did not meet, differ in what they run, or one of them is lost.

    Attributes:
        GO_ON: what to do where one is lost.
    """

    GO_ON = (
        "checkpoints are whole: start all hosts again with --resume, as many as there are (the batch must divide by "
        "them)"
    )


class DeviceMemoryError(PaddockError, MemoryError):
    """A device has no room for what a Program needs."""


class GradientError(PaddockError, RuntimeError):
    """A gradient was asked for where none can be computed."""


class UserFunctionError(PaddockError, RuntimeError):
    """A function of the user's that we call (py_func, Function) failed; its own error is the cause."""


class LibraryError(PaddockError, RuntimeError):
    """A library of custom operators cannot be loaded; the message says what to do."""


class TraceError(PaddockError, RuntimeError):
    """A function cannot be traced into a Program; the message names the user's line."""


class ConfigError(PaddockError, ValueError):
    """A configuration file or override is wrong; the message names file, line and key."""


class DataError(PaddockError, ValueError):
    """A data file (image, annotation, list) is missing, damaged or inconsistent."""


class WorkerError(PaddockError, RuntimeError):
    """A worker process could not start or died; the message says how."""


class CheckpointError(PaddockError, RuntimeError):
    """A checkpoint or weight file is missing, damaged, or belongs to another model."""


class NumericsError(PaddockError, ArithmeticError):
    """A loss or gradient became NaN or infinite; the message names the term and the batch."""
