"""Settings files of people: one value changes, and every other byte that means something stays."""

import json
import re
import tomllib

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.cli.agents.documents.document import (
    ListItem,
    Path,
    Unchangeable,
    Value,
    changed,
    value_at,
)
from strowger_gateway.gateway.cli.agents.documents.formats import FORMATS

WORDS = st.text("abcé-_ {}[]:#\"'/\\,", min_size=1, max_size=6)
NAMES = st.sampled_from(["a", "env", "b-c", "é"])
SCALARS = st.one_of(st.booleans(), st.integers(-9, 9), WORDS, st.just(""))
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(NAMES, WORDS), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.one_of(NAMES, WORDS), PLAIN, max_size=4)
ENDLESS = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
"""Some hundred bytes with 10^10 values."""

PATHS = st.lists(NAMES, min_size=1, max_size=3)


def commented(text: str, mark: str) -> str:
    """Put a comment before each line that begins one of the outermost members."""
    lines = text.splitlines()
    return "\n".join(
        f"{mark} note {place}\n{line}" if re.match(r' {2}"', line) else line
        for place, line in enumerate(lines)
    )


@given(OBJECTS, PATHS, PLAIN, st.sampled_from([None, 2, 4]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_json_with_comments_gets_one_value_and_can_lose_it_again(
    data: dict[str, Value], path: list[str], value: Value, indent: int | None, notes: bool
) -> None:
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    text = commented(text, "//") if notes else text
    try:
        after = changed(FORMATS["json"], text, tuple(path), value)
    except Unchangeable:
        assert value_at(data, tuple(path[:1])) is not None  # of another kind
        return

    assert value_at(FORMATS["json"].read(after), tuple(path)) == value
    assert after.count("// note") == text.count("// note")
    if value_at(data, tuple(path)) is None:
        without = changed(FORMATS["json"], after, tuple(path), None)
        assert value_at(FORMATS["json"].read(without), tuple(path)) is None


@given(OBJECTS, PATHS, PLAIN, st.booleans())
@settings(max_examples=80, deadline=None)
def test_yaml_gets_one_value_and_can_lose_it_again(
    data: dict[str, Value], path: list[str], value: Value, flow: bool
) -> None:
    text = yaml.safe_dump(data, default_flow_style=flow, allow_unicode=True, sort_keys=False)
    text = "# mine\n" + ("" if not data else text)
    try:
        after = changed(FORMATS["yaml"], text, tuple(path), value)
        without = changed(FORMATS["yaml"], after, tuple(path), None)
    except Unchangeable:
        return  # what is odd is refused, never written wrongly

    assert value_at(FORMATS["yaml"].read(after), tuple(path)) == value
    assert after.startswith("# mine\n")
    assert value_at(FORMATS["yaml"].read(without), tuple(path)) is None


@pytest.mark.parametrize(
    ("form", "text", "path", "value", "wanted"),
    [
        (
            "json",
            '{\n  // theirs\n  "a": 1, // one\n  "b": {"c": "d"},\n}\n',
            ("b", "e"),
            2,
            '{\n  // theirs\n  "a": 1, // one\n  "b": {"c": "d", "e": 2},\n}\n',
        ),
        (
            "json",
            '{\n\t"a": 1 // last\n}\n',
            ("model",),
            "chat",
            '{\n\t"a": 1, // last\n\t"model": "chat"\n}\n',
        ),
        ("json", "", ("a", "b"), True, '{\n  "a": {\n    "b": true\n  }\n}\n'),
        (
            "json",
            '{"l": [{"id": "x", "n": 1}]}',
            ("l", ListItem("id", "x"), "n"),
            2,
            '{"l": [{"id": "x", "n": 2}]}',
        ),
        (
            "toml",
            '# mine\nmodel = "x" # keep\n\n[tui]\ntheme = "dark"\n',
            ("model",),
            "chat",
            '# mine\nmodel = "chat" # keep\n\n[tui]\ntheme = "dark"\n',
        ),
        (
            "toml",
            '# mine\n\n[tui]\ntheme = "dark"\n',
            ("model_providers", "strowger"),
            {"name": "S"},
            '# mine\n\n[tui]\ntheme = "dark"\n\n[model_providers.strowger]\nname = "S"\n',
        ),
        (
            "toml",
            '[tui]\ntheme = "dark"\n',
            ("model",),
            "chat",
            'model = "chat"\n\n[tui]\ntheme = "dark"\n',
        ),
        (
            "yaml",
            "name: Mine # yes\nmodels:\n  # first\n  - name: x\n    model: y\nrules:\n"
            "  - be kind\n",
            ("models", ListItem("name", "S")),
            {"name": "S", "roles": ["chat"]},
            "name: Mine # yes\nmodels:\n  # first\n  - name: x\n    model: y\n"
            "  - name: S\n    roles:\n    - chat\nrules:\n  - be kind\n",
        ),
        ("yaml", "model: old # mine\n", ("model",), "new", 'model: "new" # mine\n'),
        ("env", "A=1\n# mine\nB='x'", ("B",), "http://y", "A=1\n# mine\nB=http://y\n"),
        ("env", "A=1", ("B",), "two words", "A=1\nB='two words'\n"),
        ("env", "export B=x # why\nA=1\n", ("B",), "y", "export B=y # why\nA=1\n"),
        # byte order marks, and line ends of Windows
        (
            "toml",
            '\ufeffm = "x"\r\n\r\n[t]\r\na = 1\r\n',
            ("n",),
            2,
            '\ufeffm = "x"\r\nn = 2\r\n\r\n[t]\r\na = 1\r\n',
        ),
        (
            "json",
            '{\r\n  "a": 1\r\n}\r\n',
            ("b", "c"),
            2,
            '{\r\n  "a": 1,\r\n  "b": {\r\n    "c": 2\r\n  }\r\n}\r\n',
        ),
        ("yaml", "\ufeffa: 1\r\n", ("b",), "x", "\ufeffa: 1\r\nb: x\r\n"),
        ("env", "\ufeffA=1\r\n", ("A",), "2", "\ufeffA=2\r\n"),
        # nothing, in its several forms
        ("json", "// mine\n", ("a",), 1, '// mine\n{\n  "a": 1\n}\n'),
        ("json", '{"env": null}', ("env", "A"), "x", '{"env": {\n  "A": "x"\n}}'),
        ("yaml", "env: ~ # mine\n", ("env", "A"), "x", 'env: {"A": "x"} # mine\n'),
        # comments of values, and those above the next table
        ("toml", 'm = "a # b"  # c "q"\n', ("m",), "x", 'm = "x"  # c "q"\n'),
        ("toml", "m = 'x'# it's\n", ("m",), "y", 'm = "y"# it\'s\n'),
        ("toml", "[s]\nn = 1\n\n# of t\n[t]\na = 1\n", ("s",), None, "# of t\n[t]\na = 1\n"),
        (
            "toml",
            "[s]\nn = 1\n\n# of t\n[t]\na = 1\n",
            ("s", "m"),
            2,
            "[s]\nn = 1\nm = 2\n\n# of t\n[t]\na = 1\n",
        ),
        ("toml", "m = 1\n\n# of t\n[t]\n", ("n",), 2, "m = 1\nn = 2\n\n# of t\n[t]\n"),
        # what equals nothing, what JSON would escape otherwise, and brackets
        ("toml", "f = nan\n", ("m",), "\U0001f642\x7f", 'f = nan\nm = "\U0001f642\\u007f"\n'),
        ("yaml", "{a: 1, b: 2}\n", ("b",), None, '{"a": 1}\n'),
    ],
)
def test_layout_and_comments_stay(
    form: str, text: str, path: Path, value: Value, wanted: str
) -> None:
    found = changed(FORMATS[form], text, path, value)  # type: ignore[index]

    assert found == wanted


@pytest.mark.parametrize(
    ("form", "text", "path", "told"),
    [
        ("json", '{"a": }', ("b",), "is not valid JSON, line 1"),
        ("json", '{\n"a": 1\n"b": 2}', ("b",), "is not valid JSON, line 3"),
        ("json", "[1]", ("b",), "is not an object"),
        ("json", '{"a": "text"}', ("a", "b"), "the value around it is not an object"),
        ("json", "[" * 200, ("b",), "nested more than 100 levels deep"),
        ("toml", "a = ", ("b",), "is not valid TOML"),
        ("toml", 'p = {s = {n = "x"}}\n', ("p", "s", "n"), "cannot be changed in place"),
        ("toml", 'p.s.n = "x"\n', ("p", "s", "n"), "cannot be changed in place"),
        ("yaml", "a: [", ("b",), "is not valid YAML"),
        ("yaml", "- 1\n", ("b",), "is not a mapping"),
        ("yaml", "a: &x {b: 1}\nc: *x\n", ("c", "d"), "cannot be changed in place"),
        ("yaml", "a: &x [*x]\n", ("b",), "has an alias that names itself"),
        ("yaml", ENDLESS, ("b",), "has more than 100,000 values"),
    ],
)
def test_what_cannot_be_changed_without_loss_is_refused(
    form: str, text: str, path: Path, told: str
) -> None:
    with pytest.raises(Unchangeable, match=told):
        changed(FORMATS[form], text, path, 1)  # type: ignore[index]


@given(st.dictionaries(st.sampled_from("abcde"), st.integers(0, 9), max_size=4), WORDS)
@settings(max_examples=60, deadline=None)
def test_toml_keeps_its_tables(tables: dict[str, int], word: str) -> None:
    text = "top = 1 # mine\n" + "".join(f"\n[t.{name}]\nn = {n}\n" for name, n in tables.items())

    after = changed(FORMATS["toml"], text, ("t", "ours"), {"name": word, "n": 1})
    without = changed(FORMATS["toml"], after, ("t", "ours"), None)

    assert "# mine" in after
    assert tomllib.loads(after)["t"] == {
        **{name: {"n": n} for name, n in tables.items()},
        "ours": {"name": word, "n": 1},
    }
    assert tomllib.loads(without) == tomllib.loads(text)
