"""Why a request gets no answer, each with its HTTP status."""

from __future__ import annotations

from http import HTTPStatus

from framework.errors import PaddockError


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
