"""Faults of `prompts` and of variants that name them, as `strowger check` and a reload see them."""

import re
from pathlib import Path

import pytest

from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.config.changes import config_changes
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.schemas.errors import InvalidConfig

GOOD = """
providers: [{name: a, adapter: openai, api_key: k}]
models:
  - {name: one, backends: [{provider: a, model: x}]}
  - {name: two, backends: [{provider: a, model: x}, {provider: a, model: y}]}
"""


def read(folder: Path, more: str) -> tuple[Config, list[str]]:
    """Return the configuration and its warnings."""
    told: list[str] = []
    text = GOOD + more
    found = read_config(text, source="c.yaml", env={}, folder=folder, warn=told.append, parts=PARTS)
    return found, told


def faults(folder: Path, more: str) -> list[str]:
    with pytest.raises(InvalidConfig) as raised:
        read(folder, more)
    return [re.sub(r"^c\.yaml(:[0-9]+:[0-9]+)?: ", "", one) for one in raised.value.problems]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.md").write_text("A {{ x }}")
    (tmp_path / "b.md").write_text("B {{ x }} {{ y | z }}")
    (tmp_path / "bad.md").write_text("B\n  {{ x }")
    (tmp_path / "latin.md").write_bytes(b"B\xff")
    (tmp_path / "huge.md").write_bytes(b"x" * (2 * 1024 * 1024 + 1))
    (tmp_path / "jinja.md").write_text("B\n{% if x %}y{% endif %}")
    return tmp_path


@pytest.mark.parametrize(
    ("prompts", "place", "says"),
    [
        ("{name: p, versions: []}", "prompts[0].versions", "is empty"),
        ("{name: p@1, versions: [{version: 1, file: a.md}]}", "prompts[0].name", "up to 64"),
        ("{name: p, versions: [{version: '', file: a.md}]}", "prompts[0].versions[0].version", ""),
        (
            "{name: p, versions: [{version: 1, file: a.md}, {version: '1', file: b.md}]}",
            "prompts[0].versions[1].version",
            '"1" is already the name of versions[0]',
        ),
        (
            "{name: p, versions: [{version: 1, file: a.md}, {version: 2, file: b.md}]}",
            "prompts[0].default",
            "is missing; name one of the versions: 1, 2",
        ),
        (
            "{name: p, default: 3, versions: [{version: 1, file: a.md}]}",
            "prompts[0].default",
            'no version is named "3"; versions: "1"',
        ),
        (
            "{name: p, versions: [{version: 1, file: none.md}]}",
            "prompts[0].versions[0].file",
            '" cannot be read: no such file or folder',
        ),
        (
            "{name: p, versions: [{version: 1, file: latin.md}]}",
            "prompts[0].versions[0].file",
            "is not UTF-8 text: see its byte 1",
        ),
        (
            "{name: p, versions: [{version: 1, file: huge.md}]}",
            "prompts[0].versions[0].file",
            "is larger than 2 MiB",
        ),
        (
            "{name: p, versions: [{version: 1, file: bad.md}]}",
            "prompts[0].versions[0].file",
            'bad.md:2:3: "{{ x }" opens a field that does not end on its line',
        ),
        (
            "{name: p, longest_value: 0, versions: [{version: 1, file: a.md}]}",
            "prompts[0].longest_value",
            "at least 1",
        ),
    ],
)
def test_a_fault_names_its_place_and_the_remedy(
    folder: Path, prompts: str, place: str, says: str
) -> None:
    (found,) = faults(folder, f"prompts: [{prompts}]")

    assert found.startswith(f"{place}: ")
    assert says in found


def test_one_bad_file_hides_no_fault_of_another(folder: Path) -> None:
    found = faults(
        folder,
        "prompts:\n"
        "  - {name: p, versions: [{version: 1, file: bad.md}]}\n"
        "  - {name: p, versions: [{version: 1, file: none.md}]}\n",
    )

    assert len(found) == 3
    assert 'prompts[1].name: "p" is already the name of prompts[0]' in found


@pytest.mark.parametrize(
    ("model", "variant", "place", "says"),
    [
        ("one", "prompt: q@1", "prompt", 'no prompt is named "q"'),
        ("one", "prompt: p@3", "prompt", 'p has no version "3"; versions: "1", "2"'),
        ("one", "prompt: p", "prompt", "NAME@VERSION of a prompt"),
        ("one", "set: {top_p: 1}", "backend", "is missing; give PROVIDER/MODEL"),
        ("two", "prompt: p@1", "backend", "p@1 does not say which of the model's backends"),
        ("one", "prompt: p@2", "", "is identical to variants[0]"),
    ],
)
def test_a_fault_of_a_variant_names_what_exists(
    folder: Path, model: str, variant: str, place: str, says: str
) -> None:
    more = f"""
prompts:
  - {{name: p, default: 1, versions: [{{version: 1, file: a.md}}, {{version: 2, file: b.md}}]}}
experiments:
  - name: e
    model: {model}
    primary: error
    variants: [{{name: c, weight: 1, backend: a/x, prompt: p@2}}, {{name: t, weight: 1, {variant}}}]
"""
    found = faults(folder, more)

    where = "experiments[0].variants[1]" + (f".{place}" if place else "")
    assert any(one.startswith(f"{where}: ") and says in one for one in found), found


def test_a_variant_with_a_prompt_has_the_models_only_backend(folder: Path) -> None:
    more = """
prompts:
  - {name: p, default: 1, versions: [{version: 1, file: a.md}, {version: 2, file: b.md}]}
experiments:
  - name: e
    model: one
    primary: error
    variants: [{name: c, weight: 1, prompt: p@1}, {name: t, weight: 1, prompt: p@2}]
"""
    found, told = read(folder, more)

    assert told == []
    arms = found.experiments[0].variants
    assert [one.backend for one in arms] == ["a/x", "a/x"]
    assert [one.prompt_text for one in arms] == ["A {{ x }}", "B {{ x }} {{ y | z }}"]


@pytest.mark.parametrize(
    ("versions", "says"),
    [
        (
            "[{version: 1, file: jinja.md}]",
            'jinja.md:2: "{% if x %}" looks like a statement of Jinja',
        ),
        (
            "[{version: 1, file: a.md}, {version: 2, file: a.md}]",
            "prompts[0].versions[1]: has the same text as version 1",
        ),
    ],
)
def test_what_is_probably_a_mistake_is_a_warning(folder: Path, versions: str, says: str) -> None:
    _, told = read(folder, f"prompts: [{{name: p, default: 1, versions: {versions}}}]")

    assert len(told) == 1
    assert says in told[0]


def test_the_audit_of_a_reload_shows_the_digest_and_not_the_text(folder: Path) -> None:
    more = "prompts: [{name: p, versions: [{version: 1, file: a.md}]}]"
    before, _ = read(folder, more)
    (folder / "a.md").write_text("Another text.")
    after, _ = read(folder, more)

    (change,) = config_changes(before, after)

    assert change.field == "prompts[p].versions[1].digest"
    assert (change.old, change.new) == (
        before.prompts[0].versions[0].digest,
        after.prompts[0].versions[0].digest,
    )
    assert before.digest != after.digest
