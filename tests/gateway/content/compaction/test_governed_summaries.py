"""Summaries are requests like any other: of one key, within a context, guarded, recorded."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import cast

import httpx
import pytest
from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.content.stored_responses.archive import ResponseArchive
from strowger_gateway.gateway.content.stored_responses.process_side import StoredResponsesSide
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.response_rows import ResponseRows
from strowger_gateway.schemas.secret import Secret
from tests.gateway.content.stored_responses.archives import KEYS
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import USAGE, Answer, Provider, Received, chat_body, provider

pytestmark = pytest.mark.anyio

Json = dict[str, object]

CONTEXT = 2_000
"""Tokens that the stand-in reads, by its own count of four characters each."""

CONFIG = """
providers: [{{name: remote, adapter: openai, base_url: {url}, api_key: k}}]
models:
  - {{name: known, backends: [{{provider: remote, model: known}}]}}
  - {{name: unknown, backends: [{{provider: remote, model: unknown}}]}}
  - {{name: guarded, backends: [{{provider: remote, model: guarded}}]}}
  - {{name: kept, backends: [{{provider: remote, model: kept}}]}}
capabilities: [{{match: remote/known, context: {context}}}]
prices: [{{match: remote/known, input: 1, output: 1}}]
guardrails:
  - {{name: words, use: patterns, mode: mask, models: [guarded], settings: {{words: [FACT-7]}}}}
responses: {{sealing_keys: [{key}], store: on, timeout_s: 60}}
{keys}
"""
SEALING = "k" * 32
METRICS = "key-of-the-metrics"
WITH_METRICS = KEYS.replace("mode: keys", f"mode: keys, metrics_key: {METRICS}")
TRIGGER: Json = {"type": "compaction_trigger"}
COST = re.compile(r"^strowger_cost_usd_total\{.*\} (\S+)$", re.MULTILINE)
CUT_OFF = "At great length"
FACT = re.compile(r"FACT-\d+")


async def reads(request: Received, answer: Answer) -> None:
    """Answer with all facts in the request, or refuse one that is too long."""
    text = request.body.decode()
    if len(text) / 4 > CONTEXT:
        error = {"message": "too long", "code": "context_length_exceeded", "param": "messages"}
        await answer.json({"error": {**error, "type": "invalid_request_error"}}, 400)
        return
    facts = " ".join(dict.fromkeys(FACT.findall(text)))
    if request.json.get("stream"):
        await answer.stream("Facts: ", facts)
    else:
        finish = "length" if CUT_OFF in text else "stop"
        await answer.json(chat_body(f"Facts: {facts}", finish))


class Up(Struct, frozen=True, kw_only=True, eq=False):
    """other: a gateway that stores nothing, and has the same key for seals."""

    gateway: Serving
    other: Serving
    remote: Provider
    web: httpx.AsyncClient
    agent: Mapping[str, str] = {}

    async def ask(
        self,
        items: Sequence[Json] | str,
        model: str = "known",
        *,
        key: str = "ann",
        at: str = "",
        path: str = "/v1/responses",
        **more: object,
    ) -> httpx.Response:
        """at: the gateway's URL; "" for the first."""
        self.remote.requests.clear()
        headers = {"authorization": f"Bearer key-of-{key}-1", **self.agent}
        body = {"model": model, "input": items, **more}
        return await self.web.post(f"{at or self.gateway.url}{path}", json=body, headers=headers)

    async def item(self, items: Sequence[Json], model: str = "known") -> Json:
        answer = await self.ask([*items, TRIGGER], model, store=False)
        assert answer.status_code == 200, answer.text
        (item,) = cast("list[Json]", answer.json()["output"])
        return item

    async def cost(self) -> float:
        """In US dollars, of all requests so far."""
        headers = {"authorization": f"Bearer {METRICS}"}
        text = (await self.web.get(f"{self.gateway.url}/metrics", headers=headers)).text
        return sum(float(one) for one in COST.findall(text))

    @property
    def sent(self) -> str:
        return self.remote.requests[-1].body.decode()


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Up, None]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        remote = await enter(provider(reads))
        config = CONFIG.format(url=remote.base_url, context=CONTEXT, key=SEALING, keys=WITH_METRICS)
        folder = tmp_path_factory.mktemp("run")
        store = open_store(Secret(f"sqlite:///{folder / 'store.db'}"))
        stack.callback(store.close)

        def equip(state: Gateway) -> None:
            archive = ResponseArchive(
                store, ResponseRows(store.database), lambda: state.runtime.config.responses, int
            )
            stack.callback(archive.close)
            state.side(StoredResponsesSide).archive = archive

        stateless = config.replace("store: on", "store: off")
        gateways = [await enter(serving(one, folder, equip=equip)) for one in (config, stateless)]
        web = await enter(httpx.AsyncClient(timeout=60))
        yield Up(gateway=gateways[0], other=gateways[1], remote=remote, web=web)


