"""A part's section of config.yaml is read, refused, compared and shown as all others are."""

import re
from pathlib import Path

import pytest
from jsonschema import Draft7Validator
from msgspec import Struct

from strowger_gateway.gateway.audit.event import Change
from strowger_gateway.gateway.config.changes import config_changes, without_secrets
from strowger_gateway.gateway.config.json_schema.document import config_schema
from strowger_gateway.gateway.config.load import load_config, read_config
from strowger_gateway.gateway.config.parts.part import restarts_needed
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.secret import Secret
from tests.gateway.config.configs import ADAPTERS, GOOD, without_places
from tests.gateway.config.parts.watermark import (
    PARTS,
    Signer,
    Stamp,
    Watermark,
    WatermarkPart,
    read,
)

ENV = {"SIGNER_KEY": "key-of-the-signer", "MARK": "made by a model"}
SECTION = """
watermark:
  text: ${MARK}
  most: 2MiB
  models: [chat]
  signers: [{name: ada, key: "${SIGNER_KEY}", share: 0.5}]
  headers: {x-sign: "sign-secret-header"}
  letters: {7: g}
  font: own.ttf
"""


def section(text: str, folder: Path | None = None) -> Watermark:
    found = read(text, ENV, folder).section(Watermark)
    assert found is not None
    return found


def faults(text: str) -> list[str]:
    with pytest.raises(InvalidConfig) as caught:
        read(text, ENV)
    return [
        re.sub(r"^config\.yaml(:[0-9]+:[0-9]+)?: ", "", problem)
        for problem in caught.value.problems
    ]


def changes(old: str, new: str) -> list[Change]:
    return list(config_changes(read(old, ENV), read(new, ENV)))


def test_a_section_has_what_the_file_gives(tmp_path: Path) -> None:
    assert section(SECTION, tmp_path) == Watermark(
        text="made by a model",
        most=2 * 1024 * 1024,
        models=("chat",),
        signers=(Signer(name="ada", key=Secret("key-of-the-signer"), share=0.5),),
        headers={"x-sign": Secret("sign-secret-header")},
        letters={7: "g"},
        font=str(tmp_path / "own.ttf"),
    )


def test_a_path_that_is_not_given_starts_at_the_folder_of_the_file(tmp_path: Path) -> None:
    assert section("watermark: {text: a}", tmp_path).font == str(tmp_path / "fonts" / "plain.ttf")


@pytest.mark.parametrize("text", ["", "watermark:\n", "watermark: null\n"])
def test_a_section_that_is_absent_or_empty_is_not_in_effect(text: str) -> None:
    assert read(text).section(Watermark) is None


def test_a_section_without_settings_has_the_defaults() -> None:
    config = read("stamp: {}\n")

    assert config.section(Stamp) == Stamp()
    assert config.section(Watermark) is None


def test_a_file_on_disk_has_sections_too(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("providers: []\nmodels: []\nstamp: {colour: black}\n")

    assert load_config(path, {}, parts=PARTS).section(Stamp) == Stamp(colour="black")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("watermark: {}", ["watermark.text: is missing; give text"]),
        (
            "watermark: 3",
            [
                "watermark: expected a mapping, found a number; its keys: "
                '"text", "place", "every", "most", "models", "signers", "headers", "letters", '
                '"font", "digest"'
            ],
        ),
        (
            "watermark: {text: a, evry: 2}",
            ['watermark.evry: unknown key; did you mean "every"?'],
        ),
        (
            "watermark: {text: a, every: 0, place: top, most: 3 MB}",
            [
                'watermark.place: expected one of "start", "end", found "top"',
                "watermark.every: expected an integer of at least 1, found 0",
                'watermark.most: expected a size such as 512MiB, found "3 MB"; write 3MiB',
            ],
        ),
        (
            "watermark: {text: a, signers: [{name: ada, share: 1.5}, {}]}",
            [
                "watermark.signers[0].share: expected a number above 0, at most 1, found 1.5",
                "watermark.signers[1].name: is missing; give text",
            ],
        ),
        (
            "watermark: {text: '${ABSENT}'}",
            [
                "watermark.text: the environment variable ABSENT is not set; set it, "
                "or give a default with ${ABSENT:-…}"
            ],
        ),
        ("watermrk: {text: a}", ['watermrk: unknown key; did you mean "watermark"?']),
        ("cach: {}", ['cach: unknown key; did you mean "cache"?']),
        (
            "watermark: {text: a, models: [chat, chatt]}",
            ['watermark.models[1]: no model is named "chatt"; did you mean "chat"?'],
        ),
    ],
)
def test_a_fault_in_a_section_is_described_as_in_all_others(text: str, expected: list[str]) -> None:
    assert faults(text) == expected


def test_faults_of_a_part_come_with_all_others() -> None:
    text = "watermark: {text: a, models: [nope]}\nserver: {port: 99999}\ncache: {ttl: 1}\n"

    assert [fault.partition(":")[0] for fault in faults(text)] == [
        "server.port",
        "cache.ttl",
        "watermark.models[0]",
    ]


def test_a_fault_shows_no_secret_of_a_section() -> None:
    text = """
watermark:
  text: a
  signers: [{name: [], key: "${SIGNER_KEY}", kye: sk-typed-in-a-wrong-place}]
  headers: {x-sign: 12345678}
stamp: {colour: "key-of-the-signer"}
"""

    found = "\n".join(faults(text))

    assert "key-of-the-signer" not in found
    assert "sk-typed" not in found
    assert "12345678" not in found
    assert '"***"' in found


