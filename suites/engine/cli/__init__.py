"""The console command `paddock`: `paddock train detection/yolov3_demo`, `paddock --help`.

Each module of this package is a command, and so is each module of `suites.<suite>.cli`. The first line of its
documentation says what it does. It has `main(words, prog)`, which returns the exit status. This module imports
none of them before a command is called, so that `paddock --help` answers at once.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import sys
from pathlib import Path
from types import ModuleType

from suites.engine.run.screen import is_reader_gone, screens

_LIMIT = "--limit"
_FETCH = "--fetch"
_NAMED = ("train", "infer", "serve", "probe")  # whose own options have it, for their help
_KEYS = ("--decrypt", "--verify")  # of sealed exports, see `framework.sealing`
_ORDER = ("train", "eval", "infer", "export", "serve", "config", "zoo")  # of the help; others follow by name


def main(words: list[str] | None = None) -> int:
    """Run one command and return the exit status; `words` are the command line, by default the program's own.

    What it prints is a courtesy, see `suites.engine.run.screen`: a reader that has seen enough, such as `head`, ends no
    command. Output that is lost otherwise, as on a full disk, is told on stderr and gives the status 1, but for a
    training, which tells its log.
    """
    words = sys.argv[1:] if words is None else words
    with screens() as shown:
        status = _run(words)
        shown.flush()
        lost = shown.lost
        if lost is not None and not is_reader_gone(lost):
            print(f"warning: the output could not be written ({lost})", file=sys.stderr)
            status = status or int(words[:1] != ["train"])
    return status


def _run(words: list[str]) -> int:
    found = commands()
    if not words or words[0] in ("-h", "--help"):
        print(help_text(found))
        return 0 if words else 2
    name, *rest = words
    if name not in found:
        near = difflib.get_close_matches(name, found, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else "."
        print(f"error: paddock has no command '{name}'{hint} Commands: {', '.join(found)}", file=sys.stderr)
        return 2
    module = importlib.import_module(".".join(found[name].relative_to(_suites().parent).with_suffix("").parts))
    if _FETCH in rest:
        from suites.engine.weights.fetching import agreed

        with agreed():
            left = rest if name in _NAMED else [word for word in rest if word != _FETCH]
            return _start(module, left, f"paddock {name}")
    return _start(module, rest, f"paddock {name}")


def _start(module: ModuleType, rest: list[str], prog: str) -> int:
    """Run a command with the limits and keys that its words name."""
    if not any(option in " ".join(rest) for option in (_LIMIT, *_KEYS)):
        return int(module.main(rest, prog))
    from framework import limits, sealing
    from framework.errors import PaddockError

    try:
        rest, changes = _limits_of(rest)
        rest, decrypt = _key_of(rest, _KEYS[0])
        rest, verify = _key_of(rest, _KEYS[1])
        with limits.allow(**changes), sealing.keys(decrypt=decrypt, verify=verify):
            return int(module.main(rest, prog))
    except PaddockError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _limits_of(words: list[str]) -> tuple[list[str], dict[str, int]]:
    """The command line without its `--limit NAME=N`, and those."""
    from framework.errors import AttributeValueError

    left, changes, rest = [], {}, iter(words)
    for word in rest:
        option, equals, text = word.partition("=")
        if option != _LIMIT:
            left.append(word)
            continue
        name, _, number = (text if equals else next(rest, "")).partition("=")
        if not number.isascii() or not number.isdigit():
            raise AttributeValueError(
                f"{_LIMIT}: takes NAME=N with a whole number N, such as {_LIMIT} pixels=200000000"
            )
        changes[name] = int(number)
    return left, changes


def _key_of(words: list[str], wanted: str) -> tuple[list[str], str | None]:
    """The command line without its `--decrypt SOURCE` or `--verify SOURCE`, and the source."""
    from framework.errors import AttributeValueError

    left, source, rest = [], None, iter(words)
    for word in rest:
        option, equals, text = word.partition("=")
        if option != wanted:
            left.append(word)
            continue
        source = text if equals else next(rest, "")
        if not source or source.startswith("--"):
            raise AttributeValueError(
                f"{wanted}: takes the source of a key: a file, env:NAME or command:WORDS, such as {wanted} env:KEY"
            )
    return left, source


def commands() -> dict[str, Path]:
    """Return the file of each command by name; nothing is imported."""
    files = {path.stem: path for path in sorted(_suites().glob("*/cli/*.py")) if not path.stem.startswith("_")}
    order = {name: place for place, name in enumerate(_ORDER)}
    return dict(sorted(files.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))


def help_text(found: dict[str, Path]) -> str:
    """Return what `paddock --help` prints."""
    width = max(map(len, found))
    lines = [f"  {name:<{width}}  {_summary(path)}" for name, path in found.items()]
    return "\n".join(
        [
            "usage: paddock COMMAND ...",
            "",
            *lines,
            "",
            "`paddock COMMAND --help` says what each of them takes. All take `--limit NAME=N`: what a file from",
            "outside may cost, such as `--limit pixels=200000000`; an error that meets a limit names it.",
            "They take `--fetch`: published weights that are named and not here are downloaded.",
            "What opens exports takes `--decrypt SOURCE` and `--verify SOURCE`, keys of sealed ones: a file, env:NAME",
            "or command:WORDS (docs/howto/sealed.md).",
        ]
    )


def _summary(path: Path) -> str:
    """The first line of a module's documentation, without the example behind it."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].partition(": `")[0].rstrip(".")


def _suites() -> Path:
    return Path(__file__).resolve().parents[2]
