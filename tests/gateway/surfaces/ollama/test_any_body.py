"""A body of Ollama's API is read, or refused by the field that is wrong, whatever it contains."""

import json
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.surfaces.ollama.parse import (
    parse_chat,
    parse_embed,
    parse_embedding,
    parse_generate,
)
from strowger_gateway.gateway.surfaces.ollama.wire import (
    MessageWire,
    OllamaChatWire,
    OllamaGenerateWire,
    OptionsWire,
    ToolWire,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import ChatRequest, Request
from tests.examples import examples

PARSERS: Final[dict[str, Callable[..., Request]]] = {
    "chat": parse_chat,
    "generate": parse_generate,
    "embed": parse_embed,
    "embeddings": parse_embedding,
}
NAMES: Final = sorted(
    {
        name
        for kind in (OllamaChatWire, OllamaGenerateWire, MessageWire, OptionsWire, ToolWire)
        for name in (*kind.__struct_fields__, "novel")
    }
)
VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.sampled_from(["", "user", "assistant", "tool", "json", "5m", "iVBORw0K", "high"])
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=12,
)
TURN: Final = {"role": "user", "content": "hi"}


@pytest.mark.parametrize("route", PARSERS)
@settings(max_examples=examples(80))
@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5))
def test_it_is_read_or_refused_by_name(route: str, body: dict[str, object]) -> None:
    try:
        request = PARSERS[route](json.dumps({"model": "m", **body}).encode())
    except InvalidRequest as exc:
        told = exc.param
        assert told is not None
    else:
        assert request.model


@settings(max_examples=examples(60))
@given(st.dictionaries(st.text(min_size=1, max_size=8), VALUES, max_size=4))
def test_no_unknown_field_is_lost(fields: dict[str, object]) -> None:
    novel = {f"x_{name}": value for name, value in fields.items() if value is not None}
    body = {"model": "m", "messages": [TURN], **novel}

    request = parse_chat(json.dumps(body).encode())

    assert isinstance(request, ChatRequest)
    assert request.extra.keys() == novel.keys() <= set(request.optional)