def test_a_setting_without_effect_is_a_warning() -> None:
    told: list[str] = []
    text = f"{GOOD}watermark: {{text: a, every: 5000}}\n"

    read_config(text, source="c", env={}, adapters=ADAPTERS, parts=PARTS, warn=told.append)

    assert without_places(told) == ["c: watermark.every: has almost no effect"]


def test_a_gateway_without_the_part_does_not_know_its_section() -> None:
    with pytest.raises(InvalidConfig) as caught:
        read_config(f"{GOOD}watermark: {{text: a}}\n", source="c", env={}, adapters=ADAPTERS)

    assert caught.value.problems[0].startswith("c:11:1: watermark: unknown key")


def test_configurations_that_differ_in_a_section_differ() -> None:
    one, same, other = (read(f"watermark: {{text: {text}}}\n") for text in "aab")

    assert one == same
    assert one != other
    assert one.digest == same.digest != other.digest
    assert one != read("")


def test_the_digest_tells_no_secret_of_a_section() -> None:
    text = 'watermark: {text: a, signers: [{name: ada, key: "${SIGNER_KEY}"}]}\n'

    assert read(text, {"SIGNER_KEY": "one"}).digest == read(text, {"SIGNER_KEY": "two"}).digest


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "stamp: {}", [("stamp", None, "{}")]),
        (
            "watermark: {text: a, every: 3}",
            "",
            [("watermark", '{"text":"a","every":3}', None)],
        ),
        (
            "watermark: {text: a}",
            "watermark: {text: b, digest: true}",
            [("watermark.text", "a", "b"), ("watermark.digest", "false", "true")],
        ),
        (
            "watermark: {text: a, signers: [{name: ada, key: one}]}",
            "watermark: {text: a, signers: [{name: ada, key: two, share: 0.5}]}\nstamp: {}",
            [
                ("watermark.signers[ada].key", "***", "***"),
                ("watermark.signers[ada].share", "1.0", "0.5"),
                ("stamp", None, "{}"),
            ],
        ),
    ],
)
def test_the_audit_log_shows_what_has_changed_in_a_section(
    old: str, new: str, expected: list[tuple[str, str | None, str | None]]
) -> None:
    found = changes(old, new)

    assert [(one.field, one.old, one.new) for one in found if one.field != "watermark.font"] == (
        expected
    )


def test_a_secret_of_a_section_is_masked_where_texts_are_shown() -> None:
    config = read(SECTION, ENV)

    shown = without_secrets("key-of-the-signer and sign-secret-header are secrets", config)

    assert shown == "*** and *** are secrets"
    assert "secret" not in repr(config).replace("secrets", "")


def test_a_part_says_what_needs_a_restart() -> None:
    old, new = (read(f"watermark: {{text: a, font: {font}}}\n") for font in ("a.ttf", "b.ttf"))

    assert restarts_needed(PARTS, old, old) == ()
    assert restarts_needed(PARTS, old, new) == (
        "watermark.font: fonts are read when the gateway starts",
    )


def test_sections_stay_when_engines_elsewhere_are_spread_over_providers() -> None:
    engines = """
providers:
  - name: far
    adapter: local
    engines: {hosts: ["127.0.0.1:9001", "127.0.0.1:9002"]}
models: [{name: tiny, backends: [{provider: far, model: tiny}]}]
stamp: {colour: black}
"""

    config = read_config(engines, source="c", env={}, adapters=ADAPTERS, parts=PARTS)

    assert len(config.providers) > 1
    assert config.section(Stamp) == Stamp(colour="black")


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("text: a", False),
        ("text: a, most: 2MiB, letters: {'7': g}", False),
        ("every: 2", True),
        ("text: a, every: 0", True),
        ("text: a, evry: 2", True),
        ("text: a, place: top", True),
    ],
)
def test_editors_know_a_section(text: str, refused: bool) -> None:
    import yaml

    schema = config_schema(PARTS)
    Draft7Validator.check_schema(schema)
    tree = yaml.safe_load(f"{GOOD}watermark: {{{text}}}\n")

    assert (not Draft7Validator(schema).is_valid(tree)) == refused  # pyright: ignore[reportUnknownMemberType]  # jsonschema
    assert not Draft7Validator(schema).is_valid({**tree, "watermrk": {}})  # pyright: ignore[reportUnknownMemberType]  # jsonschema


class Open(Struct, kw_only=True):
    size: int = 0


def part(title: str, kind: type[Struct]) -> Part:
    class Other(Part):
        name = title
        section = kind

    return Other()


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (part("cache", Stamp), "a part brings the section 'cache', which exists already"),
        (part("section", Stamp), "a part brings the section 'section', which exists already"),
        (part("watermark", Stamp), "a part brings the section 'watermark', which exists already"),
        (part("mark", Watermark), "the sections 'watermark' and 'mark' have the same type"),
        (part("open", Open), "the type of the section 'open' is not frozen"),
    ],
)
def test_parts_whose_sections_exclude_each_other_are_refused(other: Part, expected: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        read_config(GOOD, source="c", env={}, adapters=ADAPTERS, parts=(WatermarkPart(), other))

    assert caught.value.problems == (expected,)


def test_a_part_without_a_section_may_have_the_name_of_an_older_one() -> None:
    class Limits(Part):
        name = "limits"

    config = read_config(GOOD, source="c", env={}, adapters=ADAPTERS, parts=(Limits(),))

    assert isinstance(config, Config)
    assert config.section(Watermark) is None
