"""A plain answer is written as its events would be, and says the same to all records."""

import json
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.openai.decode import OpenAIDecoder
from strowger_gateway.adapters.openai.plain_answer import read_plain
from strowger_gateway.gateway.content.cache.entry import as_answer
from strowger_gateway.gateway.routing.planning.prices import is_reported
from strowger_gateway.gateway.routing.request_record import counts_of
from strowger_gateway.gateway.surfaces.anthropic.surface import MESSAGES
from strowger_gateway.gateway.surfaces.base import Surface
from strowger_gateway.gateway.surfaces.openai.surface import CHAT
from strowger_gateway.gateway.surfaces.responses.surface import ResponsesSurface
from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.requests import ChatRequest, Sampling

ID = "0190f0a0-7000-7000-8000-000000000000"
REQUEST = ChatRequest(model="asked", messages=(), sampling=Sampling())
SURFACES: Mapping[str, Surface] = {
    "chat": CHAT,
    "messages": MESSAGES,
    "responses": ResponsesSurface(clock=lambda: 1_700_000_000.5),
}
ENDPOINT = Endpoint(name="p", base_url="https://example.com/v1")
TOTALS = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}

OPENAI: Mapping[str, object] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1_700_000_000,
    "model": "gpt-4.1-mini-2025-04-14",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": 'Grüße, "you"\n',
                "refusal": None,
                "annotations": list[object](),
            },
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        **TOTALS,
        "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    },
    "service_tier": "default",
    "system_fingerprint": "fp_a1",
}
VLLM: Mapping[str, object] = {
    "id": "chatcmpl-2",
    "object": "chat.completion",
    "created": 1_700_000_000,
    "model": "Qwen/Qwen3-8B",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "hello",
                "refusal": None,
                "annotations": None,
                "audio": None,
                "function_call": None,
                "tool_calls": list[object](),
                "reasoning_content": None,
            },
            "logprobs": None,
            "finish_reason": "length",
            "stop_reason": None,
            "token_ids": None,
        }
    ],
    "service_tier": None,
    "system_fingerprint": None,
    "usage": {**TOTALS, "prompt_tokens_details": None},
    "prompt_logprobs": None,
    "prompt_token_ids": None,
    "kv_transfer_params": None,
}
SGLANG: Mapping[str, object] = {
    "id": "3",
    "object": "chat.completion",
    "created": 1_700_000_000,
    "model": "llama",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "hello",
                "reasoning_content": None,
                "tool_calls": None,
            },
            "logprobs": None,
            "finish_reason": "stop",
            "matched_stop": 128_009,
        }
    ],
    "usage": {**TOTALS, "prompt_tokens_details": None, "reasoning_tokens": 0},
}


class Written(Struct, frozen=True, kw_only=True):
    """An answer as its client gets it, and what is recorded of it."""

    body: bytes
    deltas: int
    usage: Usage | None
    reports_cost: bool


def by_events(body: bytes, surface: Surface) -> Written | None:
    """`None` for an answer that fails."""
    decoder, fold = OpenAIDecoder(ENDPOINT, stream=False), Fold()
    try:
        fold.add([*decoder.feed("", body), *decoder.close()])
    except GatewayError:
        return None
    written = surface.renderer(REQUEST, ID).answer(fold.answer())
    return _written(written, fold.deltas, fold.usage)


def plainly(body: bytes, surface: Surface) -> Written | None:
    """`None` for an answer that is not plain."""
    answer = read_plain(body)
    if answer is None:
        return None
    assert surface.plain is not None
    return _written(surface.plain(answer, REQUEST, ID), answer.deltas, answer.usage)


def _written(body: bytes, deltas: int, usage: Usage | None) -> Written:
    reports = usage is not None and is_reported(usage)
    return Written(body=body, deltas=deltas, usage=counts_of(usage), reports_cost=reports)


@pytest.mark.parametrize("name", SURFACES)
@pytest.mark.parametrize("answer", [OPENAI, VLLM, SGLANG], ids=["openai", "vllm", "sglang"])
def test_usual_answers_are_plain(answer: Mapping[str, object], name: str) -> None:
    body = msgspec.json.encode(answer)

    assert plainly(body, SURFACES[name]) == by_events(body, SURFACES[name]) is not None


@pytest.mark.parametrize(
    "more",
    [
        {"content": None},
        {"content": ""},
        {"refusal": "no"},
        {"reasoning_content": "hm"},
        {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "f"}}]},
        {"annotations": [{"type": "url_citation"}]},
        {"new_field": 1},
    ],
)
def test_an_answer_with_more_than_text_is_not_plain(more: Mapping[str, object]) -> None:
    message = {"role": "assistant", "content": "hello", **more}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]})

    assert read_plain(body.encode()) is None


