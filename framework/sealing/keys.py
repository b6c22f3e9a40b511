"""Keys of sealed exports: where they come from, and those that this thread opens exports with.

A source is a path, `env:NAME` (an environment variable), `command:WORDS` (what a program prints, such as a key
service's client) or a function that returns bytes. A key for encryption is 32 bytes, as they are or in hexadecimal or
Base64. Keys for signatures are Ed25519's in PEM, as `openssl genpkey -algorithm ed25519` writes them.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework import programs
from framework.errors import CheckpointError, NotSupportedError
from framework.extras import install_command
from framework.outside import read_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KeySource = str | os.PathLike[str] | Callable[[], bytes]

SECRET_BYTES = 32
_COMMAND_SECONDS = 60.0
_MOST = 1 << 16  # bytes of a key's file


@dataclass(frozen=True)
class Keys:
    """What a thread opens exports with.

    Args:
        decrypt: the source of the key that encrypted them; None where there is none.
        verify: the source of a public key, PEM. With it an export is opened only where its owner signed it; one that is
            not sealed is refused.
    """

    decrypt: KeySource | None = None
    verify: KeySource | None = None


@dataclass(frozen=True)
class Seal:
    """How an export is sealed, one of both at least.

    Args:
        encrypt: the source of a key of 32 bytes; without it the files can be read by everybody.
        sign: the source of a private key, PEM; without it who has the key for encryption can change the export.
    """

    encrypt: KeySource | None = None
    sign: KeySource | None = None

    def __post_init__(self) -> None:
        if self.encrypt is None and self.sign is None:
            raise CheckpointError("seal: neither a key to encrypt with nor one to sign with is named; name one")


_current: ContextVar[Keys] = ContextVar("keys", default=Keys())  # noqa: B039  frozen


def current_keys() -> Keys:
    """The keys that exports are opened with here."""
    return _current.get()


@contextlib.contextmanager
def keys(*, decrypt: KeySource | None = None, verify: KeySource | None = None) -> Iterator[Keys]:
    """Inside, exports are opened with these; see `Keys`. They are those of the thread, as limits are.

    >>> with keys(decrypt="env:MODEL_KEY", verify="owner.pem"):
    ...     predictor = Predictor("exported")
    """
    token = _current.set(Keys(decrypt, verify))
    try:
        yield current_keys()
    finally:
        _current.reset(token)


def secret(source: KeySource) -> bytes:
    """The 32 bytes of a key for encryption.

    Raises CheckpointError where the source gives none, or something else.
    """
    told, given = _read(source)
    if len(given) == SECRET_BYTES:
        return given
    text = given.strip()
    if re.fullmatch(rb"[0-9a-fA-F]{64}", text):
        return bytes.fromhex(text.decode())
    with contextlib.suppress(binascii.Error, ValueError):
        found = base64.b64decode(text, validate=True)
        if len(found) == SECRET_BYTES:
            return found
    raise CheckpointError(
        f"{told}: holds {len(given)} bytes that are no key; needed are 32 bytes, or them in hexadecimal or Base64: "
        "openssl rand -hex 32 > secret.key"
    )


def private_key(source: KeySource) -> Ed25519PrivateKey:
    """A private key to sign with; raises CheckpointError where the source gives none."""
    require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    told, given = _read(source)
    try:
        found = load_pem_private_key(given, password=None)
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{told}: is no private key in PEM ({error}); {_HOW}") from None
    if not isinstance(found, Ed25519PrivateKey):
        raise CheckpointError(f"{told}: is a key of another kind; needed is Ed25519: {_HOW}")
    return found


def public_key(source: KeySource) -> bytes:
    """The 32 bytes of a public key in PEM; raises CheckpointError where the source gives none."""
    require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    told, given = _read(source)
    if b"PRIVATE KEY" in given:
        raise CheckpointError(f"{told}: is a private key, which only its owner may have; {_PUBLIC}")
    try:
        found = load_pem_public_key(given)
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{told}: is no public key in PEM ({error}); {_PUBLIC}") from None
    if not isinstance(found, Ed25519PublicKey):
        raise CheckpointError(f"{told}: is a key of another kind; needed is Ed25519: {_HOW}")
    return found.public_bytes_raw()


_HOW = "openssl genpkey -algorithm ed25519 -out owner.pem"
_PUBLIC = "openssl pkey -in owner.pem -pubout -out owner.pub.pem writes the public one"


def require_cryptography() -> None:
    """Raise NotSupportedError where the package `cryptography` is not installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise NotSupportedError(f"sealed exports need the package cryptography: {install_command('seal')}") from None


def _read(source: KeySource) -> tuple[str, bytes]:
    """What a source is called in messages, never with a key in it, and what it gives."""
    if callable(source):
        given = source()
        if not isinstance(given, bytes):
            raise CheckpointError(f"key: the function gave a {type(given).__name__}; it must give bytes")
        return "key of a function", given
    text = os.fspath(source)
    kind, _, rest = text.partition(":")
    if kind == "env":
        value = os.environ.get(rest)
        if not value:
            raise CheckpointError(f"key: the environment variable {rest} is not set, or empty")
        return f"key of the variable {rest}", value.encode()
    if kind == "command":
        return "key of a command", _output(rest)
    try:
        return text, _read_file(text)
    except OSError as error:
        raise CheckpointError(f"{text}: the key cannot be read ({error.strerror or error})") from None


def _read_file(path: str) -> bytes:
    found = read_bytes(path)
    if len(found) > _MOST:
        raise CheckpointError(f"{path}: has {len(found)} bytes, which is no key")
    return found


def _output(text: str) -> bytes:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CheckpointError(f"key: the command cannot be read ({error})") from None
    if not words:
        raise CheckpointError("key: `command:` names no program")
    try:
        done = programs.run(words[0], (), typed=words[1:], seconds=_COMMAND_SECONDS)
    except (OSError, programs.TimeoutExpired) as error:
        told = f"took over {_COMMAND_SECONDS:.0f} s" if isinstance(error, programs.TimeoutExpired) else str(error)
        raise CheckpointError(f"key: the command {words[0]} gave none: {told}") from None
    if done.returncode:
        raise CheckpointError(
            f"key: the command {words[0]} ended with status {done.returncode}: {done.stderr.strip()[-200:]}"
        )
    return done.stdout.strip().encode()
