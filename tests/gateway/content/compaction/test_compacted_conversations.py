"""A long conversation is replaced by a summary at every vendor, and goes on at any other."""

import json
from collections.abc import AsyncGenerator, Sequence
from typing import cast

import pytest
from openai.types.responses import CompactedResponse, Response, ResponseInputItemParam

from tests.gateway.backends.vendors.backend import answering, begin, is_streamed
from tests.gateway.backends.vendors.dialect import USAGE, Json, Said
from tests.gateway.backends.vendors.responses import COUNTS, NONE, EventStream, response
from tests.gateway.backends.vendors.rows import VENDORS, Vendor
from tests.gateway.surfaces.responses.openai_client import (
    MADE,
    ResponsesOf,
    responses_of_every_vendor,
    returned,
)
from tests.stand_ins.provider import Answer, Behaviour, Received

pytestmark = pytest.mark.anyio

NATIVES = [one for one in VENDORS if one.name in ("openai-responses", "azure-responses")]
CHATS = [one for one in VENDORS if one.task == "chat" and one not in NATIVES]
(OPENAI,) = [one for one in VENDORS if one.name == "openai"]
(CLAUDE,) = [one for one in VENDORS if one.name == "anthropic"]
every_vendor = pytest.mark.parametrize("vendor", CHATS, ids=[one.name for one in CHATS])
either_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])

SUMMARY = "The user counts apples: 17 are red, and 25 are green."
TRIGGER: Json = {"type": "compaction_trigger"}
CALL: Json = {
    "type": "function_call",
    "call_id": "abcdefgh1",
    "name": "count",
    "arguments": '{"colour":"red"}',
}
RESULT: Json = {
    "type": "function_call_output",
    "call_id": "abcdefgh1",
    "output": f"17 apples{' and leaves' * 500}",
}


def said(role: str, text: str) -> Json:
    return {"type": "message", "role": role, "content": text}


LONG: Sequence[Json] = (
    said("user", "How many red apples are there?"),
    CALL,
    RESULT,
    said("assistant", "There are seventeen of them."),
    said("user", "And how many are green?"),
    said("assistant", "Twenty-five."),
)


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[ResponsesOf, None]:
    async with responses_of_every_vendor(tmp_path_factory.mktemp("run")) as found:
        yield found


def asked(gateway: ResponsesOf) -> str:
    """All that the vendor was sent last."""
    return gateway.setting.server.requests[-1].body.decode()


def item_of(response: Response | CompactedResponse) -> Json:
    (found,) = [one for one in response.output if one.type == "compaction"]
    return cast("Json", found.model_dump(exclude_none=True, exclude_unset=True))


async def compacted(gateway: ResponsesOf, vendor: Vendor, *, stream: bool = False) -> Json:
    gateway.plays(vendor, Said(text=(SUMMARY[:20], SUMMARY[20:])))
    found = await gateway.ask(vendor, {"input": [*LONG, TRIGGER]}, stream=stream)
    return item_of(found)


@every_vendor
@either_way
async def test_a_trigger_is_answered_with_one_item_that_any_vendor_goes_on_from(
    gateway: ResponsesOf, vendor: Vendor, stream: bool
) -> None:
    item = await compacted(gateway, vendor, stream=stream)

    said_to_vendor = asked(gateway)
    assert "17 apples" in said_to_vendor
    assert "How many red apples" in said_to_vendor
    assert SUMMARY not in json.dumps(item)
    for other in (vendor, CLAUDE, OPENAI):
        gateway.plays(other, Said())
        await gateway.ask(other, {"input": [*LONG, item, said("user", "Go on.")]}, stream=stream)
        turns = gateway.received(other).turns
        text = "\n".join(turn.text for turn in turns)
        assert SUMMARY in text
        assert "How many red apples" in text
        assert text.rstrip().endswith("Go on.")
        assert "seventeen" not in text
        assert not any(turn.calls or turn.results for turn in turns)