def turns(count: int, words: int = 40) -> list[Json]:
    """A conversation in which each answer has one fact."""
    found: list[Json] = []
    for number in range(count):
        found.append({"role": "user", "content": f"What about {number}?"})
        said = f"FACT-{number}. {'and so on ' * words}"
        found.append({"role": "assistant", "content": said})
    return found


GO_ON: Json = {"role": "user", "content": "Go on."}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_what_is_longer_than_the_context_is_summarised_in_pieces(
    up: Up, stream: bool
) -> None:
    answer = await up.ask([*turns(40), TRIGGER], store=False, stream=stream)

    assert answer.status_code == 200, answer.text
    calls = len(up.remote.requests)
    assert 3 < calls <= 16
    line = up.gateway.access_lines()[-1]
    assert [one.outcome for one in line.attempts] == ["ok"] * calls
    assert all(one.usage for one in line.attempts[:-1])
    found = re.search(r"strowger_compaction_[\w-]+", answer.text)
    assert found is not None
    item: Json = {"type": "compaction", "encrypted_content": found[0]}
    await up.ask([item, GO_ON], store=False)
    assert set(FACT.findall(up.sent)) == {f"FACT-{number}" for number in range(40)}


async def test_each_call_is_in_the_price_of_the_request(up: Up) -> None:
    before = await up.cost()
    await up.item(turns(40))
    attempts = up.gateway.access_lines()[-1].attempts
    calls = len(up.remote.requests)
    cost = await up.cost() - before

    assert len(attempts) == calls > 3
    # The stand-in reports the same counts for each call, at a dollar for a million tokens.
    each = cost / calls * 1e6
    assert round(each, 3) == USAGE["total_tokens"]


async def test_pieces_that_a_model_of_unknown_context_refuses_are_cut_in_two(up: Up) -> None:
    item = await up.item(turns(30), "unknown")

    outcomes = [one.outcome for one in up.gateway.access_lines()[-1].attempts]
    assert "context_length_exceeded" in outcomes
    await up.ask([item, GO_ON], store=False)
    assert set(FACT.findall(up.sent)) == {f"FACT-{number}" for number in range(30)}


