"""One file from an address: resumed where it was cut, checked by its digest, under its name only when it is whole.

What has come so far lies beside the file as `.NAME.KEY.part`, so a lost connection, Ctrl-C, a full disk or kill -9 cost
nothing. A lock on it lets one process download while others wait for the result.
"""

from __future__ import annotations

import contextlib
import email.utils
import hashlib
import http.client
import os
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from framework import limits
from framework.atomic import flush, make_folder, move
from framework.errors import CheckpointError
from framework.locks import alone
from framework.outside import open_file
from framework.remedies import refusal

SCHEMES = ("https", "http", "file")
_BLOCK = 1 << 18
_TIMEOUT = 60.0  # seconds without a byte
_SLOWEST = 4096  # bytes a second of what has come so far; a source that is slower is given up
_TRIES = 5  # in a row that bring no byte
_LONGEST_WAIT = 60.0  # seconds that a server may ask for
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})  # statuses after which the same request may succeed
_SAID_EVERY = 5.0  # seconds
_REDIRECTS = 10
_HINTS = {
    401: "it needs a login or a token",
    403: "it may not be read; it may need a login, or be gone",
    404: "there is no such file",
    410: "it is gone",
}

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """A file to download.

    Args:
        url: where it is: https, http or file.
        path: where it goes.
        sha256: its digest, or the first digits of it; "" where it is not known.
        size: its bytes; None where they are not known.
        name: of it in messages.
        remedy: what a person may do where it cannot be had, such as "put it there by hand".
        token: that the server asks for; no other server is told it.
    """

    url: str
    path: Path
    sha256: str = ""
    size: int | None = None
    name: str = ""
    remedy: str = ""
    token: str = field(default="", repr=False)

    def error(self, text: str) -> CheckpointError:
        """An error that names the file and what to do."""
        return CheckpointError(
            "; ".join(part for part in (f"{self.name or self.path.name}: {text}", self.remedy) if part)
        )


def download(wanted: Wanted, say: Say = lambda line: None, sleep: Callable[[float], None] = time.sleep) -> str:
    """Put a file at its path, and return its SHA-256 digest.

    Args:
        wanted: the file. One that is there already is checked and stays.
        say: takes lines for people: progress, and what went wrong on the way.
        sleep: waits so many seconds before the next try.

    Raises:
        CheckpointError: it cannot be had, or is not what it should be. What came of it stays for the next try, unless
            it is wrong.
    """
    if urlsplit(wanted.url).scheme not in SCHEMES or not wanted.url.isprintable():
        raise wanted.error(f"{wanted.url!r} is no address that files are fetched from")
    try:
        make_folder(wanted.path.parent)
        path, name = _part_of(wanted), wanted.name or wanted.path.name
        with alone(path, lambda: say(f"{name}: another process downloads it; waiting")) as file:
            if wanted.path.is_file():
                return _checked(wanted, wanted.path)
            return _Download(wanted, path, file, say, sleep).run()
    except OSError as error:  # of the disk; those of the network are told below
        raise wanted.error(f"{wanted.path} cannot be written ({refusal(error)})") from None


def digest_of(path: Path) -> str:
    """The SHA-256 digest of a file, in hexadecimal digits."""
    found = hashlib.sha256()
    with open_file(path, None) as stream:
        while block := stream.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def _checked(wanted: Wanted, path: Path) -> str:
    """The digest of a file that is there; CheckpointError where it is not the wanted one."""
    size = path.stat().st_size
    if wanted.size is not None and size != wanted.size:
        raise wanted.error(f"{path if path == wanted.path else wanted.url} has {size} bytes, not {wanted.size}")
    found = digest_of(path)
    if not found.startswith(wanted.sha256):
        place = path if path == wanted.path else wanted.url
        raise wanted.error(f"{place} has the digest {found}, not {wanted.sha256}: it is damaged or another file")
    return found


def _part_of(wanted: Wanted) -> Path:
    """Where what has come so far lies; another file of the same name has another one."""
    key = hashlib.sha256(f"{wanted.url} {wanted.sha256}".encode()).hexdigest()[:8]
    return wanted.path.with_name(f".{wanted.path.name}.{key}.part")


