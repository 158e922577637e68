"""Issued keys on the wire: their conditions, in the error format of each API."""

import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.governance.issued_keys.secret import digest_of, new_secret
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey, KeyList, KeySecret
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

CONFIG = """
  - {name: spare, aliases: [extra], backends: [{provider: remote, model: m-2}]}
  - {name: other, backends: [{provider: remote, model: m-3}]}
teams:
  - {name: red, models: [chat, spare]}
  - {name: blue}
auth:
  mode: keys
  metrics: client
  keys:
    - {name: of-the-file, key: key-of-the-file, models: [spare, other], team: red}
    - {name: hashed, key: "sha256:DIGEST", team: blue}
"""
HASHED_KEY = "a-key-that-is-not-in-the-file"
TEXT = CONFIG.replace("DIGEST", digest_of(HASHED_KEY))
SECRET, OLD = new_secret(), new_secret()
NOW = 1_800_000_000.0
KEY = IssuedKey(
    name="ci",
    secrets=(
        KeySecret(digest=digest_of(SECRET), last4=SECRET[-4:], created=1.0),
        KeySecret(digest=digest_of(OLD), last4=OLD[-4:], created=0.0, until=NOW + 60),
    ),
)
HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
CHAT = "/v1/chat/completions"


class Clock:
    """A wall clock that a test sets."""

    def __init__(self) -> None:
        self.at = NOW

    def __call__(self) -> float:
        return self.at


def issue(*keys: IssuedKey, clock: Callable[[], float] = time.time) -> Callable[[Gateway], None]:
    """Give a gateway these keys, as its leader does."""

    def equip(gateway: Gateway) -> None:
        gateway.runtime.access.issued.clock = clock
        gateway.runtime.access.issued.push(KeyList(version=1, keys=keys))

    return equip


async def send(
    gateway: Serving, key: str = SECRET, path: str = CHAT, **more: object
) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}", "anthropic-version": "2023-06-01"}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as client:
        return await client.post(path, json={**HELLO, **more})


async def test_an_issued_key_opens_its_models_under_its_name(tmp_path: Path) -> None:
    key = replace(KEY, models=("chat",), max_priority=3)
    async with (
        provider() as a,
        serving(one_model(a.base_url, TEXT), tmp_path, equip=issue(key, clock=Clock())) as gateway,
    ):
        answers = [
            await send(gateway),
            await send(gateway, OLD),
            await send(gateway, model="spare"),
        ]
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            bearer = {"authorization": f"Bearer {SECRET}"}
            models = (await client.get("/v1/models", headers=bearer)).json()["data"]
            metrics = await client.get("/metrics", headers=bearer)
        lines = gateway.access_lines()

    assert [answer.status_code for answer in answers] == [200, 200, 404]
    assert [model["id"] for model in models] == ["chat"]
    assert metrics.status_code == 200
    assert {line.key for line in lines if line.key} == {"ci"}
    assert SECRET not in gateway.log.getvalue().decode()


CONDITIONS = [
    (replace(KEY, expires=NOW - 1), 401, "api_key_expired", "expired at 2027-01-15T07:59:59Z"),
    (replace(KEY, not_before=NOW + 1), 401, "api_key_not_yet_valid", "is not valid before"),
    (replace(KEY, disabled=True), 401, "api_key_disabled", "is disabled"),
    (replace(KEY, allowed_networks=("10.0.0.0/8",)), 403, "address_not_allowed", "this network"),
    (replace(KEY, team="gone"), 403, "team_not_found", "the team 'gone'"),
]


@pytest.mark.parametrize(("key", "status", "code", "told"), CONDITIONS)
async def test_a_condition_that_is_not_met_is_named_in_each_apis_format(
    key: IssuedKey, status: int, code: str, told: str, tmp_path: Path
) -> None:
    async with (
        provider() as a,
        serving(one_model(a.base_url, TEXT), tmp_path, equip=issue(key, clock=Clock())) as gateway,
    ):
        chat = await send(gateway)
        messages = await send(gateway, path="/v1/messages", max_tokens=5)
        responses = await send(gateway, path="/v1/responses", input="hi")
        databricks = await send(gateway, path="/serving-endpoints/chat/invocations")
        triton = await send(gateway, path="/v2/models/chat/generate")
        mindie = await send(gateway, path="/infer_token")
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            bearer = {"authorization": f"Bearer {SECRET}"}
            models = await client.get("/v1/models", headers=bearer)

    answers = [chat, messages, responses, databricks, triton, mindie, models]
    assert [answer.status_code for answer in answers] == [status] * len(answers)
    assert all(told in answer.text for answer in answers)
    assert chat.json()["error"]["code"] == code
    assert databricks.json()["error_code"]
    kind = {401: "authentication_error", 403: "permission_error"}[status]
    assert messages.json()["error"]["type"] == kind
    assert a.requests == []
    assert "127.0.0.1" not in chat.text


