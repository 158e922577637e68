"""What the gateway does for clients of one API it does for those of every other.

Each row of `door_rows.py` meets each control, by live requests of its own dialect: keys and what
they may use, limits, budgets, end users, guardrails on the way in and out, payloads, the cache.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.observability.payloads.part import PayloadsSide
from strowger_gateway.gateway.surfaces.routes import parse_any
from tests.gateway.serving import Serving, serving
from tests.gateway.surfaces.door import REPLY, Door, Json
from tests.gateway.surfaces.door_rows import DOORS
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

SECRET = "AKIA" + "Q3" * 8
USER = "x-end-user"
CONTROLS = ("plain", "masked", "blocked", "answers", "cached")
KEYS = ("open", "walled", "limited", "poor", "people")

EVERY_DOOR = pytest.mark.parametrize("door", DOORS, ids=[one.name for one in DOORS])
SPEAKING = [one for one in DOORS if one.speaks]
EVERY_SPEAKER = pytest.mark.parametrize("door", SPEAKING, ids=[one.name for one in SPEAKING])
STREAMING = [(one, stream) for one in DOORS for stream in (False, True) if one.heard or not stream]
EITHER_WAY = pytest.mark.parametrize(
    ("door", "stream"),
    STREAMING,
    ids=[f"{one.name}-{'stream' if stream else 'whole'}" for one, stream in STREAMING],
)


def config(url: str, folder: Path) -> str:
    """One provider, and a model and a key for each control, of each door."""
    providers = [
        f"  - {{name: p-{one.name}, adapter: {one.adapter}, api_key: k,"
        f' base_url: "{url}/{one.name}{one.base}"}}'
        for one in DOORS
    ]
    models = [
        f"  - {{name: {control}-{one.name},"
        f" backends: [{{provider: p-{one.name}, model: m-1}}]"
        f"{', cache: {when: always}' if control == 'cached' else ''}}}"
        for one in DOORS
        for control in CONTROLS
    ]
    keys = [
        f"    - {{name: {key}-{one.name}, key: {secret(key, one)}"
        f"{f', models: [masked-{one.name}]' if key == 'walled' else ''}}}"
        for one in DOORS
        for key in KEYS
    ]
    limits = [
        line
        for one in DOORS
        for line in (
            f"  - {{name: few-{one.name}, who: {{key: limited-{one.name}}}, requests: 1}}",
            f"  - {{name: each-{one.name}, who: {{key: people-{one.name}}},"
            " each: end_user, requests: 1}",
        )
    ]
    budgets = [
        f"  - {{name: money-{one.name}, who: {{key: poor-{one.name}}}, usd: 8}}" for one in DOORS
    ]
    prices = [f"  - {{match: p-{one.name}/*, input: 1000000, output: 1000000}}" for one in DOORS]
    rails = [
        f"  - {{name: {control}, use: secrets, mode: {mode}, where: {where},"
        f" models: [{', '.join(f'{control}-{one.name}' for one in DOORS)}]}}"
        for control, mode, where in (
            ("masked", "mask", "input"),
            ("blocked", "block", "input"),
            ("answers", "mask", "output"),
        )
    ]
    return "\n".join(
        (
            "providers:", *providers,
            "models:", *models,
            "auth:", "  mode: keys", "  keys:", *keys,
            "limits:", *limits,
            "budgets:", *budgets,
            "guardrails:", *rails,
            f"end_users: {{sources: [user, header:{USER}]}}",
            "cache: {ttl_s: 600}",
            f"logging: {{payloads: {{dir: '{folder}', mode: all}}}}",
            "prices:", *prices,
        )
    )  # fmt: skip


def secret(key: str, door: Door) -> str:
    return f"key-{key}-{door.name}-0000000"


class Rig(Struct, frozen=True, kw_only=True, eq=False):
    """A gateway with all doors, and the stand-in behind them."""

    gateway: Serving
    remote: Provider
    client: httpx.AsyncClient
    payloads: Path

    async def ask(
        self,
        door: Door,
        control: str = "plain",
        text: str = "hi",
        *,
        key: str = "open",
        stream: bool = False,
        user: str = "",
        kind: str = "application/json",
    ) -> httpx.Response:
        model = f"{control}-{door.name}"
        body = {**door.body(model, text), **(door.stream if stream else door.whole)}
        headers = {"content-type": kind}
        if key:
            headers["authorization"] = f"Bearer {secret(key, door)}"
        if user and door.user is not None:
            body = door.user(body, user)
        elif user:
            headers[USER] = user
        path = door.at(model, stream=stream)
        return await self.client.post(path, content=json.dumps(body), headers=headers)

    def received(self, door: Door) -> list[Received]:
        return [one for one in self.remote.requests if one.path.startswith(f"/{door.name}/")]

    async def payload_of(self, answer: httpx.Response) -> Json:
        await self.gateway.state.side(PayloadsSide).close(20)
        lines = (self.payloads / "payloads-0.jsonl").read_bytes().splitlines()
        records = [cast("Json", json.loads(line)) for line in lines]
        request_id = answer.headers["x-gateway-request-id"]
        return next(one for one in records if one["request_id"] == request_id)


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig, None]:
    folder = tmp_path_factory.mktemp("payloads")
    doors = {one.name: one for one in DOORS}

    async def behave(request: Received, answer: Answer) -> None:
        await doors[request.path.split("/")[1]].backend(request, answer)

    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider(behave))
        text = config(remote.origin, folder)
        gateway = await stack.enter_async_context(serving(text, tmp_path_factory.mktemp("run")))
        client = httpx.AsyncClient(base_url=gateway.url, timeout=60)
        await stack.enter_async_context(client)
        yield Rig(gateway=gateway, remote=remote, client=client, payloads=folder)


@EITHER_WAY
async def test_a_request_is_answered_and_recorded(rig: Rig, door: Door, stream: bool) -> None:
    answer = await rig.ask(door, text=f"say {REPLY} good morning", stream=stream)

    text = door.text_of(answer, stream=stream)
    line = rig.gateway.access_lines()[-1]
    assert text == "good morning" or not door.speaks
    assert text
    assert (line.surface, line.task, line.stream) == (door.surface, door.task, stream)
    assert (line.key, line.model) == (f"open-{door.name}", f"plain-{door.name}")
    assert line.backend == f"p-{door.name}/m-1"
    assert (line.prompt_tokens or 0) > 0
    assert (line.cost_usd or 0) > 0


@EVERY_DOOR
@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "text/plain;charset=UTF-8"], ids=["curl", "fetch"]
)
async def test_json_that_the_client_gives_no_type_is_read(rig: Rig, door: Door, kind: str) -> None:
    answer = await rig.ask(door, kind=kind)

    assert answer.status_code == 200, answer.text


@EVERY_DOOR
async def test_no_key_is_refused_in_the_doors_own_form(rig: Rig, door: Door) -> None:
    before = len(rig.received(door))
    answer = await rig.ask(door, key="")

    assert answer.status_code == 401
    assert "API key" in door.error_of(answer)
    assert len(rig.received(door)) == before


@EVERY_DOOR
async def test_a_model_that_the_key_may_not_use_does_not_exist(rig: Rig, door: Door) -> None:
    before = len(rig.received(door))
    refused = await rig.ask(door, key="walled")
    allowed = await rig.ask(door, "masked", key="walled")

    assert (refused.status_code, allowed.status_code) == (404, 200)
    assert f"model 'plain-{door.name}' not found" in door.error_of(refused)
    assert len(rig.received(door)) == before + 1


@EVERY_DOOR
async def test_a_limit_refuses_and_says_when_to_come_back(rig: Rig, door: Door) -> None:
    first = await rig.ask(door, key="limited")
    second = await rig.ask(door, key="limited")

    assert (first.status_code, second.status_code) == (200, 429)
    assert f"'few-{door.name}' allows 1 request" in door.error_of(second)
    assert int(second.headers["retry-after"]) > 0


@EVERY_DOOR
async def test_a_budget_is_used_up(rig: Rig, door: Door) -> None:
    answers = [await rig.ask(door, key="poor") for _ in range(3)]

    assert answers[0].status_code in (200, 429), answers[0].text
    assert answers[-1].status_code == 429
    assert f"'money-{door.name}'" in door.error_of(answers[-1])


@EVERY_DOOR
async def test_end_users_are_held_apart(rig: Rig, door: Door) -> None:
    anns = [await rig.ask(door, key="people", user="ann") for _ in range(2)]
    ben = await rig.ask(door, key="people", user="ben")

    assert [one.status_code for one in (*anns, ben)] == [200, 429, 200]
    assert f"'each-{door.name}'" in door.error_of(anns[1])


@EVERY_DOOR
async def test_a_guardrail_masks_what_goes_in(rig: Rig, door: Door) -> None:
    answer = await rig.ask(door, "masked", f"my key is {SECRET}")

    assert answer.status_code == 200, answer.text
    sent = rig.received(door)[-1].body.decode()
    assert SECRET not in sent
    assert "my key is" in sent


@EVERY_DOOR
async def test_a_guardrail_blocks_what_goes_in(rig: Rig, door: Door) -> None:
    before = len(rig.received(door))
    answer = await rig.ask(door, "blocked", f"my key is {SECRET}")

    assert answer.status_code == 400
    assert "the guardrail 'blocked' blocked the request" in door.error_of(answer)
    assert len(rig.received(door)) == before


@EVERY_SPEAKER
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_guardrail_masks_what_comes_out(rig: Rig, door: Door, stream: bool) -> None:
    answer = await rig.ask(door, "answers", f"say {REPLY} it is {SECRET}", stream=stream)

    assert SECRET not in answer.text
    assert door.text_of(answer, stream=stream).startswith("it is [")


@EITHER_WAY
async def test_a_payload_has_what_was_sent_and_answered(rig: Rig, door: Door, stream: bool) -> None:
    answer = await rig.ask(door, text=f"say {REPLY} good good good", stream=stream)
    record = await rig.payload_of(answer)

    assert (record["surface"], record["status"]) == (door.surface, 200)
    assert "good good good" in json.dumps(record["request"])
    assert "good good good" in json.dumps(record["response"]) or not door.speaks
    assert "omitted" not in record


@pytest.mark.parametrize(
    ("door", "stream"),
    [(one, stream) for one, stream in STREAMING if one.cached],
    ids=[f"{one.name}-{'stream' if s else 'whole'}" for one, s in STREAMING if one.cached],
)
async def test_an_equal_request_is_answered_from_the_cache(
    rig: Rig, door: Door, stream: bool
) -> None:
    text = f"say {REPLY} once, {'streamed' if stream else 'whole'}"
    first = await rig.ask(door, "cached", text, stream=stream)
    before = len(rig.received(door))
    again = await rig.ask(door, "cached", text, stream=stream)

    texts = [door.text_of(one, stream=stream) for one in (first, again)]
    assert texts[0] == texts[1] != ""
    assert again.headers["x-gateway-cache"] == "hit"
    assert len(rig.received(door)) == before


@EVERY_DOOR
async def test_explain_reads_its_requests(door: Door) -> None:
    model = f"plain-{door.name}"
    body = json.dumps(door.body(model, "hi")).encode()

    found = parse_any(body, path=door.at(model))

    assert (found.surface, found.request.model) == (door.surface, model)


@EVERY_DOOR
async def test_the_description_has_the_door(rig: Rig, door: Door) -> None:
    paths = (await rig.client.get("/openapi.json")).json()["paths"]

    described = paths[door.path]["post"]
    assert described["summary"]
    assert described["requestBody"]["content"]["application/json"]
    assert {"200", "401", "429"} <= described["responses"].keys()
