"""A chat template takes a bounded time and memory, and reaches no internals of Python."""

import time
from pathlib import Path

import jinja2
import pytest

from strowger_gateway.local_engine.text.bounded_template import BoundedTemplate
from strowger_gateway.local_engine.text.template_meter import TemplateTooLarge
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import Message
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import hosted
from tests.local_engine.loading.broken_checkpoints import copied
from tests.local_engine.loading.refusals import refusal
from tests.local_engine.tiny import save_tokenizer

SECONDS = 0.1
"""Processor time for these templates; conversations have more."""


def repeated(start: str, change: str, end: str = "") -> str:
    """A template that changes `ns.s` 64 times."""
    turns = f"{{% for _ in range(64) %}}{{% set ns.s = {change} %}}{{% endfor %}}"
    return f"{{% set ns = namespace(s={start}) %}}{turns}{end}"


ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}"
LONG = "{% set s = 'x' * 1000000 %}"

HOSTILE = {
    "a loop without an end": ENDLESS,
    "a loop in a block": f"{{% filter upper %}}{ENDLESS}{{% endfilter %}}",
    "macros that call themselves": "{% macro f(n) %}{% if n < 60 %}{% set a = f(n + 1) %}"
    "{% set b = f(n + 1) %}{% endif %}{% endmacro %}{{ f(0) }}",
    "a long text": "{{ 'x' * 10 ** 9 }}",
    "a long list": "{{ ([0] * 10 ** 9) | length }}",
    "a large number": "{{ (10 ** 10) ** 10000000 }}",
    "a number that is squared": repeated("3", "ns.s * ns.s"),
    "a text that doubles": repeated("'12345678'", "ns.s + ns.s"),
    "a text that doubles by ~": repeated("'12345678'", "ns.s ~ ns.s"),
    "a text that doubles by a format": repeated("'12345678'", "'%s%s' % (ns.s, ns.s)"),
    "a text that doubles in a block": "{% set ns = namespace(s='12345678') %}"
    "{% for _ in range(64) %}{% set b %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = b %}"
    "{% endfor %}",
    "a list that doubles": repeated("[1, 2]", "ns.s + ns.s"),
    "lists in lists": repeated("[1]", "[ns.s, ns.s]", "{{ ns.s }}"),
    "pairs of pairs": repeated("(1, 2)", "(ns.s, ns.s)", "{{ ns.s == ns.s }}"),
    "mappings of mappings": repeated("{}", "{'a': ns.s, 'b': ns.s}", "{{ ns.s | tojson }}"),
    "mappings by dict": repeated("{}", "dict(a=ns.s, b=ns.s)", "{{ ns.s | tojson }}"),
    "namespaces": repeated("1", "namespace(a=ns.s, b=ns.s)", "{{ ns.s }}"),
    "lists that are added": "{% set l = [[1] * 1000] * 1000 %}{{ l | sum(start=[]) }}",
    "a filter that pads": "{{ 'x' | center(10 ** 9) }}",
    "a filter that is mapped": "{{ ['x'] | map('center', 10 ** 9) | list }}",
    "a method that pads": "{{ 'x'.ljust(10 ** 9) }}",
    "zeros": "{{ 'x'.zfill(10 ** 9) }}",
    "tabs": "{{ '\\t'.expandtabs(10 ** 9) }}",
    "bytes": "{{ (1).to_bytes(10 ** 9, 'big') }}",
    "an indent": "{{ 'x\\ny' | indent(10 ** 9) }}",
    "an indent of JSON": "{{ [[1]] | tojson(indent=10 ** 9) }}",
    "batches": "{{ [1] | batch(10 ** 9, 'x') | list }}",
    "slices": "{{ [1] | slice(10 ** 9) | list }}",
    "a number of digits": "{{ 1 | round(10 ** 8, 'ceil') }}",
    "a format's width": "{{ '%1000000000d' | format(1) }}",
    "an operator's width": "{{ '%1000000000d' % 1 }}",
    "a width as an argument": "{{ '%*d' % (10 ** 9, 1) }}",
    "a method's width": "{{ '{:1000000000}'.format(1) }}",
    "a method's width as an argument": "{{ '{:{}}'.format(1, 10 ** 9) }}",
    "a mapping's width": "{{ '{a:1000000000}'.format_map({'a': 1}) }}",
    "replacements": LONG + "{{ s | replace('x', s) }}",
    "a method's replacements": LONG + "{{ s.replace('', s) }}",
    "a separator": LONG + "{{ s | join(s) }}",
    "a method's separator": LONG + "{{ s.join(s) }}",
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_template_that_computes_too_much_is_stopped(case: str) -> None:
    template = BoundedTemplate(HOSTILE[case], seconds=SECONDS)
    began = time.thread_time()

    with pytest.raises(TemplateTooLarge):
        template.render(messages=[])

    assert time.thread_time() - began < 20 * SECONDS


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append.__globals__ }}",
        "{{ messages.append(1) }}",
        "{{ ''['__class__']['__base__']['__subclasses__']() }}",
        "{{ ('' | attr('__class__')).__base__ }}",
        "{{ raise_exception.__globals__ }}",
        "{{ strftime_now.__closure__ }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ 'x'.translate({120: 'y'}) }}",
    ],
)
def test_a_template_reaches_no_internals_of_python(source: str) -> None:
    try:
        written = BoundedTemplate(source).render(messages=[])
    except jinja2.TemplateError:
        written = ""

    assert written == ""


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ 'a' ~ 1 ~ none ~ missing ~ [1, 'b'] }}", "a1None[1, 'b']"),
        ("{{ [1, 'b', missing] | join(', ') }}", "1, b, "),
        ("{{ [{'a': {'b': 1}}, {'a': {'b': 2}}] | join('+', attribute='a.b') }}", "1+2"),
        ("{{ [1, 2] | sum }} {{ [{'n': 3}] | sum('n', start=1) }}", "3 4"),
        (
            "{{ {'b': 'ä', 'a': [1]} | tojson(indent=2) }}",
            '{\n  "b": "ä",\n  "a": [\n    1\n  ]\n}',
        ),
        ("{% for a, b in [(1, 2)] %}{{ loop.last }}{{ a }}{{ b }}{% endfor %}", "True12"),
        ("{% for a in [1, 2] %}{% if a == 1 %}{% continue %}{% endif %}{{ a }}{% endfor %}", "2"),
        ("{% set a, b = 1, [2] %}{{ a }}{{ b[0] }}{{ (a, b) }}", "12(1, [2])"),
        (
            "{% macro m(context, obj) %}{{ context }}{{ obj }}{% endmacro %}{{ m(1, obj=3) }}",
            "13",
        ),
        ("{% generation %}x{% endgeneration %}{{ '%05.1f|%s' % (1.5, 'y') }}", "x001.5|y"),
        (
            "{{ 'a-b'.replace('-', '+') }}{{ ','.join(['x', 'y']) }}{{ 'z' | center(3) }}|",
            "a+bx,y z |",
        ),
        (
            "{{ [3, 1] | sort }}{{ 'x' | indent(2, true) }}{{ 'a'.format() }}{{ 2 ** 3 * 2 }}",
            "[1, 3]  xa16",
        ),
    ],
)
def test_templates_compute_what_they_always_do(source: str, text: str) -> None:
    assert BoundedTemplate(source).render(messages=[]) == text


def with_template(folder: Folder, to: Path, template: str) -> Path:
    path = copied(folder("llama"), to / "model")
    for name in ("chat_template.jinja", "tokenizer_config.json", "tokenizer.json"):
        (path / name).unlink()
    save_tokenizer(path, template=template)
    return path


def test_a_model_with_a_template_that_computes_too_much_is_refused_at_its_start(
    folder: Folder, tmp_path: Path
) -> None:
    said = refusal(with_template(folder, tmp_path, "{{ 'x' * 10 ** 9 }}"))

    assert "the chat template cannot be used" in said
    assert "it builds more than 268,435,456 characters" in said


def test_a_conversation_for_which_the_template_computes_too_much_is_an_error_of_its_own(
    folder: Folder, tmp_path: Path
) -> None:
    template = "{% if messages[0].content == 'open' %}{{ 'x' * 10 ** 9 }}{% endif %}fine"
    chat = hosted(with_template(folder, tmp_path, template)).tokenizer.chat

    with pytest.raises(InvalidRequest, match="template takes too much for this conversation: it"):
        chat.render((Message(role="user", content="open"),))
    assert chat.render((Message(role="user", content="closed"),)) == "fine"
