"""A conversation that is continued by ids reaches a backend as one that the client sends whole."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from strowger_gateway.gateway.surfaces.responses.parse import parse_response
from strowger_gateway.gateway.surfaces.responses.stored_conversation import (
    input_items,
    joined_items,
    known_items,
    response_of,
)
from strowger_gateway.gateway.surfaces.stored_items import EarlierItems, EarlierItemsNeeded
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest

Json = dict[str, object]

UUID = "01a20aab-39e8-7756-9d44-ca56aedd101c"
TEXT = st.text(max_size=8)
NAME = st.sampled_from(["clock", "weather"])
CALL = st.sampled_from(["call_a", "call_b"])


def message(role: str, text: str, *, typed: bool, parts: bool) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text}] if parts else text
    return {**({"type": "message"} if typed else {}), "role": role, "content": content}


def output(kind: str, id: str, text: str) -> Json:
    return {"type": f"{kind}_output", "call_id": id, "output": text}


def reasoning(text: str) -> Json:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


def call(id: str, name: str) -> Json:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": "{}"}


def answer(text: str) -> Json:
    return message("assistant", text, typed=True, parts=True)


ROLE = st.sampled_from(["user", "assistant", "system", "developer"])
KIND = st.sampled_from(["function_call", "custom_tool_call"])
ASKED: st.SearchStrategy[Json] = st.one_of(
    st.builds(message, ROLE, TEXT, typed=st.booleans(), parts=st.booleans()),
    st.builds(output, KIND, CALL, TEXT),
)
ANSWERED: st.SearchStrategy[Json] = st.one_of(
    st.builds(answer, TEXT), st.builds(reasoning, TEXT), st.builds(call, CALL, NAME)
)
Given = str | list[Json]
INPUT: st.SearchStrategy[Given] = st.one_of(TEXT, st.lists(ASKED, min_size=1, max_size=4))
TURN: st.SearchStrategy[tuple[Given, list[Json]]] = st.tuples(INPUT, st.lists(ANSWERED, max_size=4))


def body(given: object, **fields: object) -> bytes:
    return json.dumps({"model": "m", "input": given, **fields}).encode()


def as_items(given: Given) -> list[Json]:
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def continued(given: object, earlier: EarlierItems, **fields: object) -> ChatRequest:
    with pytest.raises(EarlierItemsNeeded) as caught:
        parse_response(body(given, **fields), stores=True)
    request = caught.value.resume(earlier)
    assert isinstance(request, ChatRequest)
    return request


def messages_of(items: Sequence[object]) -> tuple[Message, ...]:
    return parse_response(body(items)).messages


@given(turns=st.lists(TURN, min_size=1, max_size=4), last=INPUT)
def test_a_chain_is_the_conversation_as_the_client_would_have_sent_it(
    turns: list[tuple[Given, list[Json]]], last: Given
) -> None:
    whole = [item for asked, answered in turns for item in (*as_items(asked), *answered)]
    items = joined_items((json.dumps(asked), json.dumps(answered)) for asked, answered in turns)

    request = continued(last, EarlierItems(items=items), previous_response_id=f"resp_{UUID}")

    assert request.messages == messages_of([*whole, *as_items(last)])
    assert request.original is not None
    assert request.original.storage is not None
    assert json.loads(bytes(request.original.storage.input)) == last


@given(asked=INPUT, answered=st.lists(ANSWERED, max_size=4), data=st.data())
def test_a_reference_is_the_item_that_it_names(
    asked: Given, answered: list[Json], data: st.DataObject
) -> None:
    id = f"resp_{UUID}"
    made = [{"id": f"msg_{UUID}_{place}", **one} for place, one in enumerate(answered)]
    known = known_items([(id, json.dumps(asked), json.dumps(made))])
    names = data.draw(st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=5))
    wanted: list[object] = [{"type": "item_reference", "id": name} for name in names]

    request = continued(wanted, EarlierItems(found=known))

    assert {response_of(name) for name in names} == {id}
    assert request.messages == messages_of([json.loads(bytes(known[name])) for name in names])
    assert len(known) == len(as_items(asked)) + len(made)


@given(asked=INPUT)
def test_listed_items_mean_what_was_sent(asked: Given) -> None:
    listed = [json.loads(bytes(one)) for one in input_items(f"resp_{UUID}", json.dumps(asked))]

    assert messages_of(listed) == messages_of(as_items(asked))
    assert all({"id", "type"} <= one.keys() for one in listed)


def test_a_stored_item_is_whole_in_the_next_stored_input() -> None:
    item = Raw(b'{"id":"msg_1","type":"message","role":"user","content":"a"}')

    request = continued(
        [{"id": "x"}, {"role": "user", "content": "b"}], EarlierItems(found={"x": item})
    )

    assert request.original is not None
    assert request.original.storage is not None
    stored = json.loads(bytes(request.original.storage.input))
    assert stored == [json.loads(bytes(item)), {"role": "user", "content": "b"}]
