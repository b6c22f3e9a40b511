"""A process that renders chat templates under a limit of memory; `suites.nlp.writing.chats` starts it.

It reads and writes JSON, each behind its length, and ends with its input. Templates see no attributes of Python's
insides and cannot change what they are given (Jinja2's ImmutableSandboxedEnvironment); they have no loader, so nothing
to import.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from functools import cache
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from framework.system.memory import bound_process

HEAD = 8  # bytes of a length
MOST = 1 << 20  # characters of a prompt
_MEMORY = 512 << 20
_FOREIGN = (nodes.Import, nodes.FromImport, nodes.Include, nodes.Extends)


def main() -> None:
    """Answer questions until the input ends."""
    bound_process(_MEMORY)
    while len(head := sys.stdin.buffer.read(HEAD)) == HEAD:
        question = json.loads(sys.stdin.buffer.read(int.from_bytes(head, "big")))
        try:
            answer = {"text": rendered(question["template"], question["values"])}
        except MemoryError:
            answer = {"error": "it takes more memory than it may"}
        except Exception as error:  # whatever its expressions and filters raise
            answer = {"error": f"{error}"[:500] or type(error).__name__}
        data = json.dumps(answer).encode()
        sys.stdout.buffer.write(len(data).to_bytes(HEAD, "big") + data)
        sys.stdout.buffer.flush()


def rendered(template: str, values: dict[str, Any]) -> str:
    """The prompt; a TemplateError or what the template's own expressions raise."""
    parts, size = [], 0
    for part in _compiled(template).generate(**values):
        size += len(part)
        if size > MOST:
            raise TemplateError(f"its prompt has more than {MOST} characters")
        parts.append(part)
    return "".join(parts)


class _Generation(Extension):
    """`{% generation %}`, around what a model wrote, for training on that alone; here it changes nothing."""

    tags = {"generation"}  # noqa: RUF012  (as jinja2 has it)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


@cache
def _compiled(template: str) -> Template:
    # As transformers' apply_chat_template has it, for which templates are written.
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    made.filters["tojson"] = _tojson
    made.globals["raise_exception"] = _refuse
    made.globals["strftime_now"] = lambda form: datetime.now(UTC).strftime(str(form))
    found = next(made.parse(template).find_all(_FOREIGN), None)
    if found is not None:
        raise TemplateError(f"line {found.lineno} takes in another template, which there is none of")
    return made.from_string(template)


def _refuse(message: object) -> NoReturn:
    raise TemplateError(str(message))


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


if __name__ == "__main__":
    main()