async def test_long_results_are_shortened_before_calls_become_too_many_and_this_is_named(
    up: Up,
) -> None:
    call: Json = {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"}
    output = "FACT-1 " + "page after page " * 20_000 + " FACT-2"
    result: Json = {"type": "function_call_output", "call_id": "call_1", "output": output}
    picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    seen: Json = {"role": "user", "content": [picture]}

    answer = await up.ask([GO_ON, seen, call, result, TRIGGER], store=False)

    assert answer.status_code == 200, answer.text
    repairs = answer.headers["x-gateway-repairs"].replace(" ", "").split(",")
    assert {"input[]:results_shortened", "input[]:pictures_not_summarised"} <= {*repairs}
    assert "FACT-1" in "".join(one.body.decode() for one in up.remote.requests)


async def test_a_summary_that_a_limit_has_cut_off_is_named(up: Up) -> None:
    answer = await up.ask([*turns(2), {"role": "user", "content": CUT_OFF}, TRIGGER], store=False)

    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == "completed"
    assert answer.headers["x-gateway-repairs"] == "input[]:summary_cut"


async def test_what_the_calls_do_not_suffice_for_is_an_error_with_the_code_of_long_prompts(
    up: Up,
) -> None:
    answer = await up.ask([*turns(400), TRIGGER], store=False)

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert len(up.remote.requests) <= 16


async def test_an_item_is_its_callers_own_and_any_gateway_of_the_deployment_opens_it(
    up: Up,
) -> None:
    item = await up.item(turns(3))

    elsewhere = await up.ask([item, GO_ON], at=up.other.url, store=False)
    facts = set(FACT.findall(up.sent))
    stolen = await up.ask([item, GO_ON], key="ben", store=False)
    changed = {**item, "encrypted_content": f"{item['encrypted_content']}x"}
    forged = await up.ask([GO_ON, changed, GO_ON], store=False)
    covered = await up.ask([changed, item, GO_ON], store=False)

    assert (elsewhere.status_code, facts) == (200, {"FACT-0", "FACT-1", "FACT-2"})
    assert (stolen.status_code, forged.status_code) == (400, 400)
    assert stolen.json()["error"]["param"] == "input[0].encrypted_content"
    assert forged.json()["error"]["param"] == "input[1].encrypted_content"
    assert "responses.sealed_days" in forged.json()["error"]["message"]
    assert covered.status_code == 200


@pytest.mark.parametrize("kind", ["compaction", "compaction_summary", "context_compaction"])
async def test_an_item_opens_under_each_name_by_which_clients_return_it(up: Up, kind: str) -> None:
    item = await up.item(turns(2))

    answer = await up.ask([{**item, "type": kind}, GO_ON], store=False)

    assert answer.status_code == 200, answer.text
    assert set(FACT.findall(up.sent)) == {"FACT-0", "FACT-1"}


async def test_a_seal_for_one_purpose_is_none_for_another(up: Up) -> None:
    seal = str((await up.item(turns(1)))["encrypted_content"]).removeprefix("strowger_compaction_")
    reference: Json = {"type": "item_reference", "id": f"rs_sealed_{seal}"}

    answer = await up.ask([GO_ON, reference], store=False)

    assert answer.status_code == 404


async def test_guardrails_see_every_summary_before_it_goes_on(up: Up) -> None:
    wants = [{"type": "compaction", "compact_threshold": 300}]

    answer = await up.ask([*turns(9), GO_ON], "guarded", context_management=wants, store=False)

    assert answer.status_code == 200, answer.text
    first, second = (one.body.decode() for one in up.remote.requests)
    assert "FACT-8" in first
    assert "FACT-8" in second
    assert "FACT-7" not in first + second
    assert "words" in str(up.gateway.access_lines()[-1])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_stored_conversations_go_on_from_the_item_that_came_with_an_answer(
    up: Up, stream: bool
) -> None:
    wants = [{"type": "compaction", "compact_threshold": 300}]
    first = await up.ask([*turns(9), GO_ON], stream=stream, context_management=wants)
    id = re.findall(r"resp_[0-9a-f-]{36}", first.text)[0]

    second = await up.ask("And now?", previous_response_id=id, context_management=wants)

    assert second.status_code == 200, second.text
    (sent,) = up.remote.requests
    messages = [str(one["content"]) for one in cast("list[Json]", sent.json["messages"])]
    assert sum("and so on" in one for one in messages) == 0
    assert "FACT-8" in str(messages)
    assert messages[-1] == "And now?"


async def test_a_stored_conversation_is_compacted_by_its_id(up: Up) -> None:
    first = await up.ask(turns(2))
    id = first.json()["id"]

    window = await up.ask([], path="/v1/responses/compact", previous_response_id=id)
    triggered = await up.ask([TRIGGER], previous_response_id=id)
    third = await up.ask("And now?", previous_response_id=triggered.json()["id"])

    assert window.status_code == 200, window.text
    kinds = [one["type"] for one in window.json()["output"]]
    assert kinds == ["message", "message", "compaction"]
    assert third.status_code == 200, third.text
    assert "and so on" not in up.sent
    assert {"FACT-0", "FACT-1"} == set(FACT.findall(up.sent))


async def test_a_client_that_leaves_ends_the_calls(up: Up) -> None:
    calls = asyncio.create_task(up.ask([*turns(40), TRIGGER], store=False))
    await up.remote.until(lambda: bool(up.remote.requests))
    calls.cancel()
    await asyncio.wait([calls])

    await up.remote.until(lambda: True)
    asked = len(up.remote.requests)

    assert asked < 5


async def test_a_count_includes_what_is_continued_and_what_items_stand_for(up: Up) -> None:
    first = await up.ask(turns(4))
    item = await up.item(turns(9))
    route = "/v1/responses/input_tokens"

    alone = await up.ask("And now?", path=route)
    chained = await up.ask("And now?", path=route, previous_response_id=first.json()["id"])
    unfolded = await up.ask([item, GO_ON], path=route)

    short, longer, summary = (one.json()["input_tokens"] for one in (alone, chained, unfolded))
    assert longer > short + 4 * 100
    assert short < summary < longer
    assert chained.headers["x-gateway-estimated"] == "input_tokens"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_clients_that_return_ids_go_on_from_an_item_as_well(up: Up, stream: bool) -> None:
    """As Vercel's AI SDK does; the item is within another one, sealed again."""
    sdk = replace(up, agent={"user-agent": "ai/7.0.173 ai-sdk-provider-utils/5.0.81"})
    wants = [{"type": "compaction", "compact_threshold": 300}]
    first = await sdk.ask(
        [*turns(9), GO_ON], at=up.other.url, context_management=wants, stream=stream
    )
    ids = re.findall(r'"id":"((?:cmp|msg|rs)_[^"]+)"', first.text)
    references: list[Json] = [{"type": "item_reference", "id": id} for id in dict.fromkeys(ids)]

    answer = await sdk.ask([*references, GO_ON], at=up.other.url)

    assert answer.status_code == 200, answer.text
    assert "x-gateway-repairs" not in answer.headers
    assert {f"FACT-{number}" for number in range(9)} <= set(FACT.findall(up.sent))
    assert "and so on" not in up.sent
