"""A plain request or answer of the Responses API is read or written as any other would be."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.openai.decode import OpenAIDecoder
from strowger_gateway.adapters.openai.plain_answer import read_plain
from strowger_gateway.gateway.surfaces.responses.parse import parse_response
from strowger_gateway.gateway.surfaces.responses.plain_response import plain_response
from strowger_gateway.gateway.surfaces.responses.render import ResponsesRenderer
from strowger_gateway.gateway.surfaces.responses.surface import ResponsesSurface
from strowger_gateway.schemas.answers import Answer, Fold
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import ChatRequest

ID = "0190f0a0-7000-7000-8000-000000000000"
NONE: list[object] = []
ENDPOINT = Endpoint(name="p", base_url="https://example.com/v1")
TOTALS = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
DETAILED = {**TOTALS, "prompt_tokens_details": {"cached_tokens": 4}}
WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: WORD"}

texts = st.text(max_size=8) | st.sampled_from(["hello", 'a"b\\', "\u2028é", "two\nlines"])
penalties = st.floats(-2, 2) | st.integers(-2, 2) | st.none()
nullable = st.none() | texts
PLAIN: Mapping[str, st.SearchStrategy[object]] = {
    "instructions": nullable,
    "temperature": st.floats(0, 2) | st.sampled_from([0, 1, None]),
    "top_p": st.floats(0, 1) | st.none(),
    "presence_penalty": penalties,
    "frequency_penalty": penalties,
    "max_output_tokens": st.integers(1, 2**31) | st.none(),
    "user": nullable,
    "store": st.sampled_from([False, None]),
}
"""Fields that plain requests have."""

SETTINGS: Mapping[str, st.SearchStrategy[object]] = {
    "tools": st.sampled_from(
        [None, [], [WEATHER], [{"type": "web_search"}],
         [{"type": "custom", "name": "words", "format": GRAMMAR}, {**WEATHER, "strict": True}]]
    ),
    "tool_choice": st.sampled_from([None, "auto", "none"]),
    "parallel_tool_calls": st.sampled_from([None, True, False]),
    "text": st.sampled_from(
        [None, {}, {"verbosity": "low"}, {"format": {"type": "json_object"}}, {"format": None}]
    ),
    "reasoning": st.sampled_from([None, {}, {"effort": "low"}, {"effort": None, "summary": "x"}]),
    "max_tool_calls": st.sampled_from([None, 3]),
    "top_logprobs": st.sampled_from([None, 0, 3]),
    "include": st.sampled_from([None, [], ["reasoning.encrypted_content"], ["file_search_call"]]),
    "truncation": st.sampled_from([None, "auto", "disabled"]),
    "metadata": st.none() | st.dictionaries(texts, texts, max_size=2),
    "service_tier": st.sampled_from([None, "flex"]),
    "prompt_cache_key": nullable,
    "prompt_cache_retention": st.sampled_from([None, "24h"]),
    "safety_identifier": nullable,
}  # fmt: skip
"""Fields of which one makes a request anything but plain."""

speakers = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "system", "developer", "assistant"]), "content": texts},
    optional={"type": st.just("message"), "id": nullable, "status": nullable},
)
inputs = texts | st.lists(speakers, min_size=1, max_size=4)

plain_bodies = st.fixed_dictionaries({"input": inputs}, optional=dict(PLAIN))
bodies = st.fixed_dictionaries({"input": inputs}, optional={**PLAIN, **SETTINGS})
ANSWER: Mapping[str, st.SearchStrategy[object]] = {
    "content": texts.filter(bool),
    "annotated": st.booleans(),
    "finish_reason": st.sampled_from(["stop", "length"]),
    "usage": st.sampled_from([None, TOTALS, DETAILED]),
}
VENDORS_OWN: Mapping[str, st.SearchStrategy[object]] = {
    "model": nullable,
    "service_tier": st.sampled_from([None, "", "flex"]),
    "system_fingerprint": nullable,
}
answers = st.fixed_dictionaries(dict(ANSWER), optional=dict(VENDORS_OWN))


def clock() -> float:
    return 1_700_000_000.5


def parsed(body: Mapping[str, object], *, indent: int | None = None) -> ChatRequest:
    return parse_response(json.dumps({"model": "m", **body}, indent=indent).encode())


def answer_of(
    *, content: object = "x", annotated: object = False, finish_reason: object, **more: object
) -> bytes:
    message = {"content": content, **({"annotations": NONE} if annotated else {})}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return json.dumps({"choices": [choice], **more}, ensure_ascii=False).encode()


def plain_answer(received: bytes) -> PlainAnswer:
    plain = read_plain(received)
    assert plain is not None
    return plain


def folded(received: bytes) -> Answer:
    decoder, fold = OpenAIDecoder(ENDPOINT, stream=False), Fold()
    fold.add([*decoder.feed("", received), *decoder.close()])
    return fold.answer()


def written(received: bytes, request: ChatRequest) -> bytes:
    return plain_response(plain_answer(received), request, ID, clock)


@given(bodies, answers, st.sampled_from([None, 1]))
def test_a_plain_answer_has_the_bytes_of_the_general_path_whatever_the_request(
    body: Mapping[str, object], drawn: Mapping[str, object], indent: int | None
) -> None:
    request, received = parsed(body, indent=indent), answer_of(**drawn)
    general = ResponsesSurface(clock).renderer(request, ID).answer(folded(received))

    assert written(received, request) == general


@given(plain_bodies, st.booleans(), answers)
def test_what_is_stored_of_a_plain_answer_is_what_the_general_path_stores(
    body: Mapping[str, object], stored: bool, drawn: Mapping[str, object]
) -> None:
    whole = json.dumps({"model": "m", **body, "store": stored}).encode()
    request, received = parse_response(whole, stores=True), answer_of(**drawn)
    plain, general = (ResponsesSurface(clock).renderer(request, ID) for _ in range(2))
    assert isinstance(plain, ResponsesRenderer)
    assert isinstance(general, ResponsesRenderer)

    assert plain.plain(plain_answer(received)) == general.answer(folded(received))
    assert (plain.output, plain.resource) == (general.output, general.resource)
    assert json.loads(plain.resource)["store"] is stored
    assert plain.on_not_stored() == general.on_not_stored()


@given(plain_bodies)
def test_a_null_setting_changes_nothing_of_a_plain_request(body: Mapping[str, object]) -> None:
    """With it, a body is no longer read as a plain one."""
    assert parsed(body) == parsed({**body, "metadata": None})


@given(st.lists(speakers, min_size=1, max_size=4))
def test_a_null_phase_changes_nothing_of_plain_items(items: list[dict[str, object]]) -> None:
    """With it, an item is no longer read as a plain one."""
    phased = [{**one, "phase": None} for one in items]

    assert parsed({"input": items}).messages == parsed({"input": phased}).messages


@given(plain_bodies)
def test_an_answer_repeats_a_default_as_it_repeats_nothing(body: Mapping[str, object]) -> None:
    """With it, a request's settings are no longer written as a plain one's."""
    received = answer_of(finish_reason="stop")

    explicit = written(received, parsed({**body, "metadata": {}}))

    assert explicit == written(received, parsed(body))


@given(plain_bodies)
def test_an_answer_repeats_what_its_request_chose(body: Mapping[str, object]) -> None:
    answer = json.loads(written(answer_of(finish_reason="stop"), parsed(body)))

    chosen = {name: one for name, one in body.items() if one is not None and name != "input"}
    defaults: Mapping[str, object] = {
        "instructions": None, "temperature": 1.0, "top_p": 1.0, "presence_penalty": 0.0,
        "frequency_penalty": 0.0, "max_output_tokens": None, "store": False,
    }  # fmt: skip
    expected = {**defaults, **chosen}
    assert {name: answer[name] for name in expected} == expected


@pytest.mark.parametrize("store", [None, False])
def test_the_time_at_which_an_answer_is_complete_is_the_clocks(store: bool | None) -> None:
    request = parsed({"input": "hi", "store": store})
    for finish, expected in (("stop", 1_700_000_000), ("length", None)):
        answer = json.loads(written(answer_of(finish_reason=finish), request))

        assert answer["completed_at"] == expected
        assert answer["store"] is False
