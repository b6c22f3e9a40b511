"""Answer questions about configs and components: list, help, show, explain, check, diff, from-mm.

Run `paddock config COMMAND --help` for each; docs/howto/config.md describes the files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import yaml

from framework.atomic import write_text
from framework.errors import ConfigError
from suites.engine.command_line import Parser, add_import_option, add_override_option, run
from suites.engine.config import load_config
from suites.engine.config.building import read_config
from suites.engine.config.report import diff_lines, explain_text, help_text, list_text, origins_text
from suites.engine.config.tree.shipped import shipped_configs
from suites.engine.config.tree.yaml_text import dump_text
from suites.engine.registry import REGISTRY, load_suites, suite_names


def list_command(arguments: argparse.Namespace) -> int:
    """Print the components of all suites, and the configs that come with Paddock."""
    if arguments.role in (None, "configs"):
        print("\n".join(["configs: come with Paddock, found by name", *(f"  {name}" for name in shipped_configs())]))
    if arguments.role != "configs":
        load_suites(suite_names())
        print("\n" * (arguments.role is None) + list_text(REGISTRY, arguments.role))
    return 0


def help_command(arguments: argparse.Namespace) -> int:
    """Print what a component takes."""
    load_suites(suite_names())
    print(help_text(REGISTRY, arguments.type))
    return 0


def show_command(arguments: argparse.Namespace) -> int:
    """Print the resolved config."""
    config = load_config(arguments.config, arguments.overrides, check=arguments.defaults)
    if arguments.origins:
        print(origins_text(config))
        return 0
    print(dump_text(config.with_defaults().plain()) if arguments.defaults else config.dump(), end="")
    print(f"# digest {config.digest()}")
    return 0


def explain_command(arguments: argparse.Namespace) -> int:
    """Print where a value comes from."""
    config = load_config(arguments.config, arguments.overrides, check=False)
    print(explain_text(config, arguments.path))
    return 0


def check_command(arguments: argparse.Namespace) -> int:
    """Check all values and rules, then let the task build its model and read a batch."""
    config = read_config(Path(arguments.config), arguments.overrides)
    print(f"{config.source}: all values and rules are right (digest {config.digest()[:12]})")
    from suites.engine.train.check import check_runs

    check_runs(config)
    print(f"{config.source}: the model was built, and both steps ran on one batch")
    return 0


def diff_command(arguments: argparse.Namespace) -> int:
    """Print where two configs differ; exit status 1 if they do."""
    lines = diff_lines(*(load_config(path, check=False) for path in (arguments.first, arguments.second)))
    print("\n".join(lines) if lines else "no difference")
    return 1 if lines else 0


def from_mm_command(arguments: argparse.Namespace) -> int:
    """Write a config of OpenMMLab as ours, and say what of it is not in ours."""
    from suites.engine.config.openmmlab import translate
    from suites.engine.data.intake.naming import shown

    found, notes = translate(arguments.file)
    lines = [f"# Translated from {shown(arguments.file.name)}.", *(f"# {note}" for note in notes)]
    text = "\n".join(lines) + "\n" + yaml.safe_dump(found, sort_keys=False, allow_unicode=True)
    if arguments.output is None:
        print(text, end="")
        return 0
    if arguments.output.exists():
        raise ConfigError(f"{arguments.output}: is there already; choose another --output")
    write_text(arguments.output, text)
    print(f"{arguments.output}: {len(notes)} things of {arguments.file} are not in it, or are otherwise:")
    print("\n".join(f"  {note}" for note in notes))
    return 0


def parse(words: list[str] | None, prog: str | None = None) -> argparse.Namespace:
    """Read the command line; `arguments.command` is the function to call."""
    parser = Parser(prog=prog or "config.py", description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: object, text: str, *positional: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(command=function)
        add_import_option(command)
        for argument in positional:
            command.add_argument(argument, metavar=argument.upper())
        return command

    listing = add("list", list_command, "what there is: configs, and roles with their components")
    listing.add_argument("role", nargs="?", metavar="ROLE", help="only this role, or `configs` alone")
    add("help", help_command, "what a component takes", "type")
    show = add("show", show_command, "what a config comes to, with bases and references resolved", "config")
    how = show.add_mutually_exclusive_group()
    how.add_argument("--defaults", action="store_true", help="with the defaults of all arguments left out")
    how.add_argument("--origins", action="store_true", help="a line for each value, with the file and line that set it")
    explain = add("explain", explain_command, "which file and line set a value", "config", "path")
    check = add("check", check_command, "will it run: all values, then model and one batch", "config")
    for command in (show, explain, check):
        add_override_option(command)
    add("diff", diff_command, "where two configs differ", "first", "second")
    theirs = add("from-mm", from_mm_command, "a config of OpenMMLab's toolboxes as ours; nothing of its file is run")
    theirs.add_argument("file", type=Path, metavar="FILE", help="with its bases beside it, or written out whole")
    theirs.add_argument("--output", type=Path, help="the YAML file to write; by default it is printed")
    return parser.parse_args(words)


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Run one command; `words` are the command line, by default the program's own."""
    arguments = parse(words, prog)
    return run(lambda: int(arguments.command(arguments)), arguments.imports)
