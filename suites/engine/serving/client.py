"""A client of the server: texts to vectors or predictions, over connections that stay open.

    vectors = Client("http://127.0.0.1:8080").encode(["a text", "another"])

Needs NumPy and the standard library only. `http.client` is enough: requests are small and one at a time, and a client
that has nothing to install can be copied anywhere.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from framework.errors import AttributeValueError, PaddockError

_RETRIED = (429, 502, 503)  # answers that another attempt may mend
_LONGEST_PAUSE = 10.0


class ServerError(PaddockError):
    """The server refused a request, or could not be reached.

    Attributes:
        status: of its answer; 0 if there was none.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Client:
    """Asks one server; threads may share a client, each request has a connection to itself.

    Args:
        url: of the server, as `http://127.0.0.1:8080`.
        timeout: seconds that an attempt may take.
        retries: further attempts after a full queue (503) or a lost connection, with pauses that double and that the
            server's Retry-After may lengthen.
        token: what a guarded server wants to see.
        model: that is asked, by its name, of a server of several; NAME@VERSION asks one of its versions.
    """

    def __init__(
        self, url: str, *, timeout: float = 60.0, retries: int = 5, token: str | None = None, model: str | None = None
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise AttributeValueError(f"client: '{url}' is no address such as http://127.0.0.1:8080")
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port = parts.hostname, parts.port
        self._path = parts.path.rstrip("/")
        self._timeout = timeout
        self._retries = retries
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._model = {} if model is None else {"model": model}
        self._idle: list[http.client.HTTPConnection] = []

    def encode(
        self, items: Iterable[Any], *, batch_size: int = 64, pooling: str | None = None, normalize: bool = False
    ) -> np.ndarray:
        """Return the vectors of items, float32 [N, D].

        Args:
            items: texts, pairs of texts as lists of two, or what else the model takes.
            batch_size: items a request; the server makes batches of its own.
            pooling: how token vectors become one; by default the model's first.
            normalize: whether vectors are scaled to length 1.

        Raises ServerError.
        """
        body = {"normalize": normalize, "encoding_format": "base64"} | ({"pooling": pooling} if pooling else {})
        body |= self._model
        rows = [
            np.frombuffer(base64.b64decode(row["embedding"]), "<f4").astype(np.float32)
            for answer in self._in_parts("/v1/embeddings", items, batch_size, body)
            for row in answer["data"]
        ]
        return np.stack(rows) if rows else np.zeros((0, 0), np.float32)

    def score(self, items: Iterable[Any], *, batch_size: int = 64) -> list[Any]:
        """Return the predictions for items, in the form that the model's suite gives them; raises ServerError."""
        answers = self._in_parts("/v1/scores", items, batch_size, self._model)
        return [row["result"] for answer in answers for row in answer["data"]]

    def health(self) -> dict[str, Any]:
        """Return what the server says of itself; raises ServerError when it answers no requests."""
        found: dict[str, Any] = self.request("GET", "/health")
        return found

    def request(self, method: str, path: str, content: Any = None) -> Any:
        """Send one request and return its JSON; raises ServerError."""
        body = None if content is None else json.dumps(content).encode()
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                status, retry_after, data = self._exchange(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                if last:
                    raise ServerError(f"{self._host}:{self._port}: {type(error).__name__}: {error}", 0) from error
                retry_after = None
            else:
                if status == 200:
                    return json.loads(data)
                if status not in _RETRIED or last:
                    raise ServerError(f"{path}: status {status}: {_message(data)}", status)
            time.sleep(_pause(attempt, retry_after))
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Close idle connections; the client may be used again."""
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def _in_parts(
        self, path: str, items: Iterable[Any], batch_size: int, body: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        if isinstance(items, str):
            raise AttributeValueError("client: items are a list, not one text; put it into a list")
        if batch_size < 1:
            raise AttributeValueError(f"client: batch_size is {batch_size}; it must be 1 or more")
        everything: Sequence[Any] = list(items)
        for start in range(0, len(everything), batch_size):
            yield self.request("POST", path, {"input": everything[start : start + batch_size], **body})

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, str | None, bytes]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._kind(self._host, self._port, timeout=self._timeout)
        try:
            connection.request(method, self._path + path, body, self._headers)
            response = connection.getresponse()
            data = response.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return response.status, response.headers.get("Retry-After"), data


def _pause(attempt: int, retry_after: str | None) -> float:
    """Seconds before the next attempt: doubling, at random so that clients do not come back all at once."""
    told = float(retry_after) if retry_after and retry_after.isdigit() else 0.0
    return min(_LONGEST_PAUSE, max(told, 0.1 * 2**attempt)) * random.uniform(0.5, 1.0)


def _message(data: bytes) -> str:
    try:
        return str(json.loads(data)["error"])
    except (ValueError, KeyError, TypeError):
        return data[:200].decode(errors="replace")
