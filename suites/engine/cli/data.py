"""Look at the data of a config before training: `paddock data check detection/yolov3_demo`, `paddock data draw ...`.

`check` reads every sample, says what is wrong and where, and exits with 1 if that would spoil the training. Of more
than 20,000 pictures it reads the files and decodes none, unless you say --decode. It also takes a plain folder or
file: `paddock data check photos` says what that is and how to train on it. `--alike MODEL` finds near copies.
`draw` writes pictures of samples with their truth, as they are or as the network sees them.
`convert` writes a set in another format, whole or split at random.
`split` does the latter: `paddock data split CONFIG --output parts --parts train=0.7 val=0.2 test=0.1`.
`anchors` proposes anchors for a detector; it is `paddock anchors`.
`render` draws lines and pages of text from texts and fonts; it is `paddock render`.
`vocab` learns the pieces of words of text files; it is `paddock vocab`.
`schema` guesses from a file which of its columns are what, and writes that down for `-o data.schema=FILE`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suites.engine.config import Config
    from suites.engine.contract.inspection import Inspected, Inspector

_MOST_DECODED = 20_000  # samples of all sets; of more, files are read and nothing is decoded
_NEAR = 0.95  # cosine of near copies
_REFUSALS = 3  # reasons of suites that are shown
_ELSEWHERE = ("anchors", "render", "vocab")  # commands of suites, which the engine may not import
_ORDER = {"error": 0, "warning": 1, "note": 2}


def check_command(arguments: argparse.Namespace) -> int:
    """Inspect all data sets of a config, or of a plain folder or file; write pictures of what was found."""
    from framework.errors import ConfigError
    from suites.engine.config.building import component_of
    from suites.engine.contract.inspection import Inspector, named_parts, shared_samples

    config, command = _config_for(arguments.config, arguments.overrides)
    if command and component_of(config["suite"], "inspector") is None:
        print(f"the suite {config['suite']} does not look into its data yet\nto train on it: {command}")
        return 0
    inspector = inspector_of(config)
    if arguments.least is not None and arguments.alike is None:
        raise ConfigError("data check: --least is of near copies, which need --alike MODEL")
    if arguments.decode and type(inspector).glance is Inspector.glance:
        raise ConfigError(f"data check: --decode does nothing for the suite '{config['suite']}'; take it away")
    opened = _datasets(config, inspector)
    sets = {name: named_parts(name, inspector.parts(whole)) for name, whole in opened.items()}
    found: dict[str, dict[str, Inspected]] = {whole: {} for whole in sets}
    total = sum(len(part) for parts in sets.values() for part in parts.values() if isinstance(part, Sized))
    look = inspector.inspect if arguments.decode or total <= _MOST_DECODED else inspector.glance
    for whole, parts in sets.items():
        for name, dataset in parts.items():
            found[whole][name] = inspected = look(dataset)
            print("\n".join([f"{name}:", *(f"  {line}" for line in inspected.summary)]))
            for finding in sorted(inspected.findings, key=lambda one: _ORDER[one.level]):
                print("\n".join(finding.lines()))
            if arguments.pictures:
                _draw_findings(inspector, dataset, inspected, arguments.pictures / name)
    shared = [*shared_samples(found), *inspector.between(opened)]
    if arguments.alike is not None:
        from suites.engine.predict.gallery import Embedder
        from suites.engine.predict.near_copies import near_copies

        flat = {name: part for parts in sets.values() for name, part in parts.items()}
        known = {name: one for parts in found.values() for name, one in parts.items()}
        least = _NEAR if arguments.least is None else arguments.least
        shared += near_copies(Embedder(arguments.alike), inspector, flat, known, least)
    if shared:
        print("\n".join(["between sets:", *(line for finding in shared for line in finding.lines())]))
    every = [finding for parts in found.values() for one in parts.values() for finding in one.findings] + shared
    counts = {level: sum(finding.level == level for finding in every) for level in _ORDER}
    print(f"{counts['error']} kinds of errors, {counts['warning']} of warnings")
    if command:
        print(f"to train on it: {command}")
    return 1 if counts["error"] else 0


def _config_for(source: Path, overrides: list[str]) -> tuple[Config, str]:
    """The config that a word names, and ""; or one for the data that it names, and the command that trains with it."""
    from framework.errors import ConfigError, DataError
    from suites.engine.config.building import read_config
    from suites.engine.contract.recognising import recognise

    is_config = source.suffix in (".yml", ".yaml") or (source / "config.yml").is_file() or not source.exists()
    if is_config:
        return read_config(source, overrides), ""
    answers = recognise(source)
    if not answers.found and answers.refused:
        raise DataError("; or as another format: ".join(answers.refused[:_REFUSALS]))
    if not answers.found:
        why = f" ({'; '.join(answers.other[:_REFUSALS])})" if answers.other else ""
        raise ConfigError(
            f"data check: {source} is no config, and no suite knows what data it holds{why}; `paddock data check "
            "CONFIG -o data.root=...` checks it as a config reads it, docs/howto/data.md lists the formats"
        )
    first, *others = answers.found
    print(f"{source}: {first.what}")
    for other in others:
        print(f"  or {other.what}: {other.command()}")
    return read_config(Path(first.config), [*first.overrides, *overrides]), first.command()


def draw_command(arguments: argparse.Namespace) -> int:
    """Write pictures of samples with their truth."""
    from suites.engine.config.building import read_config
    from suites.engine.contract.batch import readable

    config = read_config(arguments.config, arguments.overrides)
    inspector = inspector_of(config)
    dataset = _dataset(config, arguments.set, inspector)
    seen = inspector.augmented(config, arguments.set, dataset) if arguments.augmented else dataset
    drawn = readable(
        range(len(dataset)),
        lambda i: (f"{i:05d}.jpg", inspector.picture(seen[i], dataset.class_names)),
        arguments.count,
    )
    for name, picture in drawn:
        inspector.write_picture(arguments.output / name, picture)
    print(f"{len(drawn)} pictures in {arguments.output}")
    return 0


def convert_command(arguments: argparse.Namespace) -> int:
    """Write a data set in another format, whole or in parts; in the suite's first format where none is named."""
    from suites.engine.config.building import read_config
    from suites.engine.contract.inspection import split

    config = read_config(arguments.config, arguments.overrides)
    inspector = inspector_of(config)
    kind = _format_of(inspector, arguments.to)
    dataset = _dataset(config, arguments.set, inspector)
    if arguments.parts is None:
        parts = {arguments.set: list(range(len(dataset)))}
    else:
        parts = split(inspector.inspect(dataset).digests, _shares(arguments.parts), arguments.seed)
    for name, indices in parts.items():
        written = inspector.write(dataset, indices, arguments.output, name, kind)
        print(f"{name}: {len(indices)} samples: {written}")
    return 0


