"""Keys: equal exactly if the resolved requests are, whatever the client's JSON looks like."""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.content.cache.key import KeyPlace, cache_key
from strowger_gateway.gateway.routing.planning.route import Route
from strowger_gateway.gateway.surfaces.base import Inbound, Surface
from strowger_gateway.gateway.surfaces.routes import HOT_ROUTES
from strowger_gateway.schemas.measured_json import repeated_name
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest
from tests.gateway.serving import one_model

Json = dict[str, object]
PLACE = KeyPlace(tenant=("a", "", ""), surface="openai", route="chat", fingerprint="f", rule=None)
DEFAULTS: Json = {"temperature": 0.5, "seed": 7}
MODEL = f"    defaults: {json.dumps(DEFAULTS)}\n"
SURFACES: Mapping[str, Surface] = {one.path: one.surface for one in HOT_ROUTES}
CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"

numbers = st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_no = st.just(list[int]())
trees = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
_Fields = dict[str, st.SearchStrategy[object]]
_said = texts.map("x".__add__)
_MESSAGE: _Fields = {
    "role": st.sampled_from(["user", "system", "assistant"]),
    "content": st.one_of(_said, _said.map(lambda text: [{"type": "text", "text": text}])),
}
_NAME: _Fields = {"name": st.sampled_from(["x", "y", None]), "x_more": trees}
_CHAT: _Fields = {
    "model": st.just("chat"),
    "messages": st.lists(st.fixed_dictionaries(_MESSAGE, optional=_NAME), min_size=1, max_size=2),
}
_FURTHER: _Fields = {
    "temperature": st.sampled_from([0, 0.0, 0.5, 1]),
    "seed": st.sampled_from([7, 8]),
    "stream": st.booleans(),
    "user": st.sampled_from(["u", "v"]),
    "max_tokens": st.integers(1, 3),
    "logit_bias": st.dictionaries(
        st.sampled_from(["3", "5"]), st.sampled_from([0, 0.0, 1]), min_size=1
    ),
    "metadata": st.dictionaries(texts, texts, max_size=2),
    "x_vendor": trees,
}
chats = st.fixed_dictionaries(_CHAT, optional=_FURTHER)


def resolved(body: Json) -> object:
    """The oracle: what the request says, with the operator's defaults, by Python's own JSON.

    A field that is null was not sent, as in OpenAI's API.
    """
    sent = {name: value for name, value in body.items() if value is not None}
    return typed({"stream": False, **DEFAULTS, **sent})


def typed(value: object) -> object:
    """The value in a form in which 1, 1.0 and true differ, except where the API has floats."""
    if isinstance(value, dict):
        items = cast(Json, value).items()
        floats = {"temperature", "3", "5"}
        return {name: typed(float(one) if name in floats else one) for name, one in items}  # pyright: ignore[reportArgumentType]
    if isinstance(value, list):
        return [typed(one) for one in cast("list[object]", value)]
    return type(value).__name__, repr(value)


def written(value: object, shuffle: int, indent: int | None, escaped: bool) -> bytes:
    """JSON of the value in one of many spellings."""
    return json.dumps(reordered(value, shuffle), indent=indent, ensure_ascii=escaped).encode()


def reordered(value: object, shuffle: int) -> object:
    if isinstance(value, dict):
        items = list(cast(Json, value).items())
        place = shuffle % len(items) if items else 0
        return {name: reordered(one, shuffle) for name, one in (*items[place:], *items[:place])}
    if isinstance(value, list):
        return [reordered(one, shuffle) for one in cast("list[object]", value)]
    return value


def key_of(body: bytes, path: str = CHAT, place: KeyPlace = PLACE) -> str | None:
    request = SURFACES[path].parse(Inbound(body=body, max_choices=10))
    return cache_key(place, ROUTE.valued(request))


def _route(folder: Path = Path("unused")) -> Route:
    config = read_config(one_model("http://127.0.0.1:1/v1", model_more=MODEL), source="c", env={})
    return Runtime(config, run_dir=folder).table.find("chat")


ROUTE = _route()

spellings = st.tuples(st.integers(0, 5), st.sampled_from([None, 2]), st.booleans())


@given(chats, spellings, spellings)
def test_spelling_and_order_never_matter(
    body: Json, one: tuple[int, int | None, bool], other: tuple[int, int | None, bool]
) -> None:
    first, second = key_of(written(body, *one)), key_of(written(body, *other))
    assert first is not None
    assert first == second


@given(
    chats,
    chats,
    st.sets(st.sampled_from([*_CHAT, "temperature", "seed", "stream", "x_vendor", "user"])),
)
def test_keys_are_equal_exactly_if_the_resolved_requests_are(
    one: Json, other: Json, changed: set[str]
) -> None:
    other = {**one, **{name: other[name] for name in changed if name in other}}
    equal = resolved(one) == resolved(other)
    assert (key_of(json.dumps(one).encode()) == key_of(json.dumps(other).encode())) is equal


@given(chats)
def test_a_default_that_is_sent_is_the_same_request(body: Json) -> None:
    bare = {name: value for name, value in body.items() if name not in DEFAULTS}
    explicit = {**bare, **DEFAULTS, "stream": body.get("stream", False)}
    assert key_of(json.dumps(bare).encode()) == key_of(json.dumps(explicit).encode())


@given(chats, st.sampled_from(["temperature", "seed", "stream", "user", "max_tokens"]))
def test_each_field_changes_the_key(body: Json, field: str) -> None:
    other = {"temperature": 1.5, "seed": 99, "stream": not body.get("stream", False)}
    changed = {**body, field: {**other, "user": "w", "max_tokens": 9}[field]}
    assert key_of(json.dumps(body).encode()) != key_of(json.dumps(changed).encode())


