"""The JSON Schema of config.yaml accepts and refuses what the loader does, and is published."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from jsonschema.exceptions import ValidationError

from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.config.adapter_names import known_adapters
from strowger_gateway.gateway.config.checks.check import check
from strowger_gateway.gateway.config.decode import Decoder
from strowger_gateway.gateway.config.json_schema.document import config_schema
from strowger_gateway.gateway.config.json_schema.leaves import Schema
from strowger_gateway.gateway.config.parts.file_type import file_type
from strowger_gateway.gateway.config.price_source import split_prices
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.yaml_document import Tree, parse
from strowger_gateway.schemas.errors import InvalidConfig
from tests.examples import examples
from tests.gateway.cli.command_line import run
from tests.gateway.config.configs import GOOD
from tests.gateway.config.test_config_fuzzing import struct
from tests.gateway.config.test_config_snippets import SNIPPETS, whole
from tools.config_schema import DESCRIPTIONS, SCHEMA, descriptions, plain, schema_text

ROOT = Path(__file__).parents[4]
FILES = (
    "config.yaml",
    "deploy/image/config.yaml",
    "docs/examples/ab-test/config.yaml",
    "docs/examples/prompts/config.yaml",
)
EXAMPLES: Mapping[str, Tree] = {
    **{name: parse((ROOT / name).read_text("utf-8"), Problems(name)) for name in FILES},
    **{place: parse(whole(text), Problems(place)) for place, text in SNIPPETS.items()},
}
Path_ = tuple[str | int, ...]


@cache
def validator() -> Draft7Validator:
    document = json.loads(SCHEMA.read_text("utf-8"))
    Draft7Validator.check_schema(document)
    return Draft7Validator(document)


def errors(tree: Tree) -> list[ValidationError]:
    """What the schema complains about."""
    found = validator().iter_errors(tree)  # pyright: ignore[reportUnknownMemberType]  # jsonschema
    return list(cast("Iterator[ValidationError]", found))


def refused(tree: Tree) -> str:
    """The schema's first complaint, "" if it accepts the tree."""
    return next((f"{error.json_path}: {error.message}" for error in errors(tree)), "")


def faults(tree: Tree, *, checked: bool = False) -> tuple[str, ...]:
    """The loader's complaints about types, unknown keys and missing keys.

    checked: and about everything else, such as ranges that depend on the API.
    """
    problems = Problems("")
    rows, _ = split_prices(deepcopy(tree), problems)
    config = Decoder(Path(), problems).struct(rows, file_type(PARTS), ())
    if checked:
        check(config, problems, known_adapters())
    try:
        problems.raise_if_any()
    except InvalidConfig as exc:
        return exc.problems
    return ()


def places(tree: Tree, path: Path_ = ()) -> Iterator[Path_]:
    """The path of every value in a tree, the whole excepted."""
    inside: Sequence[tuple[str | int, Tree]] = ()
    if isinstance(tree, dict):
        inside = tuple(tree.items())
    elif isinstance(tree, list):
        inside = tuple(enumerate(tree))
    for step, value in inside:
        yield (*path, step)
        yield from places(value, (*path, step))


def changed(tree: Tree, path: Path_, value: Tree, name: str | None = None) -> Tree:
    """A copy with another value at a place, and with another name of its key."""
    copy = deepcopy(tree)
    holder: Tree = copy
    for step in path[:-1]:
        holder = cast("Mapping[str | int, Tree]", holder)[step]
    if isinstance(holder, list):
        holder[cast(int, path[-1])] = value
    elif isinstance(holder, dict):
        key = str(path[-1])
        if name is not None:
            del holder[key]
        holder[name or key] = value
    return copy


def value_at(tree: Tree, path: Path_) -> Tree:
    for step in path:
        tree = cast("Mapping[str | int, Tree]", tree)[step]
    return tree


@st.composite
def mutants(draw: st.DrawFn) -> Tree:
    """An example in which one value has another type, or one key another name."""
    example = EXAMPLES[draw(st.sampled_from(sorted(EXAMPLES)))]
    path = draw(st.sampled_from(sorted(places(example), key=str)))
    if isinstance(path[-1], str) and draw(st.booleans()):
        return changed(example, path, value_at(example, path), f"{path[-1]}_x")
    other: Tree = draw(st.sampled_from(["?", True, -7, 1.5, None, [], [["?"]], {}, {"unknown": 1}]))
    return changed(example, path, other)


@pytest.mark.parametrize("place", EXAMPLES)
def test_every_example_configuration_is_valid(place: str) -> None:
    assert refused(EXAMPLES[place]) == ""