def schema_command(arguments: argparse.Namespace) -> int:
    """Guess the declaration of a file and write it."""
    from framework.atomic import write_text
    from framework.errors import ConfigError, NotSupportedError
    from suites.engine.config.building import component_of

    declare = component_of(arguments.suite, "declaration")
    if declare is None:
        raise NotSupportedError(f"data schema: the suite '{arguments.suite}' declares no columns")
    compare = component_of(arguments.suite, "comparison")
    if arguments.compare and compare is None:
        raise NotSupportedError(f"data schema --compare: the suite '{arguments.suite}' compares nothing; take it away")
    if arguments.seconds is not None and not (arguments.compare and arguments.seconds > 0):
        raise ConfigError(f"data schema: --seconds {arguments.seconds:g} is the time of --compare, above 0")
    settled = {"encoding": arguments.encoding, "decimal": arguments.decimal, "dates": arguments.dates}
    text = str(declare(arguments.file, **settled))
    if arguments.output is None:
        print(text, end="")
    elif arguments.output.exists():
        raise ConfigError(f"{arguments.output}: is there already; it may have been edited, so name another file")
    else:
        write_text(arguments.output, text)
        print(f"{arguments.output}: look at each line, then train with -o data.schema={arguments.output}")
    if arguments.compare:
        print("\n".join(f"# {line}" for line in compare(arguments.file, text, arguments.seconds or 60.0)))
    return 0


def _format_of(inspector: Inspector, name: str | None) -> str:
    """The format to write: `name`, or the suite's first."""
    from framework.errors import ConfigError

    if name in inspector.formats:
        return name
    if name is None and inspector.formats:
        return inspector.formats[0]
    wanted, known = name or "a data set", ", ".join(inspector.formats) or "none"
    raise ConfigError(f"data convert: '{wanted}' is no format that can be written here; it is one of: {known}")


def _shares(words: list[str]) -> dict[str, float]:
    from framework.errors import ConfigError

    try:
        return {name: float(share) for name, share in (word.split("=") for word in words)}
    except ValueError:
        raise ConfigError(f"data convert: --parts is {' '.join(words)}; it must be like train=0.8 val=0.2") from None


def inspector_of(config: Config) -> Inspector:
    """Return what looks at the data of a config's suite; raise NotSupportedError where it has none."""
    from framework.errors import NotSupportedError
    from suites.engine.config.building import component_of

    made = component_of(config["suite"], "inspector")
    if made is None:
        raise NotSupportedError(f"data: the suite '{config['suite']}' does not look at its data yet")
    inspector: Inspector = made()
    return inspector


def _dataset(config: Config, name: str, inspector: Inspector) -> Any:
    """The set train or eval; the other one need not be there."""
    from framework.errors import ConfigError

    if not config.has(f"data.{name}.dataset"):
        raise ConfigError(f"data: the config has no data.{name}.dataset")
    return inspector.opened(config, f"data.{name}.dataset")