@given(st.lists(texts.map("x".__add__), min_size=1, max_size=4), st.data())
def test_where_one_message_ends_and_the_next_begins_is_part_of_the_key(
    contents: list[str], data: st.DataObject
) -> None:
    whole = "".join(contents)
    places = data.draw(st.lists(st.integers(1, len(whole) - 1), unique=True) if whole[1:] else _no)
    cuts = [0, *sorted(places), len(whole)]
    others = [whole[a:b] for a, b in pairwise(cuts)]
    keys = [
        key_of(json.dumps({"model": "chat", "messages": _conversation(one)}).encode())
        for one in (contents, others)
    ]
    assert (keys[0] == keys[1]) is (contents == others)


def _conversation(contents: list[str]) -> list[Json]:
    return [{"role": "user", "content": content} for content in contents]


def test_a_message_of_the_operator_is_not_one_of_the_client() -> None:
    request = SURFACES[CHAT].parse(
        Inbound(body=b'{"model":"chat","messages":[{"role":"user","content":"x"}]}', max_choices=1)
    )
    assert isinstance(request, ChatRequest)
    own = replace(request, messages=(Message(role="user", content="x"),))
    assert cache_key(PLACE, request) != cache_key(PLACE, own)


def test_when_an_answer_is_wanted_does_not_change_which() -> None:
    body: Json = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
    keys = {
        key_of(json.dumps({**body, **more}).encode())
        for more in ({}, {"timeout": 3}, {"priority": 2})
    }
    assert len(keys) == 1


def test_a_place_is_part_of_the_key() -> None:
    body = b'{"model":"chat","messages":[{"role":"user","content":"hi"}]}'
    places = [
        PLACE,
        KeyPlace(tenant=("b", "", ""), surface="openai", route="chat", fingerprint="f", rule=None),
        KeyPlace(tenant=("", "a", ""), surface="openai", route="chat", fingerprint="f", rule=None),
        KeyPlace(tenant=("a", "", ""), surface="other", route="chat", fingerprint="f", rule=None),
        KeyPlace(tenant=("a", "", ""), surface="openai", route="chat", fingerprint="g", rule=None),
        KeyPlace(tenant=("a", "", ""), surface="openai", route="chat", fingerprint="f", rule=0),
    ]
    assert len({key_of(body, place=place) for place in places}) == len(places)


@given(st.one_of(texts, st.lists(texts, min_size=1, max_size=3)), st.booleans())
def test_embeddings_have_keys_by_input_and_format(inputs: object, base64: bool) -> None:
    body: Json = {"model": "chat", "input": inputs}
    assume(inputs and all(cast("list[str]", inputs)))
    formatted = {**body, "encoding_format": "base64" if base64 else "float"}
    same = key_of(json.dumps(body).encode(), EMBEDDINGS)
    assert same is not None
    assert (same == key_of(json.dumps(formatted).encode(), EMBEDDINGS)) is not base64


def _repeating(fields: Json, spelled: str, *, inside: str | None) -> str:
    """JSON of an object that has its first name twice, or whose field `inside` is such a one."""
    items = [
        (
            name,
            json.dumps(one)
            if name != inside
            else _repeating(cast(Json, one), spelled, inside=None),
        )
        for name, one in fields.items()
    ]
    if inside is None:
        items.insert(0, (items[0][0], spelled))
    return "{" + ",".join(f"{json.dumps(name)}:{one}" for name, one in items) + "}"


@given(
    st.fixed_dictionaries({"a": texts, "b\\": trees, "c": st.fixed_dictionaries({"d": trees})}),
    st.sampled_from([None, "c"]),
    st.one_of(trees, st.just("\\"), st.just('"'), st.just(["\\", "\\"])),
    st.booleans(),
)
def test_a_name_that_is_repeated_is_found(
    tree: Json, inside: str | None, value: object, escaped: bool
) -> None:
    spelled = json.dumps(value, ensure_ascii=escaped)
    encoded = _repeating(tree, spelled, inside=inside).encode()
    assert repeated_name(encoded) == ("d" if inside else next(iter(tree)))
    assert repeated_name(json.dumps(tree, ensure_ascii=escaped).encode()) is None


@pytest.mark.parametrize(
    "message",
    [
        '{"role":"user","content":"b","content":"a"}',
        '{"role":"user","content":"\\\\","c\\u006fntent":"a"}',
        '{"role":"user","role":"user","content":"a"}',
        '{"role":"user","content":"","content":"a"}',
        '{"content":"\\n\\n\\n\\n\\n\\n\\n\\n","role":"user","content":"a\\n"}',
        '{"role":"user","content":[{"type":"text","text":"b","text":"a"}]}',
        '{"role":"user","content":"a","name":"x","name":"y"}',
        '{"role":"user","content":"a","x_more":[{"n":1,"n":2}]}',
    ],
)
def test_answers_to_requests_that_repeat_a_name_are_not_kept(message: str) -> None:
    assert key_of(b'{"model":"chat","messages":[%b]}' % message.encode()) is None


@pytest.mark.parametrize("text", ["a", '"', "\\", '\\"', '"content"', "a\\\\"])
def test_quotation_marks_and_backslashes_in_a_text_do_not_repeat_a_name(text: str) -> None:
    body: Json = {"model": "chat", "messages": [{"role": "user", "content": text}]}
    assert key_of(json.dumps(body).encode()) is not None
    assert key_of(json.dumps(body).replace("\\\\", "\\u005c").encode()) is not None