@settings(deadline=None, max_examples=examples(400))
@given(mutants())
def test_an_example_with_one_change_is_refused_by_both_or_by_neither(tree: Tree) -> None:
    found = refused(tree)

    assert found or not faults(tree)
    assert not found or faults(tree, checked=True)


@settings(deadline=None, max_examples=examples(60))
@given(struct(file_type(PARTS)))
def test_any_tree_without_references_is_refused_by_both_or_by_neither(tree: Tree) -> None:
    if "${A}" in json.dumps(tree):
        return
    found = refused(tree)

    assert found or not faults(tree)
    assert not found or faults(tree, checked=True)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("servr: {}", "Additional properties are not allowed ('servr' was unexpected)"),
        ("server: {prt: 1}", "Additional properties are not allowed ('prt' was unexpected)"),
        ("server: {port: 70000}", "70000 is greater than the maximum of 65535"),
        ("auth: {mode: kyes}", "'kyes' is not one of ['none', 'keys']"),
        ("server: []", "[] is not of type 'object', 'null'"),
        ("logging: {client_address: 1}", "1 is not of type 'boolean'"),
        ("store: {max_spool_bytes: 1GB}", "'1GB'"),
        ("prices: {from: moon}", "'moon' is not one of ['catalogue']"),
        ("end_users: {sources: []}", "[] should be non-empty"),
        ("webhooks: [{name: w}]", "'url' is a required property"),
    ],
)
def test_a_mistake_is_named_where_it_is(line: str, told: str) -> None:
    tree = parse(f"{GOOD}{line}\n", Problems(""))

    messages = {error.message for error in leaves(tree)}

    assert any(told in message for message in messages), messages


def leaves(tree: Tree) -> Iterator[ValidationError]:
    """Every error of the schema, those inside of alternatives included."""
    waiting = errors(tree)
    while waiting:
        error = waiting.pop()
        waiting += error.context or ()
        yield error


@pytest.mark.parametrize(
    "line",
    [
        "server: {port: '${PORT}', docs: '${DOCS:-false}', host: '${file:/run/host}'}",
        "auth: {mode: '${MODE}', admin_key: '${KEY}'}",
        "store: {max_spool_bytes: 512MiB}",
        "server: {max_body_bytes: '20_000_000'}",  # as parsers of editors read 20_000_000
        "server:\nlimits:\n",
        "prices: {from: catalogue, rows: }",
    ],
)
def test_what_the_loader_reads_as_another_type_is_valid(line: str) -> None:
    assert refused(parse(f"{GOOD}{line}\n", Problems(""))) == ""


def test_the_command_prints_the_published_schema() -> None:
    assert run("schema").stdout == SCHEMA.read_text("utf-8")


def test_the_published_schema_is_that_of_the_code_and_the_documentation() -> None:
    assert json.loads(DESCRIPTIONS.read_text("utf-8")) == descriptions(), "run `make config-schema`"
    assert SCHEMA.read_text("utf-8") == schema_text(), "run `make config-schema`"


def test_every_key_has_a_description() -> None:
    silent = [
        path
        for path, schema in described(config_schema(PARTS), "")
        if "description" not in schema and not path.startswith("prices.")
    ]

    assert silent == []


def described(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """The schema of every key by its path."""
    for one in (schema, *cast("list[Schema]", schema.get("anyOf", []))):
        for name, inner in cast("Mapping[str, Schema]", one.get("properties", {})).items():
            yield f"{path}{name}", inner
            yield from described(inner, f"{path}{name}.")
        if "items" in one:
            yield from described(cast(Schema, one["items"]), path)


def test_defaults_are_those_of_the_code() -> None:
    found = {path: schema.get("default") for path, schema in described(config_schema(PARTS), "")}

    assert found["server.port"] == 8080
    assert found["server.commit_after_s"] == "auto"
    assert found["store.url"] == "sqlite:///strowger.db"
    assert found["models.policy"] == "weighted"
    assert found["auth.jwt.algorithms"] == ["RS256", "PS256", "ES256", "EdDSA"]
    assert found["auth.jwt.leeway_s"] == 30


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("timeout for slow clients (details below)", "timeout for slow clients"),
        ("serve HTTPS ([below](#servertls)); unset: HTTP", "serve HTTPS; unset: HTTP"),
        ("also rows, see [below](#prices)", "also rows"),
        ("A/B tests, see [experiments](experiments.md)", "A/B tests, see docs/experiments.md"),
        ("circuits ([x.md](x.md#many)): all", "circuits (docs/x.md): all"),
        ("replace [the table's](models.md)", "replace the table's"),
    ],
)
def test_a_cell_of_the_documentation_is_plain_text_in_an_editor(cell: str, text: str) -> None:
    assert plain(cell) == text