def _datasets(config: Config, inspector: Inspector) -> dict[str, Any]:
    """The data sets of a config by name."""
    places = {name: f"data.{name}.dataset" for name in ("train", "eval")}
    places |= {name: f"data.more_eval.{name}.dataset" for name in config["data"].get("more_eval") or {}}
    return {name: inspector.opened(config, place) for name, place in places.items() if config.has(place)}


def _draw_findings(inspector: Inspector, dataset: Any, inspected: Inspected, folder: Path) -> None:
    """One picture for the first samples of each finding."""
    from suites.engine.contract.batch import readable

    for number, finding in enumerate(inspected.findings):
        drawn = readable(
            finding.samples, lambda i: (f"{i:05d}", inspector.picture(dataset[i], dataset.class_names)), count=8
        )
        for name, picture in drawn:
            inspector.write_picture(folder / f"{finding.level}_{number}_{name}.jpg", picture)


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Run one of the commands; `words` are the command line."""
    from suites.engine.command_line import Parser, add_import_option, add_override_option, natural, run

    if words is not None and words[:1] and words[0] in _ELSEWHERE:
        from suites.engine.cli import main as paddock

        return paddock(words)
    parser = Parser(prog=prog, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="say what is wrong with the data, where, and how often")
    check.add_argument("--pictures", type=Path, help="write pictures of what was found into this folder")
    check.add_argument("--decode", action="store_true", help="decode every picture, also of more than 20,000")
    check.add_argument(
        "--alike", type=Path, metavar="MODEL", help="tell near copies too, by the vectors of this run or export"
    )
    check.add_argument("--least", type=float, metavar="COSINE", help="of near copies (0.95)")
    check.set_defaults(main=check_command)
    draw = commands.add_parser("draw", help="write pictures of samples with their truth")
    draw.add_argument("--output", type=Path, default=Path("drawn"), help="the folder to write (drawn)")
    draw.add_argument("--set", default="train", choices=["train", "eval"], help="which set (train)")
    draw.add_argument("--count", type=int, default=16, help="how many (16)")
    draw.add_argument("--augmented", action="store_true", help="after the transforms, as the network sees them")
    draw.set_defaults(main=draw_command)
    convert = commands.add_parser("convert", help="write a set in another format, or split it at random")
    convert.add_argument("--to", required=True, help="format: coco, voc or yolo for detection")
    convert.add_argument("--parts", nargs="+", metavar="NAME=SHARE", help="split it, e.g. train=0.8 val=0.2")
    split = commands.add_parser("split", help="split a set at random; copies of a sample stay together")
    split.add_argument("--to", help="format: coco, voc or yolo for detection (the first that the suite has)")
    shares = ["train=0.8", "val=0.2"]
    split.add_argument("--parts", nargs="+", metavar="NAME=SHARE", default=shares, help="parts (train=0.8 val=0.2)")
    for command in (convert, split):
        command.add_argument("--output", type=Path, required=True, help="the folder to write")
        command.add_argument("--set", default="train", choices=["train", "eval"], help="which set (train)")
        command.add_argument("--seed", type=natural, default=0, help="of the split (0)")
        command.set_defaults(main=convert_command)
    commands.add_parser("anchors", help="propose anchors for a detector, as `paddock anchors`")
    commands.add_parser("vocab", help="learn the pieces of words of text files, as `paddock vocab`")
    commands.add_parser("render", help="draw lines and pages of text, as `paddock render`")
    schema = commands.add_parser("schema", help="guess from a file which of its columns are what")
    schema.add_argument("file", type=Path, help="a CSV, a TSV or the like")
    schema.add_argument("--output", type=Path, help="the YAML file to write; by default it is shown")
    schema.add_argument("--encoding", metavar="NAME", help="of the file, such as gb18030 (its mark's, or UTF-8)")
    schema.add_argument("--decimal", choices=[".", ","], help="of numbers such as 1,234, which may mean two things")
    schema.add_argument("--dates", choices=["DMY", "MDY", "YMD"], help="order of dates such as 3/4/2024")
    schema.add_argument(
        "--compare",
        action="store_true",
        help="train with whole numbers as amounts and as codes, and say which is better",
    )
    schema.add_argument("--seconds", type=float, help="for --compare, both trainings together (60)")
    schema.add_argument("--suite", default="ctr", help="whose declaration (ctr)")
    schema.set_defaults(main=schema_command)
    add_import_option(schema)
    for command in (check, draw, convert, split):
        data = ", or a folder or file of data" if command is check else ""
        command.add_argument("config", type=Path, help=f"a config file, or the name of one of Paddock's{data}")
        add_override_option(command)
        add_import_option(command)
    arguments = parser.parse_args(words)
    return run(lambda: int(arguments.main(arguments)), arguments.imports)
