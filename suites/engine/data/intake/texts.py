"""Texts that people write: their encoding by its mark or as it is given, lines as three systems end them, JSON.

A text that is not UTF-8 is refused with the encoding that it seems to have; it is never guessed without a word, and
never read with holes.
"""

from __future__ import annotations

import codecs
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from framework.errors import ConfigError, DataError
from suites.engine.data.intake.naming import shown
from suites.engine.data.skipping import SetError, usable
from suites.engine.reporting import Tally

Row = TypeVar("Row")
# Longest first: the mark of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LOOKED_AT = 1 << 16  # bytes, to say which encoding a text seems to have
_WESTERN = frozenset("àâäáãåæçèéêëìíîïñòóôöõøœùúûüßÀÂÄÁÃÅÆÇÈÉÊËÌÍÎÑÒÓÔÖÕØŒÙÚÛÜ¡¿ºª«»‘’‚“”„–—…€£°§·©®\u00a0")
_NOT_ASCII = re.compile(rb"[\x80-\xff]+")
_DECLARATION = 200  # bytes in which an XML file says its encoding
_TELLING = 64  # bytes below which no encoding is told from another


@dataclass(frozen=True)
class Encoding:
    """How the bytes of a file are text.

    Attributes:
        name: of the codec.
        mark: how many bytes of a byte-order mark stand before the text.
    """

    name: str
    mark: int = 0


