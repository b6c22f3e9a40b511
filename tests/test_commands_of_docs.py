"""Each `paddock ...` of the docs is one that the commands take: options known, configs there, keys of `-o` theirs."""

import argparse
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.errors import ConfigError
from suites.engine import cli
from suites.engine.config import load_config

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
READERS_OWN = {"my_run.yml", "student.yml", "my_config.yml"}  # of no text in a page
PLACEHOLDER = re.compile(r"\bCOMMAND\b|\.\.\.|\[--")  # of forms, such as `paddock config show CONFIG [--defaults]`


class Parsed(Exception):
    """A command line that a parser took."""


def blocks_of(text: str) -> list[str]:
    """The blocks of code of a page: fenced ones and indented ones."""
    fenced = [body for kind, body in FENCED.findall(text) if kind in ("", "sh", "bash", "console", "text")]
    lines = FENCED.sub("", text).splitlines()
    return [*fenced, "\n".join(line if line.startswith("    ") else "" for line in lines)]


def in_blocks(text: str) -> Iterator[str]:
    """The commands of blocks, each to its end: across `\\` and within quotes."""
    for block in blocks_of(text):
        lines = iter(block.splitlines())
        for line in lines:
            found = re.match(r"\s*(?:\$ )?(paddock .*)", line)
            if found is None:
                continue
            command = found[1]
            while command.endswith("\\") or _is_open(command):
                command = command.removesuffix("\\") + " " + next(lines).strip()
            yield from _parts(command)


def _parts(command: str) -> list[str]:
    """The commands of a line `paddock ...; paddock ...`, without the comment behind them."""
    words, parts = shlex.split(command, comments=True), [[]]
    for word in words:
        parts[-1].append(word.removesuffix(";"))
        if word.endswith(";"):
            parts.append([])
    return [shlex.join(part) for part in parts if part]


def _is_open(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return True
    return False


def in_lines(text: str) -> list[str]:
    """The commands within sentences and tables: parts of a command are among them."""
    return re.findall(r"`(paddock [^`]+)`", FENCED.sub("", text))


def parsed(command: str, monkeypatch) -> argparse.Namespace:
    """What the command's own parser makes of it; nothing is run."""
    parse = argparse.ArgumentParser.parse_args

    def stop(self, words=None, namespace=None):
        raise Parsed(parse(self, words, namespace))

    with monkeypatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", stop)
        words = [word for word in shlex.split(command, comments=True)[1:] if word != "$S"]
        try:
            raise AssertionError(f"{command}: status {cli.main(words)} before it was parsed")
        except Parsed as found:
            return found.args[0]


def config_of(found: argparse.Namespace) -> str | None:
    """The config that a command line names, where it names one that is not a run."""
    named = [getattr(found, key, None) for key in ("config", "root")]
    one = next((str(each[0] if isinstance(each, list) else each) for each in named if each), "")
    return one if re.fullmatch(r"\w+/[a-z]\w+|[\w/]+\.yml", one) and not one.startswith("runs/") else None


def own_configs(text: str) -> dict[str, str]:
    """The configs that a page writes down, by their names, as `# configs/video/actions.yml` above them."""
    found = re.findall(r"^```yaml\n# ((?:\w+/)*\w+\.yml)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return {name: body for name, body in found if re.search(r"^(suite|extends):", body, re.MULTILINE)}


def expect_known(config: str, overrides: list[str]) -> None:
    """That a config and each key of `-o` are known; `auto` is a word that data replaces; plug-ins are not here."""
    try:
        load_config(config, overrides)
    except ConfigError as error:
        left = [line for line in str(error).splitlines() if not re.search("found 'auto'|no module 'my_plugin'", line)]
        assert not left, "\n".join(left)


def test_docs_have_commands():
    assert sum(len(list(in_blocks(page.read_text()))) for page in PAGES) > 250


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_blocks_are_taken_as_printed(page, monkeypatch):
    text = page.read_text()
    own = READERS_OWN | {name.removeprefix("configs/") for name in own_configs(text)}
    for command in in_blocks(text):
        if PLACEHOLDER.search(command):
            continue
        try:
            found = parsed(command, monkeypatch)
        except SystemExit:
            raise AssertionError(f"{page}: {command}") from None
        config = config_of(found)
        plugged = getattr(found, "imports", None)  # registers what is looked for, and is not here
        if config and not plugged and not {config, f"{config}.yml"} & own:
            expect_known(config, getattr(found, "overrides", []))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_published_weights_are_fetched_where_a_page_first_names_them(page):
    here: set[str] = set()
    for command in in_blocks(page.read_text()):
        words = shlex.split(command, comments=True)[1:]
        named = {word for word in words if (ROOT / "zoo" / f"{word}.yml").is_file()} - {words[0]}
        told = "--fetch" in words or words[:2] == ["zoo", "fetch"] or words[:2] == ["zoo", "list"]
        assert told or not named - here, f"{command}: add --fetch"
        here |= named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_in_sentences_exist(page, monkeypatch, capsys):
    for command in in_lines(page.read_text()):
        if PLACEHOLDER.search(command) or _is_open(command):
            continue
        try:
            parsed(command, monkeypatch)
        except SystemExit:  # a part of a command is one that waits for more, and no other error
            said = capsys.readouterr().err
            assert re.search(r"arguments are required|expected (one|at least one) argument", said), f"{command}\n{said}"


@pytest.mark.parametrize("page", [page for page in PAGES if own_configs(page.read_text())], ids=lambda page: page.stem)
def test_configs_that_a_page_writes_down_are_right(page, tmp_path):
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    for name, body in own_configs(page.read_text()).items():
        file = tmp_path / name
        file.write_text(body)
        expect_known(str(file), [])


@pytest.mark.parametrize(
    "command",
    ["paddock train detection/yolov3_demo -o runtime.step=1", "paddock train detection/no_such"],
)
def test_a_wrong_key_or_config_would_be_found(command, monkeypatch):
    found = parsed(command, monkeypatch)
    with pytest.raises(AssertionError, match=r"runtime\.step|no such config"):
        expect_known(config_of(found), found.overrides)