@every_vendor
async def test_the_route_returns_what_the_user_said_and_one_item(
    gateway: ResponsesOf, vendor: Vendor
) -> None:
    gateway.plays(vendor, Said(text=(SUMMARY,)))
    rules = said("developer", "Count only apples.")

    window = await gateway.client.responses.compact(
        model=vendor.name, input=cast("list[ResponseInputItemParam]", [rules, *LONG])
    )

    assert window.object == "response.compaction"
    kept = [one.to_dict(warnings=False) for one in window.output]
    assert [one.get("role", one["type"]) for one in kept] == [
        "developer",
        "user",
        "user",
        "compaction",
    ]
    assert len({one["id"] for one in kept}) == len(kept)
    assert SUMMARY not in json.dumps(kept)
    if vendor.usages == (USAGE,):
        assert (window.usage.input_tokens, window.usage.output_tokens) == USAGE
    gateway.plays(CLAUDE, Said())
    await gateway.ask(CLAUDE, {"input": [*kept, said("user", "Go on.")]}, stream=False)
    text = "\n".join(turn.text for turn in gateway.received(CLAUDE).turns)
    assert text.index("And how many are green?") < text.index(SUMMARY) < text.index("Go on.")


def scripted(vendor: Vendor, *answers: Said) -> Behaviour:
    """Answer one after the other; the last one from then on."""
    left = [answering(vendor, one) for one in answers]

    async def behave(request: Received, answer: Answer) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(request, answer)

    return behave


@every_vendor
@either_way
async def test_beyond_the_threshold_a_conversation_is_compacted_within_the_request(
    gateway: ResponsesOf, vendor: Vendor, stream: bool
) -> None:
    wants: Json = {"context_management": [{"type": "compaction", "compact_threshold": 400}]}
    server = gateway.setting.server
    question = said("user", "Which are more?")
    gateway.setting.plays(scripted(vendor, Said(text=(SUMMARY,)), Said(text=("The green ones.",))))

    answered = await gateway.ask(vendor, {"input": [*LONG, question], **wants}, stream=stream)

    first, second = (one.body.decode() for one in server.requests)
    assert "17 apples" in first
    assert "17 apples" not in second
    assert second.index(SUMMARY) < second.index("Which are more?")
    assert [one.type for one in answered.output if one.type != "reasoning"] == [
        "compaction",
        "message",
    ]
    assert answered.output_text == "The green ones."
    # The whole history comes back with the item in it, and only what the item stands for goes on.
    gateway.plays(vendor, Said())
    history = [*LONG, question, *returned(answered), said("user", "Why?")]
    await gateway.ask(vendor, {"input": history, **wants}, stream=stream)
    (only,) = [one.body.decode() for one in server.requests]
    assert "17 apples" not in only
    for text in (SUMMARY, "Which are more?", "The green ones.", "Why?"):
        assert only.count(text) == 1


async def test_below_the_threshold_nothing_is_asked_for_and_nothing_is_left_out(
    gateway: ResponsesOf,
) -> None:
    gateway.plays(CLAUDE, Said())
    wants = {"context_management": [{"type": "compaction", "compact_threshold": 5000}]}
    body = {"model": CLAUDE.name, "input": LONG, **wants}

    answer = await gateway.setting.web.post("/v1/responses", json=body)

    assert answer.status_code == 200
    assert "x-gateway-dropped-params" not in answer.headers
    assert len(gateway.setting.server.requests) == 1


def items_of_openai(received: list[Received]) -> Behaviour:
    """OpenAI's server, where it is asked for compaction."""
    item = {"id": "cmp_7", "type": "compaction", "encrypted_content": "gAAAAB-of-openai"}

    async def behave(request: Received, answer: Answer) -> None:
        received.append(request)
        if request.path.endswith("/compact"):
            kept = {"id": "msg_7", "status": "completed", **said("user", "kept by OpenAI")}
            kept["content"] = [{"type": "input_text", "text": "kept by OpenAI"}]
            body = {"id": "resp_7", "object": "response.compaction", "created_at": 1}
            await answer.json({**body, "output": [kept, item], "usage": COUNTS})
            return
        done = response([item])
        if not is_streamed(request):
            await answer.json(done)
            return
        events = EventStream()
        begun = {**done, "status": "in_progress", "output": NONE}
        pieces = [
            events.event("response.created", response=begun),
            events.event("response.output_item.added", output_index=0, item=item),
            events.event("response.output_item.done", output_index=0, item=item),
            events.event("response.completed", response=done),
        ]
        await begin(NATIVES[0], answer, pieces)
        await answer.raw(b"0\r\n\r\n")

    return behave