def encoding_of(data: bytes, given: str | None, where: str, option: str = "") -> Encoding:
    """The encoding of a text: by its byte-order mark, else the one that is given, else UTF-8.

    Args:
        data: the text, or its beginning.
        given: the name of an encoding; None where the user gave none.
        where: the file, for messages.
        option: the option that gives it, for messages; "" where there is none.

    Raises:
        ConfigError: Python knows no encoding of the given name.
        DataError: the text is UTF-16 or UTF-32 without a mark and none is given.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            return Encoding(name, len(mark))
    if given is not None:
        return Encoding(_known(given, where))
    wide = _wide(data)
    if wide is not None:
        raise DataError(f"{where}: {_refusal(f'seems to be {wide} without a byte-order mark', wide, option)}")
    return Encoding("utf-8")


def decoded(data: bytes, where: str, encoding: str | None = None, option: str = "") -> str:
    """The text of a file, without its byte-order mark.

    Args:
        data: all bytes of it.
        where: the file, for messages.
        encoding: what it is written in where no mark says it; None for UTF-8.
        option: the option that gives the encoding, for messages.

    Raises:
        DataError: it is no such text; it names the line, and the encoding that it seems to have.
    """
    found = encoding_of(data, encoding, where, option)
    try:
        return data[found.mark :].decode(found.name)
    except UnicodeDecodeError as error:
        line = data[: found.mark + error.start].count(b"\n") + 1
        raise DataError(f"{where}:{line}: {not_text(data, found.name, error, option)}") from None


def not_text(data: bytes, encoding: str, error: UnicodeDecodeError, option: str = "") -> str:
    """Why bytes are no text of an encoding, and what to do; `data` is the file or a part of it."""
    wrong = f"is no {encoding.upper()} text (byte {error.object[error.start]:#04x}"
    if encoding != "utf-8":
        return f"{wrong}); convert the file to UTF-8, or correct {option or 'its byte-order mark'}"
    seems = _seems(data)
    return _refusal(f"{wrong}{f'; it seems to be {seems}' if seems else ''})", seems, option)


def lines_of(text: str) -> list[str]:
    r"""The lines of a text, without their ends: `\n` or `\r\n`; `\r` in a text without any `\n`, as old Macs wrote.

    The last line is left out if it is empty. Other characters that `str.splitlines` takes for ends, such as U+2028 or
    a form feed, are part of a line, and so is a lone `\r` beside `\n`.
    """
    end = "\n" if "\n" in text else "\r"
    lines = text.split(end)
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if end == "\n" and "\r" in text else lines


def numbered_lines(
    data: bytes,
    where: str,
    encoding: str | None = None,
    option: str = "",
    *,
    max_skipped: float = 0.0,
    left_out: Tally | None = None,
) -> list[tuple[int, str]]:
    """(number from 1, line without its end) of a text file.

    Up to `max_skipped` of the lines may be no text: they are left out, logged and noted in `left_out`.

    Raises:
        DataError: more of them are; it names the first, and the encoding that the file seems to have.
    """
    found = encoding_of(data, encoding, where, option)
    try:
        return list(enumerate(lines_of(data[found.mark :].decode(found.name)), start=1))
    except UnicodeDecodeError:
        if found.name != "utf-8":
            return list(enumerate(lines_of(decoded(data, where, encoding, option)), start=1))
    body = data[found.mark :]
    raw = body.split(b"\n") if b"\n" in body else body.split(b"\r")

    def text(row: tuple[int, bytes]) -> str:
        number, line = row
        try:
            return line.decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise DataError(f"{where}:{number}: is no UTF-8 text (byte {line[error.start]:#04x})") from None

    numbered = list(enumerate(raw if raw[-1] else raw[:-1], start=1))
    try:
        rows = usable(where, numbered, text, max_skipped, left_out, "lines")
    except DataError as error:
        seems = _seems(data)
        raise DataError(_refusal(f"{error}{f'; it seems to be {seems}' if seems else ''}", seems, option)) from None
    return [(number, line) for (number, _), line in rows]


def names_in(data: bytes, where: str, *, remark: str = "") -> list[str]:
    """The lines of a list of names, such as classes, that are not empty, without space around them.

    Args:
        data: the file.
        where: it, for messages.
        remark: what begins a remark, such as "#"; "" for a file without remarks.

    Raises:
        DataError: it is no text, or a name is no text that can be printed.
    """
    found = []
    for number, line in numbered_lines(data, where):
        name = (line.partition(remark)[0] if remark else line).strip()
        if not name:
            continue
        if "\ufffd" in name or shown(name.replace("\t", " ")) != name.replace("\t", " "):
            raise DataError(
                f"{where}:{number}: the name {shown(name)!r} holds characters that were lost or cannot be printed; "
                "write the file again as UTF-8 text"
            )
        found.append(name)
    return found


def classes_in(data: bytes, where: str, *, remark: str = "") -> list[str]:
    """As `names_in`, of a list whose places are numbers of classes: no line between them is empty, none comes twice.

    Raises:
        DataError: a line between two names is empty, so that it is not clear which number the second has; or a name
            stands twice.
    """
    found = names_in(data, where, remark=remark)
    lines = [line.strip() for _, line in numbered_lines(data, where)]
    while lines and not lines[-1]:
        lines.pop()
    first = next((at for at, line in enumerate(lines) if line), 0)
    empty = next((at for at, line in enumerate(lines) if at >= first and not line), None)
    if empty is not None:
        raise DataError(f"{where}:{empty + 1}: the line is empty, and numbers of classes are lines; take it out")
    if twice := [name for name in found if found.count(name) > 1]:
        raise DataError(
            f"{where}: the class {shown(twice[0])!r} stands {found.count(twice[0])} times; take the rest out"
        )
    return found


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """`object_pairs_hook` of JSON: an object in which no key stands twice, as one of the values would be lost.

    Raises:
        DataError: a key stands twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise DataError(f"the key {twice!r:.40} stands twice in one object")
    return found


def rows_of(
    lines: Iterable[tuple[int, str]],
    where: str,
    read: Callable[[str], Row],
    max_skipped: float = 0.0,
    left_out: Tally | None = None,
) -> list[Row]:
    """What `read` makes of each line that is not empty; it raises a DataError, without the place, for a wrong one.

    Up to `max_skipped` of the lines may be wrong: they are left out, logged and noted in `left_out`.

    Raises:
        DataError: there are no lines, or more are wrong; the message names file and line.
    """

    def made(row: tuple[int, str]) -> Row:
        number, line = row
        try:
            return read(line.strip())
        except SetError:
            raise
        except DataError as error:
            raise DataError(f"{where}:{number}: {error}") from None

    full = [(number, line) for number, line in lines if line.strip()]
    found = [row for _, row in usable(where, full, made, max_skipped, left_out, "lines")]
    if not found:
        raise DataError(f"{where}: the list is empty")
    return found


