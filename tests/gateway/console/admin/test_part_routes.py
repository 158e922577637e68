"""Routes of parts under /admin follow the rules of all others; a part only describes them."""

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.observability.recording.process_side import AuditSide
from tests.gateway.console.admin.visits import VisitPart
from tests.gateway.serving import one_model, serving

pytestmark = pytest.mark.anyio

AUTH = "auth: {mode: keys, admin_key: key-of-the-operator, keys: [{name: ada, key: key-of-ada-1}]}"
OPERATOR = {"authorization": "Bearer key-of-the-operator"}


class Events:
    """An audit log that keeps its events."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


class Up(Struct, frozen=True, kw_only=True, eq=False):
    client: httpx.AsyncClient
    audit: Events


@pytest.fixture
async def up(tmp_path: Path) -> AsyncGenerator[Up]:
    audit = Events()

    def equip(state: Gateway) -> None:
        state.side(AuditSide).log = audit

    text = one_model("http://127.0.0.1:9/v1", AUTH)
    async with (
        serving(text, tmp_path, equip=equip, parts=(*PARTS, VisitPart())) as one,
        httpx.AsyncClient(base_url=one.url, timeout=60) as client,
    ):
        yield Up(client=client, audit=audit)


async def test_it_answers_with_what_the_part_returns(up: Up) -> None:
    answer = await up.client.get("/admin/visits?limit=1", headers=OPERATOR)

    assert answer.status_code == 200
    assert answer.json() == {"counts": {"ada": 3}, "model": "chat"}
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-request-id"]
    assert up.audit.events == []


async def test_head_answers_as_get_without_a_body(up: Up) -> None:
    answer = await up.client.head("/admin/visits", headers=OPERATOR)

    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize(
    ("query", "param", "message"),
    [
        ("limit=no", "limit", "limit: Expected `int`, got `str`"),
        ("limit=0", "limit", "limit: Expected `int` >= 1"),
        ("limt=3", "limt", "limt: unknown query parameter; known: name, limit"),
        ("name=" + 21 * "x", "name", "name: Expected `str` of length <= 20"),
    ],
)
async def test_parameters_are_checked(up: Up, query: str, param: str, message: str) -> None:
    answer = await up.client.get(f"/admin/visits?{query}", headers=OPERATOR)

    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param)
    assert error["message"].startswith(message)


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer key-of-ada-1"}])
async def test_it_is_closed_to_everyone_else(up: Up, headers: dict[str, str]) -> None:
    answers = [
        await up.client.get("/admin/visits", headers=headers),
        await up.client.post("/admin/visits/forget", json={"name": "ada"}, headers=headers),
    ]

    assert [answer.status_code for answer in answers] == [401, 401]


async def test_a_change_is_in_the_audit_log_with_what_the_part_says_of_it(up: Up) -> None:
    answer = await up.client.post("/admin/visits/forget", json={"name": "ada"}, headers=OPERATOR)

    assert answer.json() == {"counts": {"ben": 1}, "model": "admin key"}
    (event,) = up.audit.events
    assert (event.action, event.outcome, event.actor_kind) == ("admin.change", "done", "admin_key")
    assert (event.target, event.facts) == ("/admin/visits/forget", {"name": "ada"})


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ('{"name": 5}', 400, "cannot read the body: Expected `str`, got `int` - at `$.name`"),
        ('{"names": "ada"}', 400, "cannot read the body: Object contains unknown field `names`"),
        ("", 400, "cannot read the body: Object missing required field `name`"),
        ('{"name": "nobody"}', 503, "nobody is never forgotten"),
    ],
)
async def test_what_is_refused_changes_nothing_and_is_in_the_audit_log(
    up: Up, body: str, status: int, message: str
) -> None:
    answer = await up.client.post("/admin/visits/forget", content=body, headers=OPERATOR)

    assert (answer.status_code, answer.json()["error"]["message"]) == (status, message)
    assert answer.headers.get("retry-after") == (None if status == 400 else "7")
    (event,) = up.audit.events
    assert (event.action, event.target) == ("admin.access", "POST /admin/visits/forget")


async def test_a_browser_changes_something_from_our_own_pages_only(up: Up) -> None:
    """It sends the session's cookie by itself."""
    form = {"key": "key-of-the-operator"}
    signed_in = await up.client.post(
        "/admin/sign-in", data=form, headers={"sec-fetch-site": "same-origin"}
    )
    assert signed_in.status_code == 303, signed_in.text

    answers = [
        await up.client.post(
            "/admin/visits/forget", json={"name": "ada"}, headers={"sec-fetch-site": site}
        )
        for site in ("cross-site", "same-origin")
    ]

    assert [answer.status_code for answer in answers] == [403, 200]


async def test_it_is_in_the_api_description(up: Up) -> None:
    paths = (await up.client.get("/openapi.json")).json()["paths"]

    read, forget = paths["/admin/visits"]["get"], paths["/admin/visits/forget"]["post"]
    name, limit = read["parameters"]
    assert (read["summary"], forget["summary"]) == ("Visits by name", "Forget the visits of a name")
    assert (name["name"], name["description"], name["required"]) == (
        "name",
        "only of this visitor",
        False,
    )
    assert (limit["name"], limit["schema"]["minimum"], limit["schema"]["maximum"]) == (
        "limit",
        1,
        100,
    )
    assert forget["requestBody"]["content"]["application/json"]["schema"]["required"] == ["name"]
    answer = read["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer["$ref"].endswith("Visits")
    by_hand = paths["/admin/limits"]["get"], paths["/admin/keys/{name}/rotate"]["post"]
    assert [read["security"], forget["security"]] == [one["security"] for one in by_hand]
    ids = [one["operationId"] for path in paths.values() for one in path.values()]
    assert len({*ids}) == len(ids)


async def test_a_route_of_what_the_configuration_does_not_use_is_not_found(up: Up) -> None:
    answer = await up.client.get("/admin/visits/elsewhere", headers=OPERATOR)

    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == (
        "the configuration does not use what /admin/visits/elsewhere is about"
    )


async def test_a_gateway_without_the_part_has_no_such_route(tmp_path: Path) -> None:
    async with (
        serving(one_model("http://127.0.0.1:9/v1", AUTH), tmp_path) as one,
        httpx.AsyncClient(base_url=one.url, timeout=60) as client,
    ):
        answer = await client.get("/admin/visits", headers=OPERATOR)

    assert answer.status_code == 404
