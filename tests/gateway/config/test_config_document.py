"""config.yaml is YAML 1.2: its scalars, and messages about invalid YAML."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.yaml_document import Tree, parse, scalar
from strowger_gateway.schemas.errors import InvalidConfig
from tests.gateway.config.configs import GOOD, faults, read, with_model


def parsed(text: str) -> Tree:
    problems = Problems("config.yaml")
    tree = parse(text, problems)
    problems.raise_if_any()
    return tree


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "y", "N", "On", "YES"])
def test_words_that_were_booleans_in_yaml_1_1_are_text(word: str) -> None:
    assert parsed(f"{word}: {word}") == {word: word}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("20_000_000", 20_000_000),
        ("-5", -5),
        ("0777", 777),
        ("0o17", 15),
        ("0xff", 255),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1_000.5", 1000.5),
        ("2024-10-21", "2024-10-21"),
        ("12:30:45", "12:30:45"),
        ("1__0", "1__0"),
        ("_1", "_1"),
        (".nan", ".nan"),
        ("9" * 5000, "9" * 5000),
        ('"5"', "5"),
        ("'true'", "true"),
    ],
)
def test_scalars_mean_what_yaml_1_2_says(written: str, meant: Tree) -> None:
    assert parsed(f"a: {written}") == {"a": meant}


# No control characters, other line ends, or long lines: PyYAML writes them so that they are lost.
letters = st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp"))


@given(
    tree=st.recursive(
        st.text(letters, max_size=12),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(letters, max_size=5), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    style=st.sampled_from(["'", '"', "|", ">"]),
    flow=st.booleans(),
    unicode=st.booleans(),
)
def test_text_that_another_program_wrote_in_any_style_is_read_back(
    tree: Tree, style: str, flow: bool, unicode: bool
) -> None:
    written = yaml.safe_dump(
        {"a": tree},
        default_style=style,
        default_flow_style=flow,
        width=10_000,
        allow_unicode=unicode,
        sort_keys=False,
    )

    assert parsed(written) == {"a": tree}


@given(st.text())
def test_no_scalar_is_too_strange(text: str) -> None:
    assert scalar(text) is None or isinstance(scalar(text), bool | int | float | str)


@given(st.integers(min_value=-(10**40), max_value=10**40))
def test_every_integer_is_read_back(number: int) -> None:
    assert scalar(str(number)) == number
    assert scalar(f"{number:_}") == number


def test_keys_are_always_text() -> None:
    assert parsed("{on: 1, 5: 2, null: 3, 1.5: 4}") == {"on": 1, "5": 2, "null": 3, "1.5": 4}


def test_retry_on_is_a_key_and_no_boolean() -> None:
    text = with_model("retry: {on: [connect]}")

    assert read(text).models[2].retry.on == ("connect",)


def test_every_duplicate_key_is_reported_with_its_line() -> None:
    text = f"server:\n  port: 1\n  host: localhost\n  port: 2\n  port: 3\n{GOOD}\nserver: {{}}\n"

    assert faults(text) == [
        "server.port: already given on line 2",
        "server.port: already given on line 2",
        "server: already given on line 1",
    ]


def test_an_anchor_may_be_used_again() -> None:
    assert parsed("a: &x {b: 1}\nc: *x") == {"a": {"b": 1}, "c": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty; it needs at least `providers` and `models`"),
        ("# nothing\n", "is empty; it needs at least `providers` and `models`"),
        ("a: [", "not valid YAML: a list or mapping in brackets that begins on line 1 is not "
         "closed, or misses a comma; expected , or ] or }"),
        ("a: b: c", "not valid YAML: a colon is not expected here: the line is indented more than "
         "the one before it, or a text with a colon is not in quotes"),
        ("{a: ${B}}", "not valid YAML: between { and }, put ${…} in quotes"),
        ("a: \x00", "contains characters that YAML forbids; save it as UTF-8 without control "
                    "characters"),
        ("--- 1\n--- 2", "not valid YAML: the file has several documents; remove the line --- "
         "before the second one"),
        ("a: *sk-secret", "not valid YAML: * begins a reference to an anchor (&), and there is "
         "none of this name; put a text in quotes"),
    ],
)  # fmt: skip
def test_broken_yaml_is_reported_with_line_and_column(text: str, told: str) -> None:
    assert faults(text) == [told]


def test_a_list_is_not_a_configuration() -> None:
    assert faults("- 1") == ["expected a mapping, found a list"]


def test_tags_mean_nothing() -> None:
    with pytest.raises(InvalidConfig, match=r":1:4: a: YAML tags \(!…\) are not supported"):
        parsed("a: !!python/name:os.system x")


def test_a_document_inside_itself_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="nested too deeply, or inside itself"):
        parsed("a: &a [*a]")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: " + "[" * 5000 + "]" * 5000, ":1:[0-9]+: nested more than 32 levels deep"),
        ("{a: " * 5000 + "1" + "}" * 5000, ":1:[0-9]+: nested more than 32 levels deep"),
        ("a:\n" + "- " * 5000, ":2:[0-9]+: nested more than 32 levels deep"),
        ("? " * 5000, ":1:[0-9]+: nested more than 32 levels deep"),
        ("\n".join(" " * level + "a:" for level in range(500)), ":34:[0-9]+: nested more than"),
        (
            "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
            + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)),
            "has more than 100,000 values, including those repeated by aliases",
        ),
        (
            "a0: &a0 {x: 1, y: 2}\n"
            + "".join(f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}\n" for n in range(1, 31)),
            "has more than 100,000 values, including those repeated by aliases",
        ),
    ],
    ids=["lists", "mappings", "dashes", "keys", "lines", "aliases", "aliased mappings"],
)
def test_a_document_that_is_nested_or_repeated_beyond_reason_is_refused_while_it_is_read(
    text: str, told: str
) -> None:
    with pytest.raises(InvalidConfig, match=told):
        parsed(text)


def test_problems_beyond_two_hundred_are_counted() -> None:
    with pytest.raises(InvalidConfig) as caught:
        parsed("\n".join(f"a: {n}" for n in range(302)))

    assert len(caught.value.problems) == 201
    assert caught.value.problems[-1].endswith("and 101 more problems")


def test_a_key_that_is_not_a_word_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=":1:3: a key must be text"):
        parsed("? [a, b]\n: 1")


def test_a_character_escaped_in_two_halves_is_joined() -> None:
    assert parsed('"\\ud83d\\ude00": "a\\ud83d\\ude00"') == {"😀": "a😀"}


def test_half_a_character_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=":1:4: a: contains half of a surrogate pair"):
        parsed('a: "\\ud83d"')