def xml_in(data: bytes, where: str) -> ET.Element:
    """The root element of an XML file.

    Raises:
        DataError: it is no XML, or of another encoding than it says; it names the line.
    """
    try:
        return ET.fromstring(data)
    except ET.ParseError as error:
        if b"encoding" not in data[:_DECLARATION]:
            decoded(data, where)  # says what encoding it seems to have
        line = error.position[0]
        raise DataError(f"{where}:{line}: the XML is cut off or malformed ({error}; {len(data)} bytes)") from None
    except (LookupError, ValueError) as error:  # of its encoding
        raise DataError(f"{where}: the XML cannot be read ({error})") from None


def json_in(data: bytes, where: str) -> Any:
    """The value of a JSON file, with or without a byte-order mark.

    Raises:
        DataError: it is no JSON; it names line and column.
    """
    text = decoded(data, where)
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    except json.JSONDecodeError as error:
        raise DataError(
            f"{where}:{error.lineno}:{error.colno}: the JSON is cut off or malformed ({error.msg}; {len(data)} bytes)"
        ) from None
    except RecursionError:
        raise DataError(f"{where}: its lists or objects lie too deep in each other") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise DataError(f"{where}: is no JSON that can be read ({error})") from None


def _known(name: str, where: str) -> str:
    """The codec of a name, if it is one of text."""
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        codec = None
    if codec is None or not codec._is_text_encoding:
        raise ConfigError(
            f"{where}: there is no text encoding {name!r}; examples are utf-8, gb18030, cp1252, shift_jis"
        )
    return codec.name


def _wide(data: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark, by where zero bytes lie; None for other texts."""
    head = data[:1024]
    if len(head) < 4 or b"\0" not in head:
        return None
    zeros = [head[at::4].count(0) / max(1, len(head[at::4])) for at in range(4)]
    if min(zeros[1:]) > 0.9 and zeros[0] < 0.1:
        return "utf-32-le"
    if min(zeros[:3]) > 0.9 and zeros[3] < 0.1:
        return "utf-32-be"
    odd, even = (zeros[1] + zeros[3]) / 2, (zeros[0] + zeros[2]) / 2
    if max(odd, even) < 0.3:
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _seems(data: bytes) -> str | None:
    """The encoding that a text seems to have."""
    from charset_normalizer import from_bytes

    head = data[:_LOOKED_AT]
    if len(head) < _TELLING or any(byte < 9 for byte in head):  # too short to tell, or no text at all
        return None
    best = from_bytes(head).best()
    if best is None or best.encoding in ("ascii", "utf_8"):
        return None
    # Of the sets that differ in a few letters the counts of a text often favour one that nobody uses.
    return "cp1252" if _is_western(head) else best.encoding.replace("_", "-")


def _is_western(data: bytes) -> bool:
    """Whether what is not ASCII is little, and letters and signs of Western European languages in Windows' encoding."""
    try:
        other = [letter for letter in data.decode("cp1252") if letter > "\x7f"]
    except UnicodeDecodeError:
        return False
    runs = [len(run) for run in _NOT_ASCII.findall(data)]
    if 2 * runs.count(1) < len(runs):  # accents stand alone among plain letters, Chinese characters are two bytes
        return False
    hungarian = "õ" in other and "ã" not in other  # its ő reads so; Portuguese has both
    return len(other) < 0.3 * len(data) and set(other) <= _WESTERN and not hungarian


def _refusal(problem: str, seems: str | None, option: str) -> str:
    if not option:
        return f"{problem}; convert the file to UTF-8"
    return f"{problem}; set {option}{f' to {seems}' if seems else ''}, or convert the file to UTF-8"