async def test_a_key_is_bound_to_networks_by_the_address_that_trusted_proxies_report(
    tmp_path: Path,
) -> None:
    proxies = "server: {trusted_proxies: [127.0.0.0/8]}\nlogging: {client_address: false}"
    key = replace(KEY, allowed_networks=("10.1.0.0/16", "fd00::/8", "::1/128"))
    statuses: list[int] = []
    async with (
        provider() as a,
        serving(
            one_model(a.base_url, TEXT + proxies), tmp_path, equip=issue(key, clock=Clock())
        ) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        for address in ("10.1.2.3", "10.2.0.1", "fd00::7", "::ffff:10.1.0.9", "nonsense"):
            headers = {"authorization": f"Bearer {SECRET}", "x-forwarded-for": address}
            statuses += [(await client.post(CHAT, json=HELLO, headers=headers)).status_code]

    assert statuses == [200, 403, 200, 200, 403]


async def test_a_key_that_was_in_use_is_refused_when_it_expires(tmp_path: Path) -> None:
    clock = Clock()
    key = replace(KEY, expires=NOW + 100)
    async with (
        provider() as a,
        serving(one_model(a.base_url, TEXT), tmp_path, equip=issue(key, clock=clock)) as gateway,
    ):
        issued = gateway.state.runtime.access.issued
        statuses = [(await send(gateway, one)).status_code for one in (SECRET, OLD)]
        for at in (NOW + 59, NOW + 60.5, NOW + 100.5, NOW):
            clock.at = at
            issued.tick()
            statuses += [(await send(gateway, one)).status_code for one in (SECRET, OLD)]

    assert statuses == [200, 200, 200, 200, 200, 401, 401, 401, 200, 200]


async def test_a_new_list_applies_to_the_next_request(tmp_path: Path) -> None:
    async with (
        provider() as a,
        serving(one_model(a.base_url, TEXT), tmp_path, equip=issue(clock=Clock())) as gateway,
    ):
        issued = gateway.state.runtime.access.issued
        statuses = [(await send(gateway)).status_code]
        for version, keys in ((2, (KEY,)), (3, (replace(KEY, disabled=True),)), (4, ())):
            issued.push(KeyList(version=version, keys=keys))
            statuses += [(await send(gateway)).status_code]

    assert statuses == [401, 200, 401, 401]


async def test_a_damaged_key_is_told_apart_from_a_wrong_one(tmp_path: Path) -> None:
    async with (
        provider() as a,
        serving(one_model(a.base_url, TEXT), tmp_path, equip=issue(KEY)) as gateway,
    ):
        damaged = await send(gateway, SECRET[:-1])
        wrong = await send(gateway, new_secret())

    assert (damaged.status_code, wrong.status_code) == (401, 401)
    assert "damaged" in damaged.json()["error"]["message"]
    assert wrong.json()["error"]["message"] == "the API key is not valid"


async def test_a_key_of_the_file_wins_over_an_issued_one_of_its_name(tmp_path: Path) -> None:
    key = replace(KEY, name="of-the-file")
    async with (
        provider() as a,
        serving(one_model(a.base_url, TEXT), tmp_path, equip=issue(key, clock=Clock())) as gateway,
    ):
        issued = await send(gateway)
        of_file = await send(gateway, "key-of-the-file", model="spare")

    assert (issued.status_code, of_file.status_code) == (401, 200)


async def test_a_key_of_the_file_may_be_given_as_its_digest(tmp_path: Path) -> None:
    async with provider() as a, serving(one_model(a.base_url, TEXT), tmp_path) as gateway:
        plain = await send(gateway, HASHED_KEY)
        digest = await send(gateway, digest_of(HASHED_KEY))
        whole = await send(gateway, f"sha256:{digest_of(HASHED_KEY)}")
        lines = gateway.access_lines()

    assert [one.status_code for one in (plain, digest, whole)] == [200, 401, 401]
    assert lines[0].key == "hashed"


@pytest.mark.parametrize(
    ("models", "allowed"),
    [
        (("*",), {"chat", "spare", "extra"}),
        (("spare", "other"), {"spare", "extra"}),
        (("extra",), {"extra"}),
        (("s*",), {"spare", "extra"}),
        (("other",), set[str]()),
    ],
)
async def test_a_key_may_use_what_both_it_and_its_team_may(
    models: tuple[str, ...], allowed: set[str], tmp_path: Path
) -> None:
    key = replace(KEY, models=models, team="red")
    names = ("chat", "spare", "extra", "other")
    async with (
        provider() as a,
        serving(one_model(a.base_url, TEXT), tmp_path, equip=issue(key, clock=Clock())) as gateway,
    ):
        found = {name for name in names if (await send(gateway, model=name)).status_code == 200}
        of_file = {
            name
            for name in names
            if (await send(gateway, "key-of-the-file", model=name)).status_code == 200
        }

    assert found == allowed
    assert of_file == {"spare", "extra"}


async def test_a_use_is_noted_once_and_again_after_a_while(tmp_path: Path) -> None:
    clock = Clock()
    async with (
        provider() as a,
        serving(one_model(a.base_url, TEXT), tmp_path, equip=issue(KEY, clock=clock)) as gateway,
    ):
        issued = gateway.state.runtime.access.issued
        issued.tick()
        await send(gateway)
        first = issued.take_used()
        clock.at += 5
        issued.tick()
        await send(gateway)
        soon = issued.take_used()
        clock.at += 15
        due = issued.tick()
        await send(gateway)
        later = issued.take_used()

    assert (first, soon, due, later) == ({"ci": NOW}, {}, True, {"ci": NOW + 20})