class _Passing(Exception):
    """A try that failed in a way that may pass, and the seconds that the server asks for."""

    def __init__(self, text: str, after: float = 0.0) -> None:
        super().__init__(text)
        self.after = after


@dataclass
class _Download:
    """One download into the file of what has come so far, which nobody else writes to."""

    wanted: Wanted
    part: Path
    file: IO[bytes]
    say: Say
    sleep: Callable[[float], None]
    _from: int = 0  # bytes that were there before
    _total: int | None = None
    _began: float = field(default_factory=time.monotonic)  # later by what was waited for since
    _told: float = field(default_factory=time.monotonic)
    _lost: int = 0  # tries in a row without a byte

    def run(self) -> str:
        """Download, check, and give the file its name."""
        wanted, file = self.wanted, self.file
        self._total = wanted.size
        self._from = file.seek(0, os.SEEK_END)
        if wanted.size is not None:
            limits.check("weight_bytes", wanted.size, f"{wanted.name or wanted.url}: it has too many bytes")
            if self._from > wanted.size:
                self._restart()
        if self._from:
            self.say(f"{wanted.path.name}: {self._from / 1e6:.1f} MB are here already; going on from there")
        while not self._is_whole():
            self._try()
        os.fsync(file.fileno())
        try:
            found = _checked(wanted, self.part)
        except CheckpointError:
            began_here = self._from == 0
            self._restart()
            if began_here:
                raise
            self.say(f"{wanted.path.name}: what was here already is of another file; from the beginning")
            return self.run()
        move(self.part, wanted.path)
        flush(wanted.path.parent)
        return found

    def _restart(self) -> None:
        self.file.seek(0)
        self.file.truncate()
        self._from, self._began = 0, time.monotonic()

    def _is_whole(self) -> bool:
        return self._total is not None and self.file.seek(0, os.SEEK_END) >= self._total

    def _try(self) -> None:
        """One request; after a fault that may pass the next one is due."""
        before = self.file.seek(0, os.SEEK_END)
        try:
            self._request(before)
            return
        except _Passing as fault:
            text, after = str(fault), fault.after
        self._lost = 0 if self.file.seek(0, os.SEEK_END) > before else self._lost + 1
        if self._lost >= _TRIES:
            raise self.wanted.error(f"{self.wanted.url} cannot be fetched ({text}), {_TRIES} times in a row")
        wait = min(_LONGEST_WAIT, max(after, 2.0 ** (self._lost - 1) if self._lost else 0.0))
        self.say(f"{self.wanted.path.name}: {text}; again in {wait:.0f} s")
        since = time.monotonic()
        self.sleep(wait)
        self._began += time.monotonic() - since

    def _request(self, have: int) -> None:
        with contextlib.ExitStack() as stack:
            answer = stack.enter_context(self._answer(have))
            if self._is_page(answer):
                raise self.wanted.error(
                    f"{self.wanted.url} gives a web page and not the file: a login or a proxy may stand in between"
                )
            if getattr(answer, "status", None) != http.client.PARTIAL_CONTENT and have:
                self._restart()
                have = 0
            length = answer.headers.get("Content-Length", "")
            self._expect(have + int(length) if length.isascii() and length.isdigit() else None)
            self._receive(answer, have)

    def _answer(self, have: int) -> Any:
        """The server's answer to a request for what is behind `have` bytes."""
        headers = {"User-Agent": "paddock", "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        url = self.wanted.url
        try:
            _expect_regular(url)
            opener = urllib.request.build_opener(_Redirects())
            request = urllib.request.Request(url, headers=headers)
            if self.wanted.token:
                request.add_unredirected_header("Authorization", f"Bearer {self.wanted.token}")
            return opener.open(request, timeout=_TIMEOUT)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and have:
                self._restart()
                raise _Passing("what is here already does not belong to it; from the beginning") from None
            if error.code in _PASSING:
                raise _Passing(f"the server says {error.code}", _asked(error.headers)) from None
            hint = f": {_HINTS[error.code]}" if error.code in _HINTS else ""
            reason = str(error.reason).partition("\n")[0]
            raise self.wanted.error(f"{url} cannot be fetched ({error.code} {reason}{hint})") from None
        except urllib.error.URLError as error:
            raise self._fault(error.reason) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._fault(error) from None

    def _fault(self, cause: object) -> Exception:
        """A fault of the network: one that may pass, or an error."""
        url = self.wanted.url
        if isinstance(cause, socket.gaierror):
            return self.wanted.error(
                f"{url} cannot be fetched: {urlsplit(url).hostname} is not known; is there a network?"
            )
        if isinstance(cause, (ssl.SSLCertVerificationError, ValueError)) or url.startswith("file:"):
            return self.wanted.error(f"{url} cannot be fetched ({cause})")
        return _Passing(f"the connection fails ({cause})")

    def _is_page(self, answer: Any) -> bool:
        kind = answer.headers.get_content_type() if answer.headers else ""
        return kind == "text/html" and not urlsplit(self.wanted.url).path.endswith((".html", ".htm"))

    def _expect(self, total: int | None) -> None:
        """Refuse a file of another size than it should have, or of more bytes than may be."""
        if total is None:
            return
        if self.wanted.size is not None and total != self.wanted.size:
            self._restart()
            raise self.wanted.error(f"{self.wanted.url} has {total} bytes, not {self.wanted.size}")
        limits.check("weight_bytes", total, f"{self.wanted.name or self.wanted.url}: it has too many bytes")
        self._total = total

    def _receive(self, answer: Any, have: int) -> None:
        most = self._total if self._total is not None else limits.current().weight_bytes
        file = self.file
        file.seek(have)
        while have <= most:
            try:
                block = answer.read(min(_BLOCK, most + 1 - have))
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise _Passing(f"the connection is lost ({error})") from None
            if not block:
                break
            written = memoryview(block)
            while written:
                written = written[file.write(written) :]
            have += len(block)
            if time.monotonic() - self._began > _TIMEOUT + (have - self._from) / _SLOWEST:
                raise self.wanted.error(
                    f"{self.wanted.url} cannot be fetched: it sends fewer than {_SLOWEST} bytes a second"
                )
            self._progress(have)
        if self._total is None:
            if have > most:
                self._restart()
                limits.check("weight_bytes", have, f"{self.wanted.name or self.wanted.url}: it has too many bytes")
            self._total = have
        elif have > self._total:
            self._restart()
            raise self.wanted.error(f"{self.wanted.url} has {have} bytes, not {self._total}")
        elif have < self._total:
            raise _Passing(f"the connection ended after {have} of {self._total} bytes")

    def _progress(self, have: int) -> None:
        now = time.monotonic()
        if now - self._told < _SAID_EVERY:
            return
        self._told = now
        rate = (have - self._from) / (now - self._began)
        text = f"{self.wanted.path.name}: {have / 1e6:.1f} MB, {rate / 1e6:.2f} MB/s"
        if self._total:
            left = (self._total - have) / max(rate, 1.0)
            text = f"{text}, {have / self._total:.0%}, {left:.0f} s left"
        self.say(text)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, and none from https to http; a token goes along to the same server only."""

    max_redirections = _REDIRECTS

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        scheme = urlsplit(newurl).scheme
        if scheme == "http" and urlsplit(req.full_url).scheme == "https":
            raise ValueError(f"it leads to {newurl[:200]!r}, which is not followed")
        found = super().redirect_request(req, fp, code, msg, headers, newurl)
        if found is not None and _server(newurl) == _server(req.full_url):
            for name, value in req.unredirected_hdrs.items():
                if name == "Authorization":
                    found.add_unredirected_header(name, value)
        return found


def _server(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _expect_regular(url: str) -> None:
    """Raise ValueError for an address of a file that is none, such as a pipe, which might never end."""
    local = url2pathname(urlsplit(url).path)
    if url.startswith("file:") and Path(local).exists() and not Path(local).is_file():
        raise ValueError(f"{local} is no file")


def _asked(headers: Any) -> float:
    """The seconds of `Retry-After`: a number, or a date behind the server's own `Date`."""
    text = str(headers.get("Retry-After") or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        due, sent = (email.utils.parsedate_to_datetime(each) for each in (text, str(headers.get("Date") or "")))
        return max(0.0, (due - sent).total_seconds())
    except (ValueError, TypeError):
        return 0.0
