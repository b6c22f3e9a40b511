"""Why a request gets no answer, each with its HTTP status."""

from __future__ import annotations

import re
from http import HTTPStatus

from framework.errors import PaddockError

_MOST_SHOWN = 2000  # characters of a message; what is wrong may be as long as the body
_BEFORE_PATHS = "'\"`([{<=,"
_ROUTES = ("/v1/", "/v2/")  # of this server, no folders


def shown(error: object) -> str:
    """What a client reads of an error: no folder of the machine that serves, or of the one that exported the model."""
    return re.sub(r"\S+", _without_folders, str(error)[:_MOST_SHOWN])


def _without_folders(found: re.Match[str]) -> str:
    word = found[0]
    for at, letter in enumerate(word):
        if letter == "/" and (at == 0 or word[at - 1] in _BEFORE_PATHS) and "/" in word[at + 1 :]:
            if word.startswith(_ROUTES, at):
                return word
            return word[:at] + word.rpartition("/")[2]
    return word


class RequestError(PaddockError):
    """A request that is refused; the base class is for one that is wrong.

    Attributes:
        status: of the HTTP answer.
        retry_after: seconds after which another attempt makes sense, if any does.
    """

    status: int = HTTPStatus.BAD_REQUEST
    retry_after: int | None = None


class TooLarge(RequestError):
    """The body, an item or the number of items is over its limit."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class Forbidden(RequestError):
    """Who asks may not have this done."""

    status = HTTPStatus.FORBIDDEN


class UnknownCoding(RequestError):
    """The body is packed in a way that is not known."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class NotThere(RequestError):
    """There is no such model, version or output."""

    status = HTTPStatus.NOT_FOUND


class QueueFull(RequestError):
    """As much is waiting as may wait."""

    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Closed(RequestError):
    """The server ends and takes nothing new."""

    status = HTTPStatus.SERVICE_UNAVAILABLE
    retry_after = 5


class DeadlineExceeded(RequestError):
    """The answer was not there in time."""

    status = HTTPStatus.GATEWAY_TIMEOUT


class Cancelled(RequestError):
    """Nobody waits for the answer any more; 499 is what other servers log for it."""

    status = 499


class Broken(RequestError):
    """The server failed, through no fault of the request."""

    status = HTTPStatus.INTERNAL_SERVER_ERROR
