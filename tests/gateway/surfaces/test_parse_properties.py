"""Properties of every request in the OpenAI dialect."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from strowger_gateway.gateway.surfaces.openai.parse import (
    parse_chat,
    parse_completion,
    parse_embeddings,
)
from strowger_gateway.gateway.surfaces.openai.wire import ChatWire, CompletionWire, EmbeddingsWire
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import TextPart
from tests.gateway.surfaces.bodies import HELLO

Parse = Callable[[bytes], object]

PARSERS: dict[str, Parse] = {
    "chat": parse_chat,
    "completion": parse_completion,
    "embeddings": parse_embeddings,
}
ROOT = Path(__file__).parents[3]
RECORDINGS = Path(os.environ.get("STROWGER_RECORDINGS", ROOT.parent / "shared" / "recordings"))
ROUTES = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completion",
    "/v1/embeddings": "embeddings",
}
NOT_TAKEN = {
    "openai/error-400-missing-messages": "messages",
    "openai/error-400-embeddings-dimensions": "dimensions",
    "openai/error-400-unsupported-parameter": "max_tokens",
    "mistral/tools-no-args": "tools[0].type",
}
"""Recorded requests that are wrong, and what is wrong with them."""


FIELDS = sorted(
    {
        *ChatWire.__struct_fields__,
        *CompletionWire.__struct_fields__,
        *EmbeddingsWire.__struct_fields__,
    }
)
INSIDE = ("role", "content", "type", "text", "function", "name", "arguments", "url", "image_url")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "user", "assistant", "tool", "text", "function", "auto", "json_schema"])
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(INSIDE) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


def spoken(role: str, text: str, in_parts: bool) -> dict[str, object]:
    content = [{"type": "text", "text": text}] if in_parts else text
    return {"role": role, "content": content, "name": "x"}


TEXT = st.text(min_size=1, max_size=20)
MESSAGES = st.lists(
    st.builds(
        spoken, st.sampled_from(["user", "system", "developer", "assistant"]), TEXT, st.booleans()
    ),
    min_size=1,
    max_size=4,
)
SAMPLING = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0, 1),
        "top_k": st.integers(1, 10**6),
        "seed": st.integers(-(2**63), 2**64 - 1),
        "presence_penalty": st.floats(-2, 2),
        "repetition_penalty": st.floats(0.1, 10),
        "n": st.integers(1, 256),
        "logit_bias": st.dictionaries(st.integers(0, 2**31 - 1), st.floats(-100, 100), min_size=1),
        "stop": st.lists(TEXT, min_size=1).map(tuple),
        "bad_words": st.lists(TEXT, min_size=1).map(tuple),
        "max_tokens": st.integers(1, 10**9),
        "ignore_eos": st.booleans(),
    },
)


def is_taken_or_refused(parse: Parse, body: bytes) -> bool:
    """Parses, or raises nothing but an InvalidRequest that names its field."""
    try:
        parse(body)
    except InvalidRequest as exc:
        return not exc.param or exc.param in exc.message or "JSON" in exc.message
    return True


@pytest.mark.parametrize("task", PARSERS)
@given(body=st.binary(max_size=64))
def test_arbitrary_bytes_are_at_most_refused(task: str, body: bytes) -> None:
    assert is_taken_or_refused(PARSERS[task], body)


@pytest.mark.parametrize("task", PARSERS)
@given(
    fields=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6),
    whole=st.booleans(),
    messages=st.lists(JSON, max_size=2),
)
def test_arbitrary_values_are_at_most_refused(
    task: str, fields: dict[str, object], whole: bool, messages: list[object]
) -> None:
    base: dict[str, object] = {
        "model": "m",
        "prompt": "x",
        "input": "x",
        "messages": [HELLO, *messages],
    }

    assert is_taken_or_refused(
        PARSERS[task], msgspec.json.encode({**base, **fields} if whole else fields)
    )


@given(cut=st.integers(0, 400), flip=st.integers(0, 255))
def test_a_damaged_body_is_at_most_refused(cut: int, flip: int) -> None:
    body = bytearray(
        b'{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"h\\u00e9"}]},'
        b'{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":'
        b'{"name":"f","arguments":"{}"}}]}],"tools":[{"type":"function","function":{"name":"f"}}],'
        b'"tool_choice":"auto","stream_options":{"include_usage":true},"x":{"y":[1,2.5e3,null]}}'
    )
    body[cut % len(body)] = flip

    assert is_taken_or_refused(parse_chat, bytes(body))


@given(messages=MESSAGES, sampling=SAMPLING)
def test_a_valid_request_arrives_whole(
    messages: list[dict[str, object]], sampling: Mapping[str, object]
) -> None:
    body = msgspec.json.encode({"model": "m", "messages": messages, **sampling})

    request = parse_chat(body)

    given_back = {
        name: value
        for name in request.sampling.__struct_fields__
        if (value := getattr(request.sampling, name)) is not UNSET
    }
    assert given_back == sampling
    assert len(request.messages) == len(messages)
    for read, sent in zip(request.messages, messages, strict=True):
        assert isinstance(read.raw, Raw)
        assert msgspec.json.decode(read.raw) == sent
        content = read.content
        if isinstance(content, tuple):
            texts = [{"type": "text", "text": p.text} for p in content if isinstance(p, TextPart)]
            assert texts == sent["content"]
        else:
            assert content == sent["content"]


@given(
    unknown=st.dictionaries(st.text().map(lambda name: f"x_{name}"), JSON, min_size=1, max_size=4),
    sampling=SAMPLING,
)
def test_unknown_fields_change_nothing_but_themselves(
    unknown: dict[str, object], sampling: Mapping[str, object]
) -> None:
    plain: dict[str, object] = {"model": "m", "messages": [HELLO], **sampling}

    request = parse_chat(msgspec.json.encode({**plain, **unknown}))

    assert request.sampling == parse_chat(msgspec.json.encode(plain)).sampling
    assert {name: msgspec.json.decode(raw) for name, raw in request.extra.items()} == {
        name: value for name, value in unknown.items() if value is not None
    }


def recorded() -> list[tuple[str, str, Path]]:
    """Requests that clients really sent to a vendor of the dialect: case, task, file."""
    found: list[tuple[str, str, Path]] = []
    for line in sorted(RECORDINGS.glob("*/*/request_line")):
        task = ROUTES.get(line.read_text().split()[1].partition("?")[0])
        body = line.with_name("request.json")
        if task is not None and body.exists():
            found.append((f"{line.parent.parent.name}/{line.parent.name}", task, body))
    return found


def test_what_clients_really_sent_is_taken() -> None:
    cases = recorded()
    if not cases:
        pytest.skip("no recordings here")

    refusals: dict[str, str | None] = {}
    for case, task, path in cases:
        try:
            PARSERS[task](path.read_bytes())
        except InvalidRequest as exc:
            refusals[case] = exc.param

    assert refusals == {case: NOT_TAKEN[case] for case, _, _ in cases if case in NOT_TAKEN}
