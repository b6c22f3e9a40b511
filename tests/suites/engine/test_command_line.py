"""Words of a command line: numbers that no option means are refused, in every command."""

import re
from pathlib import Path

import pytest

from suites.engine.cli import main
from suites.engine.command_line import Parser, natural

SUITES = Path(__file__).resolve().parents[3] / "suites"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rate", "nan"], "argument --rate: is nan; it must be a finite number"),
        (["--rate=-inf"], "argument --rate: is -inf; it must be a finite number"),
        (["--rate", "1e999"], "argument --rate: is 1e999; it must be a finite number"),
        (["--rate", "fast"], "argument --rate: is 'fast', which is no number"),
        (["--count", "9" * 20], "argument --count: is 99999999999999999999; it must have 64 bits at most"),
        (["--count", "9" * 5000], "it must have 64 bits at most"),
        (["--count", "1.5"], "argument --count: is '1.5', which is no whole number"),
        (["--seed", "-1"], "argument --seed: is -1; it must be 0 or more"),
        (["sub", "--rate", "nan"], "argument --rate: is nan; it must be a finite number"),
    ],
)
def test_numbers_that_no_option_means_are_refused(capsys, words, said):
    parser = Parser()
    commands = parser.add_subparsers()
    for each in (parser, commands.add_parser("sub")):
        each.add_argument("--rate", type=float)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=natural)
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(words)
    assert ended.value.code == 2 and said in capsys.readouterr().err
    assert parser.parse_args(["--rate", "1e3", "--count", "-7", "--seed", "7"]).count == -7


def test_every_command_reads_its_words_by_this_parser():
    """But for options of hosts, which are picked out of the words of another command."""
    own = {str(path.relative_to(SUITES)) for path in SUITES.rglob("*.py") if "ArgumentParser(" in path.read_text()}
    assert own - {"engine/command_line.py"} == {"engine/hosts/supervising.py"}


def test_seeds_are_natural_numbers_in_every_command():
    options = [re.findall(r'"--seed", type=(\w+)', path.read_text()) for path in SUITES.rglob("*.py")]
    assert {kind for found in options for kind in found} == {"natural"}


def test_a_command_tells_it_in_one_line(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["data", "render", "--random", "digits", "--output", "nowhere", "--noise", "nan"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("argument --noise: is nan; it must be a finite number")