ABSENT = object()
texts = st.text(max_size=8) | st.sampled_from(["hello", 'a"b\\', "\u2028é", "\ud800"])
numbers = st.integers(-2, 2**31) | st.sampled_from([2**63, 2**70, 1.5, 1e400, "7", None, True])
json_values = st.sampled_from([None, 0, "x", [], {}, [1], {"a": [None]}, True, 2.5])
calls = st.sampled_from(
    [[], [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}], [{}]]
)
details = st.none() | st.dictionaries(
    st.sampled_from(["cached_tokens", "audio_tokens", "reasoning_tokens"]), numbers, max_size=2
)
counts = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": numbers,
        "completion_tokens": numbers,
        "total_tokens": numbers,
        "prompt_tokens_details": details,
        "completion_tokens_details": details,
        "cost": numbers,
        "reasoning_tokens": numbers,
    },
)
usages = st.just(TOTALS) | counts | json_values
FIELDS: Mapping[str, st.SearchStrategy[object]] = {
    "message.content": texts | json_values,
    "message.role": texts | json_values,
    "message.refusal": texts | json_values,
    "message.reasoning": texts | json_values,
    "message.reasoning_content": texts | json_values,
    "message.tool_calls": calls | json_values,
    "message.annotations": json_values,
    "message.function_call": json_values,
    "message.audio": json_values,
    "message.other": json_values,
    "choice.finish_reason": json_values
    | st.sampled_from(["length", "LENGTH", "eos", "tool_calls", "content_filter", "error", ""]),
    "choice.index": numbers,
    "choice.logprobs": json_values
    | st.just({"content": [{"token": "a", "logprob": -0.5, "top_logprobs": list[object]()}]}),
    "choice.native_finish_reason": texts | json_values,
    "choice.stop_reason": texts | numbers,
    "choice.matched_stop": texts | numbers,
    "choice.seed": numbers,
    "choice.content_filter_results": json_values,
    "choice.token_ids": json_values,
    "choice.prompt_logprobs": json_values,
    "choice.text": texts | json_values,
    "choice.delta": json_values,
    "choice.other": json_values,
    "id": texts | json_values,
    "object": texts | json_values,
    "created": numbers,
    "model": texts | json_values,
    "error": json_values | st.just({"message": "x"}),
    "usage": usages,
    "system_fingerprint": texts | json_values,
    "service_tier": texts | json_values,
    "prompt_logprobs": json_values,
    "prompt_token_ids": json_values,
    "prompt_text": json_values,
    "kv_transfer_params": json_values,
    "obfuscation": json_values,
    "other": json_values,
}

Pairs = Sequence[tuple[str, object]]


def dumped(pairs: Pairs, *, ascii_only: bool) -> str:
    """An object of these members: in their order, and a name may occur twice."""
    members = [
        f"{json.dumps(name)}:{value if isinstance(value, JsonText) else _json(value, ascii_only)}"
        for name, value in pairs
    ]
    return "{" + ",".join(members) + "}"


class JsonText(str):
    """JSON text."""

    __slots__ = ()


def _json(value: object, ascii_only: bool) -> str:
    return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """A usual answer with up to four members changed, added or repeated, in any order."""
    ascii_only = draw(st.booleans())
    members: dict[str, list[tuple[str, object]]] = {
        "message": [("role", "assistant"), ("content", draw(texts.filter(bool)))],
        "choice": [("index", 0), ("finish_reason", "stop")],
        "": [("id", "1"), ("model", "m"), ("usage", draw(usages))],
    }
    for path in draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=4)):
        place, _, name = path.rpartition(".")
        members[place].insert(draw(st.integers(0, len(members[place]))), (name, draw(FIELDS[path])))
    message = JsonText(dumped(members["message"], ascii_only=ascii_only))
    choice = JsonText(dumped([*members["choice"], ("message", message)], ascii_only=ascii_only))
    count = draw(st.sampled_from([1, 1, 1, 1, 0, 2]))
    choices = JsonText("[" + ",".join([choice] * count) + "]")
    members[""].insert(draw(st.integers(0, len(members[""]))), ("choices", choices))
    return dumped(members[""], ascii_only=ascii_only).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("name", SURFACES)
@given(body=answers())
def test_a_plain_answer_is_what_its_events_would_be(name: str, body: bytes) -> None:
    plain = plainly(body, SURFACES[name])
    if plain is None:
        return
    expected = by_events(body, SURFACES[name])
    assert expected is not None
    assert values(plain.body) == values(expected.body)
    assert msgspec.structs.replace(plain, body=b"") == msgspec.structs.replace(expected, body=b"")
    if b"\\" not in body:
        assert plain.body == expected.body
    answer = read_plain(body)
    assert answer is not None
    whole = SURFACES[name].renderer(REQUEST, ID).answer(as_answer(answer))
    assert whole == plain.body, "as an answer it is written in the same bytes"


def values(body: bytes) -> object:
    """The JSON value, with members in their order. A vendor's string may be escaped otherwise."""
    return json.loads(body, object_pairs_hook=lambda pairs: pairs)
