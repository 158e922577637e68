"""The language of templates: sections, fields, defaults, escapes, and where faults are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.config.prompts.template import (
    Gap,
    InvalidTemplate,
    Section,
    parse_template,
)


def faults(text: str) -> list[tuple[int, int, str]]:
    with pytest.raises(InvalidTemplate) as raised:
        parse_template(text)
    return [(one.line, one.column, one.what) for one in raised.value.faults]


def test_a_text_without_markers_is_the_system_section() -> None:
    found = parse_template("\n\nBe brief.\nBe kind.\n\n")

    assert found.sections == (Section(role="system", pieces=("Be brief.\nBe kind.",)),)
    assert not found.asks


def test_markers_begin_sections_and_blank_lines_around_them_do_not_count() -> None:
    found = parse_template(
        "Answer.\n\n--- user ---\n\nOne\n--- assistant ---\nTwo\n--- user ---\nThree {{ x }}\n"
    )

    assert [one.role for one in found.sections] == ["system", "user", "assistant", "user"]
    assert found.sections[3].pieces == ("Three ", Gap("x"))
    assert found.asks
    assert not parse_template("--- user ---\nOne\n--- assistant ---\nTwo").asks


def test_one_default_is_enough_for_all_places_of_a_field() -> None:
    found = parse_template("{{ a }} {{a|some text}} {{ b }}{{ c | }}")

    assert found.fields == ("a", "b", "c")
    assert found.defaults == {"a": "some text", "c": ""}
    assert found.required == ("b",)


def test_four_braces_are_two_and_closing_braces_alone_are_text() -> None:
    found = parse_template('{{{{ name }} {"a": {"b": 1}} {{x}}}')

    assert found.sections[0].pieces == ('{{ name }} {"a": {"b": 1}} ', Gap("x"), "}")


@pytest.mark.parametrize(
    "text",
    [
        'Reply with {"name": "x", "list": [{"a": {"b": 1}}]}',
        "an empty {} or { } and a lone } or {",
        "{text} %s %(x)s ${HOME} $x #{x} <%= x %> [[x]]",
        "\\frac{a}{b} {a}}} }}",
    ],
)
def test_single_braces_and_the_fields_of_other_languages_are_text(text: str) -> None:
    found = parse_template(f"{text} {{{{ x }}}}")

    assert found.sections[0].pieces == (f"{text} ", Gap("x"))


def test_a_backslash_before_a_marker_makes_it_text() -> None:
    assert parse_template("a\n\\--- user ---").sections == (
        Section(role="system", pieces=("a\n--- user ---",)),
    )


def test_rules_and_headings_of_markdown_are_text() -> None:
    text = "# Rules\n---\n--- Notes ---\n## user"

    assert parse_template(text).sections == (Section(role="system", pieces=(text,)),)


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("", 1, 1, "the file is empty"),
        ("a\nb\0{{ na me }}", 2, 2, "if the file is UTF-16, save it as UTF-8"),
        ("a\n  {{ na me }}", 2, 3, '"{{ na me }}" is not a field'),
        ("{{ 1st }}", 1, 1, "no digit first"),
        ("a {{ open\n}}", 1, 3, "does not end on its line"),
        ("{{ a | x }} {{ a | y }}", 1, 13, 'has the default "x" before, and "y" here'),
        ("--- User ---\nx", 1, 1, "write --- system ---, --- user ---"),
        ("x\n---user---", 2, 1, "is nearly a section"),
        ("x\n--- developer ---", 2, 1, "is nearly a section"),
        ("x\n--- system ---\ny", 2, 1, "there is only one"),
        ("x\n--- assistant ---\ny", 2, 1, "expected --- user --- here"),
        ("--- user ---\nx\n--- user ---\ny", 3, 1, "expected --- assistant --- here"),
        ("x\n--- user ---\n\n", 2, 1, "the user section is empty"),
    ],
)
def test_a_fault_names_line_and_column(text: str, line: int, column: int, says: str) -> None:
    found = faults(text)

    assert found[0][:2] == (line, column)
    assert says in found[0][2]


def test_all_faults_of_a_file_are_found_at_once() -> None:
    assert [one[:2] for one in faults("{{ a b }}\n\n{{ }} {{ c d }}")] == [(1, 1), (3, 1), (3, 7)]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_is_a_template_or_has_faults_within_it(text: str) -> None:
    try:
        parse_template(text)
    except InvalidTemplate as exc:
        lines = text.split("\n")
        for one in exc.faults:
            assert 1 <= one.column <= len(lines[one.line - 1]) + 1


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_can_be_written_as_a_template_of_itself(text: str) -> None:
    """With each `{{` written as four braces, between lines that are no markers."""
    escaped = text.replace("{{", "{{{{")
    found = parse_template(f"[\n{escaped.replace('-', '')}\n]")

    assert found.fields == ()
    expected = text.replace("-", "")
    assert found.sections[0].pieces == (f"[\n{expected}\n]",)
