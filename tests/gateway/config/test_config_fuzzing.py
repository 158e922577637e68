"""Reading any file ends in a configuration or in faults, never in a crash."""

import json
import re
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.type_names import kind_of
from strowger_gateway.gateway.config.yaml_document import Tree
from strowger_gateway.schemas.errors import InvalidConfig
from tests.examples import examples
from tests.gateway.config.configs import ADAPTERS

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 70_000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["", "a", "b*", "*", "local", "openai", "keys", "weighted", "a/b", "${A}", "./x"]
    ),
    st.text(max_size=8),
)
trees: st.SearchStrategy[Tree] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def shaped(annotation: object) -> st.SearchStrategy[Tree]:
    """Mostly valid types, so that the cross-checks are reached."""
    kind = kind_of(annotation)
    if kind.struct is not None:
        return st.one_of(struct(kind.struct), struct(kind.struct), trees)
    if kind.item is not None:
        return st.lists(shaped(kind.item), max_size=3)
    if kind.words:
        return st.sampled_from(kind.words) | scalars
    return scalars | trees


@cache
def struct(cls: type[Struct]) -> st.SearchStrategy[Tree]:
    required = {field.name: shaped(field.type) for field in fields(cls) if field.required}
    optional = {field.name: shaped(field.type) for field in fields(cls) if not field.required}
    return st.fixed_dictionaries(required, optional=optional)


@settings(deadline=None, max_examples=examples(60))
@given(struct(Config))
def test_any_tree_is_read_or_refused(tree: Tree) -> None:
    problems = problems_of(json.dumps(tree), {"A": "1"})

    assert all(re.match(r"f(:[0-9]+:[0-9]+)?: ", problem) for problem in problems)
    assert len(set(problems)) == len(problems)


@settings(deadline=None, max_examples=examples(100))
@given(st.text())
def test_any_text_is_refused_unless_it_is_a_configuration(text: str) -> None:
    assert problems_of(text, {})


def test_a_configuration_of_the_same_making_can_be_right() -> None:
    assert problems_of('{"providers": [], "models": []}', {}) == ()


def problems_of(text: str, env: dict[str, str]) -> tuple[str, ...]:
    try:
        read_config(text, source="f", env=env, adapters=ADAPTERS)
    except InvalidConfig as exc:
        return exc.problems
    return ()