@pytest.mark.parametrize("vendor", NATIVES, ids=[one.name for one in NATIVES])
@either_way
async def test_openais_own_items_pass_as_they_are_and_only_openai_gets_them_back(
    gateway: ResponsesOf, vendor: Vendor, stream: bool
) -> None:
    received: list[Received] = []
    gateway.setting.plays(items_of_openai(received))

    answered = await gateway.ask(vendor, {"input": [*LONG, TRIGGER]}, stream=stream)
    window = await gateway.client.responses.compact(
        model=vendor.name, input=cast("list[ResponseInputItemParam]", LONG), instructions="Count."
    )

    assert cast("Json", received[0].json)["input"] == [*LONG, TRIGGER]
    assert received[1].path.endswith("/responses/compact")
    assert received[1].json.keys() == {"model", "input", "instructions"}
    item = item_of(answered)
    assert item["encrypted_content"] == "gAAAAB-of-openai"
    kept = [one.to_dict(warnings=False) for one in window.output]
    assert [one["id"] for one in kept] == ["msg_7", "cmp_7"]
    history = [item, said("user", "Go on.")]
    await gateway.ask(vendor, {"input": history}, stream=stream)
    assert received[2].json["input"] == history
    gateway.plays(CLAUDE, Said())
    other = await gateway.setting.web.post(
        "/v1/responses", json={"model": CLAUDE.name, "input": history}
    )
    assert other.status_code == 200
    assert "gAAAAB" not in asked(gateway)
    assert "input[].content[]" in other.headers["x-gateway-dropped-params"]


@pytest.mark.parametrize(
    ("status", "code"), [(400, None), (404, None), (400, "context_length_exceeded")]
)
@either_way
async def test_a_server_of_openais_api_that_does_not_compact_gets_a_transcript(
    gateway: ResponsesOf, status: int, code: str | None, stream: bool
) -> None:
    (vendor,) = NATIVES
    summarises = answering(vendor, Said(text=(SUMMARY,)))

    async def behave(request: Received, answer: Answer) -> None:
        if request.path.endswith("/compact") or b"compaction_trigger" in request.body:
            error = {"message": "no", "type": "invalid_request_error", "code": code}
            await answer.json({"error": error}, status)
        else:
            await summarises(request, answer)

    gateway.setting.plays(behave)
    answered = await gateway.ask(vendor, {"input": [*LONG, TRIGGER]}, stream=stream)
    window = await gateway.client.responses.compact(
        model=vendor.name, input=cast("list[ResponseInputItemParam]", LONG)
    )
    later = await gateway.ask(vendor, {"input": "hi"}, stream=stream)

    assert len(gateway.setting.server.requests) == 5
    for found in (answered, window):
        assert str(item_of(found)["encrypted_content"]).startswith("strowger_compaction_")
    assert later.output_text == SUMMARY


@either_way
async def test_an_item_of_the_gateways_unfolds_for_openai_as_well(
    gateway: ResponsesOf, stream: bool
) -> None:
    item = await compacted(gateway, CLAUDE)
    (vendor,) = NATIVES
    gateway.plays(vendor, Said())

    await gateway.ask(vendor, {"input": [*LONG, item, said("user", "Go on.")]}, stream=stream)

    items = cast("list[Json]", gateway.setting.server.requests[-1].json["input"])
    assert [one["role"] for one in items] == ["user"] * 4
    assert SUMMARY in json.dumps(items[2])


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": [TRIGGER, said("user", "hi")]}, "input"),
        ({"input": [TRIGGER]}, "input"),
        ({"input": [said("developer", "Be kind."), TRIGGER], "instructions": "x"}, ""),
        (
            {
                "input": "hi",
                "context_management": [{"type": "compaction", "compact_threshold": 0}],
            },
            "context_management[0].compact_threshold",
        ),
    ],
    ids=["not last", "alone", "instructions", "no threshold"],
)
async def test_what_cannot_be_compacted_is_said_by_its_name(
    gateway: ResponsesOf, body: Json, param: str
) -> None:
    gateway.plays(OPENAI, Said())

    answer = await gateway.setting.web.post("/v1/responses", json={"model": OPENAI.name, **body})

    assert answer.status_code == (400 if param else 200)
    if param:
        assert answer.json()["error"]["param"] == param


async def test_a_request_for_items_without_input_names_it(gateway: ResponsesOf) -> None:
    answer = await gateway.setting.web.post("/v1/responses/compact", json={"model": OPENAI.name})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "input"


async def test_a_summary_without_text_is_the_backends_failure(gateway: ResponsesOf) -> None:
    gateway.plays(OPENAI, Said(text=(), calls=MADE["single"]))
    body = {"model": OPENAI.name, "input": [*LONG, TRIGGER]}

    answer = await gateway.setting.web.post("/v1/responses", json=body)

    assert answer.status_code == 502
