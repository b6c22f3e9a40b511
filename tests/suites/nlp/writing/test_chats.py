"""Chat templates: prompts as transformers makes them, and templates that may do nothing else."""

import time

import pytest

from framework.errors import DataError
from suites.nlp.writing.chats import ChatTemplate

CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe kind<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
HELLO = [{"role": "user", "content": "Hello"}]


def made(template, **around):
    chat = ChatTemplate(template, around)
    try:
        return chat.prompt(HELLO)
    finally:
        chat.close()


def test_messages_become_the_prompt_that_smollm2_was_trained_on():
    wanted = "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert made(CHATML) == wanted


def test_special_tokens_filters_and_lines_are_as_transformers_has_them():
    template = "{{ bos_token }}\n{% if true %}\n  {% set x = {'a': 'ü'} %}\n{{ x | tojson }}{% endif %}"
    assert made(template, bos_token="<s>") == '<s>\n{"a": "ü"}'


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        ("{% if tools is not none %}tools{% endif %}{% if documents is defined %}none{% endif %}", "none"),
        ("{% generation %}{% set x = 1 %}a{% endgeneration %}{{ x }}", "a"),
        ("{{ {'b': 1, 'a': 'ü'} | tojson(ensure_ascii=True, separators=(',', ':'), sort_keys=True) }}",
         '{"a":"\\u00fc","b":1}'),
    ],
)  # fmt: skip
def test_what_templates_expect_of_transformers_is_there(template, wanted):
    assert made(template) == wanted


@pytest.mark.parametrize(
    ("template", "match"),
    [
        ("{% import 'os' as os %}", "line 1 takes in another template"),
        ("{% include '/etc/passwd' %}", "takes in another template"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe|undefined"),
        ("{{ messages.append(1) }}", "not safely callable|unsafe"),
        ("{{ range(10 ** 12) | length }}", "Range too big"),
        ("{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "more than 1048576 characters"),
        ("{{ 'x' * 10 ** 9 }}", "memory"),
        ("{{ raise_exception('roles must take turns') }}", "roles must take turns"),
        ("{% for %}", "Expected|expected"),
        ("{{ 1 // 0 }}", "zero"),
        ("{{ 'a' | dictsort }}", "has no attribute 'items'"),
    ],
)
def test_a_template_that_does_something_else_is_refused(template, match):
    with pytest.raises(DataError, match=match):
        made(template)


def test_a_template_that_loops_is_ended_and_the_next_prompt_is_made():
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    chat = ChatTemplate("{% if messages | length > 1 %}" + loops + "{% endif %}ok", {}, seconds=2)
    start = time.monotonic()
    with pytest.raises(DataError, match="more than 2 seconds"):
        chat.prompt([*HELLO, *HELLO])
    assert time.monotonic() - start < 20
    assert ChatTemplate("ok", {}).prompt(HELLO) == "ok"
    chat.close()
