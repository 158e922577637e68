"""Sealed items: only the caller who got them, within their time, at any gateway with the key."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from threading import Event
from typing import cast

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.config.schema.responses import ResponsesConfig
from strowger_gateway.gateway.content.stored_responses.process_side import StoredResponsesSide
from strowger_gateway.gateway.content.stored_responses.seals import Seals
from strowger_gateway.gateway.http.continuing.sealed_items import earlier_items
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.surfaces.stored_items import EarlierItemsNeeded
from strowger_gateway.schemas.secret import Secret
from tests.gateway.content.stored_responses.archives import KEYS
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Received, chat_body, provider

pytestmark = pytest.mark.anyio

Json = dict[str, object]

FIRST, SECOND, THIRD = ("k" * 31 + last for last in "123")
SETTINGS = f"""{KEYS}
responses: {{sealing_keys: [{FIRST}]}}
server: {{max_body_bytes: 200000}}"""
REFERS = {
    "authorization": "Bearer key-of-ann-1",
    "user-agent": "ai/7.0.173 ai-sdk-provider-utils/5.0.81",
}
LONG = "In ten thousand words"
MOST = 10_000_000
DAY_S = 86_400


async def thinks(request: Received, answer: Answer) -> None:
    text = "Noon " * 10_000 if LONG in request.body.decode() else "Noon."
    body = cast("Json", json.loads(json.dumps(chat_body(text))))
    (choice,) = cast("list[dict[str, Json]]", body["choices"])
    choice["message"]["reasoning_content"] = "The clock says so."
    await answer.json(body)


class Up(Struct, frozen=True, kw_only=True, eq=False):
    gateway: Serving
    web: httpx.AsyncClient
    received: list[Received]

    async def ask(self, items: Sequence[Json], key: str = "ann", **more: object) -> httpx.Response:
        headers = {**REFERS, "authorization": f"Bearer key-of-{key}-1"}
        body = {"model": "chat", "input": items, **more}
        return await self.web.post("/v1/responses", json=body, headers=headers)

    async def items(self) -> list[Json]:
        answer = await self.ask([USER])
        return cast("list[Json]", answer.json()["output"])

    def sent(self) -> list[Json]:
        """The messages that the backend got last."""
        return cast("list[Json]", self.received[-1].json["messages"])


USER: Json = {"role": "user", "content": "What time is it?"}


def referring(items: Sequence[Json]) -> list[Json]:
    return [{"type": "item_reference", "id": one["id"]} for one in items]


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Up, None]:
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider(thinks))
        folder = tmp_path_factory.mktemp("run")
        config = one_model(remote.base_url, SETTINGS)
        gateway = await stack.enter_async_context(serving(config, folder))
        web = await stack.enter_async_context(httpx.AsyncClient(base_url=gateway.url, timeout=60))
        yield Up(gateway=gateway, web=web, received=remote.requests)


async def test_ids_stand_for_the_reasoning_and_the_text(up: Up) -> None:
    items = await up.items()

    answer = await up.ask([USER, *referring(items), USER])

    assert answer.status_code == 200, answer.text
    assert [one["role"] for one in up.sent()] == ["user", "assistant", "user"]
    assert up.sent()[1] == {
        "role": "assistant",
        "content": "Noon.",
        "reasoning_content": "The clock says so.",
    }
    assert "x-gateway-repairs" not in answer.headers


async def test_clients_that_do_not_refer_to_items_get_none_that_carry_others(up: Up) -> None:
    answer = await up.web.post(
        "/v1/responses",
        json={"model": "chat", "input": [USER]},
        headers={"authorization": "Bearer key-of-ann-1"},
    )
    withheld = await up.ask([USER], store=False)

    for one in (answer, withheld):
        assert [item["type"] for item in one.json()["output"]] == ["reasoning", "message"]


async def test_a_client_may_return_the_items_themselves(up: Up) -> None:
    items = await up.items()

    await up.ask([USER, *items, USER])

    assert [one.get("content") for one in up.sent()] == [
        "What time is it?",
        "Noon.",
        "What time is it?",
    ]


async def test_another_callers_items_are_unknown(up: Up) -> None:
    items = await up.items()
    thought, _, message, _ = referring(items)

    reasoning = await up.ask([USER, thought, USER], key="ben")
    text = await up.ask([USER, *referring(items), USER], key="ben")

    assert (reasoning.status_code, text.status_code) == (200, 400)
    assert reasoning.headers["x-gateway-repairs"] == "input[1]:lost_reasoning"
    assert text.json()["error"]["param"] == "input[3]"
    assert "store: false" in text.json()["error"]["message"]
    assert str(message["id"]) not in up.received[-1].body.decode()


def changed(id: str) -> str:
    return f"{id[:-6]}{'B' if id[-6] == 'A' else 'A'}{id[-5:]}"


SPOILT: Mapping[str, Callable[[str], str]] = {
    "changed": changed,
    "cut": lambda id: id[:20],
    "no base64": lambda id: f"{id}é",
    "empty": lambda id: "rs_sealed_",
    "invented": lambda id: "rs_sealed_" + "A" * 5000,
}


@pytest.mark.parametrize("spoilt", SPOILT)
async def test_a_spoilt_seal_is_unknown_reasoning(up: Up, spoilt: str) -> None:
    items = await up.items()
    carrier: Json = {"type": "item_reference", "id": SPOILT[spoilt](str(items[1]["id"]))}

    answer = await up.ask([USER, *referring(items[:1]), carrier, USER])

    assert answer.status_code == 200, answer.text
    repairs = answer.headers["x-gateway-repairs"]
    assert repairs == "input[1]:lost_reasoning, input[2]:lost_reasoning"


async def test_only_the_first_of_many_lost_references_are_named(up: Up) -> None:
    lost: list[Json] = [{"type": "item_reference", "id": f"rs_{at}"} for at in range(2000)]

    answer = await up.ask([USER, *lost, USER])

    assert answer.status_code == 200, answer.text
    named = answer.headers["x-gateway-repairs"].split(", ")
    assert (len(named), named[0], named[-1]) == (
        17,
        "input[1]:lost_reasoning",
        "input[]:lost_reasoning",
    )


async def test_many_references_to_one_item_count_each_time(up: Up) -> None:
    answer = await up.ask([{"role": "user", "content": LONG}])
    items = referring(answer.json()["output"])

    one = await up.ask([USER, *items, USER])
    many = await up.ask([USER, *items, *[items[2]] * 10, USER])

    assert one.status_code == 200, one.text
    assert many.status_code == 400, many.text[:200]
    assert "max_body_bytes" in many.json()["error"]["message"]
    assert len(many.request.content) < 20_000


async def test_many_spellings_of_one_seal_count_each_time(up: Up) -> None:
    answer = await up.ask([{"role": "user", "content": LONG}])
    carrier = str(answer.json()["output"][-1]["id"])
    spelt = referring([{"id": carrier + "!!!!" * place} for place in range(5)])

    few = await up.ask([USER, *spelt[:2], USER])
    many = await up.ask([USER, *spelt, USER])

    assert few.status_code == 200, few.text
    assert many.status_code == 400, many.text[:200]
    assert many.json()["error"]["param"] == "input[4]"
    assert "max_body_bytes" in many.json()["error"]["message"]


async def test_other_requests_have_their_turn_while_many_seals_are_opened(up: Up) -> None:
    await up.items()
    references = [(f"rs_sealed_AQ{place:050}", f"input[{place}]") for place in range(1000)]
    needed = EarlierItemsNeeded("", references, 0, lambda _: pytest.fail("not resumed here"))
    record = RequestRecord(request_id="r", started=now(), attempts=[], caller="ann")
    reading = asyncio.create_task(earlier_items(needed, up.gateway.state, record))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1

    assert turns > 5
    assert len((await reading).found) == 1000


class Clock(Struct):
    at: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.at


def settings(*keys: str, days: int = 30) -> ResponsesConfig:
    return ResponsesConfig(sealing_keys=tuple(Secret(one) for one in keys), sealed_days=days)


async def test_keys_rotate_without_a_gap() -> None:
    old, both, new = (
        Seals(lambda keys=keys: settings(*keys)) for keys in ((FIRST,), (SECOND, FIRST), (SECOND,))
    )
    await old.ready()
    await both.ready()
    before, after = old.seal("ann", b"[1]"), both.seal("ann", b"[2]")

    assert await both.open("ann", before, MOST) == b"[1]"
    assert await new.open("ann", after, MOST) == b"[2]"
    assert await new.open("ann", before, MOST) is None
    assert await old.open("ann", after, MOST) is None


async def test_a_seal_expires() -> None:
    clock = Clock()
    seals = Seals(lambda: settings(FIRST, days=2), clock=clock)
    await seals.ready()
    sealed = seals.seal("ann", b"[]")

    clock.at += 2 * DAY_S - 1
    assert await seals.open("ann", sealed, MOST) == b"[]"
    clock.at += 2
    assert await seals.open("ann", sealed, MOST) is None


async def test_a_long_item_is_shorter_in_its_seal_and_bounded_when_it_is_opened() -> None:
    seals = Seals(lambda: settings(FIRST))
    await seals.ready()
    data = b'["' + b"The same words again. " * 5_000 + b'"]'

    sealed = seals.seal("ann", data)

    assert len(sealed) < len(data) / 20
    assert await seals.open("ann", sealed, len(data)) == data
    assert await seals.open("ann", sealed, len(data) - 1) is None


async def test_gateways_on_one_store_share_a_key_and_replace_it_in_time(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    url = Secret(f"sqlite:///{tmp_path_factory.mktemp('store') / 'store.db'}")
    stores = [open_store(url), open_store(url)]
    clock = Clock()
    one, other = (Seals(lambda: settings(days=1), store.sealing_keys, clock) for store in stores)
    await one.ready()
    await other.ready()
    first = one.seal("ann", b"[1]")
    assert await other.open("ann", first, MOST) == b"[1]"

    clock.at += DAY_S - 60
    late = other.seal("ann", b"[2]")
    clock.at += 120
    await one.ready()  # makes a new key, which the other does not know yet
    second = one.seal("ann", b"[3]")

    assert await one.open("ann", late, MOST) == b"[2]"
    assert await other.open("ann", second, MOST) == b"[3]"
    for store in stores:
        store.close()


async def test_answers_that_begin_while_the_keys_are_read_are_sealed_with_them(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    store = open_store(Secret(f"sqlite:///{tmp_path_factory.mktemp('store') / 'store.db'}"))
    seals, other = (Seals(settings, store.sealing_keys) for _ in range(2))

    async def sealed() -> str:
        await seals.ready()
        return seals.seal("ann", b"[1]")

    made = await asyncio.gather(*(sealed() for _ in range(3)))

    assert [await other.open("ann", one, MOST) for one in made] == [b"[1]"] * 3
    store.close()


class SlowKeys:
    """A store that answers when it is let go."""

    def __init__(self) -> None:
        self.asked, self.go = Event(), Event()

    def keys(self, at: float, valid_s: float) -> list[str]:
        self.asked.set()
        assert self.go.wait(20)
        return [SECOND]


async def test_a_client_that_leaves_during_the_read_of_the_keys_spoils_no_other_answer() -> None:
    kept = SlowKeys()
    seals, other = Seals(settings, kept), Seals(lambda: settings(SECOND))
    leaving = asyncio.create_task(seals.ready())
    await asyncio.to_thread(kept.asked.wait, 20)
    leaving.cancel()
    await asyncio.wait({leaving})

    kept.go.set()
    await seals.ready()

    assert await other.open("ann", seals.seal("ann", b"[1]"), MOST) == b"[1]"


async def test_a_stream_that_ends_during_a_reload_seals_with_a_key_that_others_have() -> None:
    kept = SlowKeys()
    current = [settings(FIRST)]
    seals, other = Seals(lambda: current[0], kept), Seals(lambda: settings(SECOND, FIRST))
    await seals.ready()

    current[0] = settings()
    reading = asyncio.create_task(seals.ready())
    await asyncio.to_thread(kept.asked.wait, 20)
    during = seals.seal("ann", b"[1]")
    kept.go.set()
    await reading
    after = seals.seal("ann", b"[2]")

    assert await other.open("ann", during, MOST) == b"[1]"
    assert await other.open("ann", after, MOST) == b"[2]"
    assert await Seals(lambda: settings(SECOND)).open("ann", after, MOST) == b"[2]"


async def test_a_process_opens_what_it_sealed_while_the_store_was_away(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("away") / "not" / "yet"
    store = open_store(Secret(f"sqlite:///{folder / 'store.db'}"))
    clock = Clock()
    seals = Seals(settings, store.sealing_keys, clock)
    await seals.ready()
    early = seals.seal("ann", b"[1]")
    assert await seals.open("ann", early, MOST) == b"[1]"
    assert await seals.open("bob", early, MOST) is None

    folder.mkdir(parents=True)
    clock.at += 60
    await seals.ready()
    later = seals.seal("ann", b"[2]")

    other = Seals(settings, store.sealing_keys, clock)
    assert await other.open("ann", later, MOST) == b"[2]"
    assert await other.open("ann", early, MOST) is None
    assert await seals.open("ann", early, MOST) == b"[1]"
    store.close()


async def test_a_conversation_goes_on_while_the_store_is_away(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("away")
    store = open_store(Secret(f"sqlite:///{folder / 'no' / 'such' / 'folder' / 'store.db'}"))

    def equip(state: Gateway) -> None:
        seals = Seals(lambda: state.runtime.config.responses, store.sealing_keys)
        state.side(StoredResponsesSide).seals = seals

    async with (
        provider(thinks) as remote,
        serving(one_model(remote.base_url), folder, equip=equip) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60, headers=REFERS) as web,
    ):
        first = await web.post("/v1/responses", json={"model": "chat", "input": [USER]})
        items = cast("list[Json]", first.json()["output"])
        turns = [USER, *({"type": "item_reference", "id": one["id"]} for one in items), USER]
        second = await web.post("/v1/responses", json={"model": "chat", "input": turns})

    store.close()
    assert (first.status_code, second.status_code) == (200, 200)
    assert "x-gateway-repairs" not in second.headers
