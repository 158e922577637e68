"""`/admin/keys` on the wire."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from jsonschema import Draft202012Validator

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.governance.issued_keys.desk import KeyDesk
from strowger_gateway.gateway.governance.issued_keys.process_side import KeysSide
from strowger_gateway.gateway.governance.issued_keys.secret import digest_of
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret
from tests.gateway.serving import Serving, one_model, serving

pytestmark = pytest.mark.anyio

CONFIG = """
auth:
  mode: keys
  admin_key: key-of-the-operator
  keys: [{name: of-the-file, key: key-of-the-file, team: red}]
teams: [{name: red, models: [chat]}]
"""
UNUSED = "http://127.0.0.1:9/v1"


@asynccontextmanager
async def operated(folder: Path) -> AsyncGenerator[tuple[Serving, httpx.AsyncClient], None]:
    """A gateway whose desk applies each change at once, and the operator's client."""
    store = open_store(Secret(f"sqlite:///{folder / 'keys.db'}"))

    def equip(gateway: Gateway) -> None:
        def changed() -> None:
            gateway.runtime.access.issued.push(store.issued_keys.current())

        gateway.side(KeysSide).desk = KeyDesk(
            store.issued_keys, lambda: gateway.runtime.config, changed
        )

    headers = {"authorization": "Bearer key-of-the-operator"}
    async with serving(one_model(UNUSED, CONFIG), folder, equip=equip) as gateway:
        async with httpx.AsyncClient(
            base_url=f"{gateway.url}/admin", headers=headers, timeout=60
        ) as client:
            yield gateway, client
        desk = gateway.state.side(KeysSide).desk
        assert desk is not None
        desk.close()
    store.close()


async def test_a_new_key_works_once_its_answer_has_arrived(tmp_path: Path) -> None:
    """The leader reads the list a little later, and sends it to the process."""
    store = open_store(Secret(f"sqlite:///{tmp_path / 'keys.db'}"))

    def equip(gateway: Gateway) -> None:
        def push() -> None:
            found = store.issued_keys.current()
            gateway.runtime.access.issued.push(found)
            desk.in_effect(found.version)

        def changed() -> None:
            asyncio.get_running_loop().call_later(0.1, push)

        desk = gateway.side(KeysSide).desk = KeyDesk(
            store.issued_keys, lambda: gateway.runtime.config, changed, follows=True
        )

    headers = {"authorization": "Bearer key-of-the-operator"}
    async with (
        serving(one_model(UNUSED, CONFIG), tmp_path, equip=equip) as gateway,
        httpx.AsyncClient(base_url=f"{gateway.url}/admin", headers=headers, timeout=60) as client,
    ):
        made = await client.post("/keys", json={"name": "ci"})
        assert await opens(gateway, made.json()["secret"])
        desk = gateway.state.side(KeysSide).desk
        assert desk is not None
        desk.close()
    store.close()


async def test_null_takes_limits_and_budgets_away(tmp_path: Path) -> None:
    limits = [{"requests": 5, "per": "minute"}]
    async with operated(tmp_path) as (_, client):
        await client.post("/keys", json={"name": "ci", "limits": limits})
        had = (await client.get("/keys/ci")).json()
        changed = await client.patch("/keys/ci", json={"budgets": None, "limits": None})
        has = (await client.get("/keys/ci")).json()

    assert changed.status_code == 200, changed.text
    assert [len(one["key"]["budgets"]) + len(one["key"]["limits"]) for one in (had, has)] == [1, 0]


async def opens(gateway: Serving, secret: object) -> bool:
    headers = {"authorization": f"Bearer {secret}"}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as client:
        return (await client.get("/v1/models")).status_code == 200


async def test_a_key_is_issued_shown_without_its_secret_and_listed_with_those_of_the_file(
    tmp_path: Path,
) -> None:
    body = {
        "name": "ci",
        "team": "red",
        "user": "jane",
        "models": ["chat"],
        "max_priority": 2,
        "tags": ["nightly"],
        "expires": "2999-01-01T00:00:00+01:00",
        "not_before": "2020-01-01T00:00:00Z",
        "allowed_networks": ["127.0.0.0/8", "::1"],
    }
    async with operated(tmp_path) as (gateway, client):
        made = await client.post("/keys", json=body)
        shown = await client.get("/keys/ci")
        listed = await client.get("/keys")
        worked = await opens(gateway, made.json()["secret"])

    secret = str(made.json()["secret"])
    key = shown.json()["key"]
    assert (made.status_code, made.headers["cache-control"]) == (200, "no-store")
    assert made.json()["key"] == key
    assert key["expires"] == "2998-12-31T23:00:00Z"
    assert key["allowed_networks"] == ["127.0.0.0/8", "::1/128"]
    assert (key["state"], key["created_by"]) == ("active", "admin key from 127.0.0.1")
    assert [one["last4"] for one in key["secrets"]] == [secret[-4:]]
    assert {name: key[name] for name in ("team", "user", "tags")} == {
        "team": "red",
        "user": "jane",
        "tags": ["nightly"],
    }
    names = [(one["name"], one["source"]) for one in listed.json()["keys"]]
    assert names == [("of-the-file", "file"), ("ci", "issued")]
    assert worked
    for answer in (shown, listed):
        assert secret not in answer.text
        assert digest_of(secret) not in answer.text


async def test_a_rotated_key_has_two_secrets_until_the_overlap_ends(tmp_path: Path) -> None:
    async with operated(tmp_path) as (gateway, client):
        first = (await client.post("/keys", json={"name": "ci"})).json()["secret"]
        second = (await client.post("/keys/ci/rotate", json={"overlap_s": 3600})).json()["secret"]
        overlapping = [await opens(gateway, one) for one in (first, second)]
        shown = (await client.get("/keys/ci")).json()["key"]["secrets"]
        third = (await client.post("/keys/ci/rotate", json={"overlap_s": 60})).json()["secret"]
        newest = [await opens(gateway, one) for one in (first, second, third)]
        fourth = (await client.post("/keys/ci/rotate")).json()["secret"]
        last = [await opens(gateway, one) for one in (second, third, fourth)]
        longest = await client.post("/keys/ci/rotate", json={"overlap_s": 1e9})

    assert overlapping == [True, True]
    assert [one["last4"] for one in shown] == [second[-4:], first[-4:]]
    assert [one["valid_until"] is None for one in shown] == [True, False]
    assert newest == [False, True, True]
    assert last == [False, False, True]
    assert (longest.status_code, longest.json()["error"]["param"]) == (400, "overlap_s")


async def test_a_key_is_changed_field_by_field_and_revoked_for_ever(tmp_path: Path) -> None:
    async with operated(tmp_path) as (gateway, client):
        secret = (await client.post("/keys", json={"name": "ci", "tags": ["a"]})).json()["secret"]
        disabled = await client.patch("/keys/ci", json={"disabled": True})
        refused = await opens(gateway, secret)
        later = {"disabled": False, "expires": "2999-01-01T00:00:00Z", "user": "jane"}
        await client.patch("/keys/ci", json=later)
        cleared = await client.patch("/keys/ci", json={"expires": None})
        accepted = await opens(gateway, secret)
        revoked = [await client.delete("/keys/ci") for _ in range(2)]
        after = await opens(gateway, secret)
        final = [
            await client.patch("/keys/ci", json={"disabled": False}),
            await client.post("/keys/ci/rotate"),
            await client.post("/keys/ci/rotate", json={"overlap_s": 60}),
            await client.post("/keys", json={"name": "ci"}),
        ]

    assert (disabled.json()["state"], refused) == ("disabled", False)
    assert (cleared.json()["expires"], cleared.json()["user"], cleared.json()["tags"]) == (
        None,
        "jane",
        ["a"],
    )
    assert accepted
    assert [one.json()["state"] for one in revoked] == ["revoked", "revoked"]
    assert revoked[0].json()["revoked"] == revoked[1].json()["revoked"]
    assert not after
    assert [(one.status_code, one.json()["error"]["code"]) for one in final] == [
        (409, "key_revoked"),
        (409, "key_revoked"),
        (409, "key_revoked"),
        (409, "key_exists"),
    ]


FAULTY: list[tuple[dict[str, object], str]] = [
    ({"name": ""}, "name: expected 1 to 128"),
    ({"name": "a/b"}, "name: expected 1 to 128"),
    ({"name": "x", "team": "gren"}, "team: no team is named 'gren'"),
    ({"name": "x", "models": ["chatt"]}, "models: no model is named 'chatt'; did you mean"),
    ({"name": "x", "models": ["c*t"]}, "models: 'c*t' has a * before its end"),
    ({"name": "x", "models": []}, "$.models"),
    ({"name": "x", "max_priority": 6}, "$.max_priority"),
    ({"name": "x", "expires": "2020-01-01T00:00:00Z"}, "expires: is in the past"),
    ({"name": "x", "expires": "2999-01-01T00:00:00"}, "$.expires"),
    ({"name": "x", "expires": "2999-01-01T00:00:00Z", "not_before": "2999-01-02T00:00:00Z"},
     "expires: is not after not_before"),
    ({"name": "x", "expires": "9999-12-31T23:59:59-01:00"},
     "expires: expected a time from the year 1 to 9999 in UTC"),
    ({"name": "x", "not_before": "0001-01-01T00:00:00+01:00"},
     "not_before: expected a time from the year 1 to 9999 in UTC"),
    ({"name": "x", "user": "a\0"}, "$.user"),
    ({"name": "x", "tags": ["a\0"]}, "$.tags[0]"),
    ({"name": "x", "allowed_networks": ["10.0.0.1/8"]}, "write a network as 10.1.0.0/16"),
    ({"name": "x", "secret": "mine"}, "secret"),
    ({"name": "x", "limits": [{}]}, "limits[0]: limits nothing; set requests, tokens"),
    ({"name": "x", "limits": [{"requests": 0}]}, "$.limits[0].requests"),
    ({"name": "x", "limits": [{"requests": 10**12 + 1}]}, "$.limits[0].requests"),
    ({"name": "x", "limits": [{"concurrent": 2**64}]}, "$.limits[0].concurrent"),
    ({"name": "x", "limits": [{"requests": 1, "wait_s": 1e308}]}, "$.limits[0].wait_s"),
    ({"name": "x", "limits": [{"requests": 1, "models": ["chatt"]}]},
     'limits[0].models[0]: no model is named "chatt"; did you mean'),
    ({"name": "x", "limits": [{"requests": 1}, {"tokens": 1}]},
     'limits[1].name: "minute" is already the name of limits[0]'),
    ({"name": "x", "limits": [{"requests": 1}] * 21}, "length <= 20"),
    ({"name": "x", "budgets": [{"usd": 1.0}]},
     "budgets[0].usd: would refuse every request, because the configuration has no prices"),
    ({"name": "x", "budgets": [{"tokens": 10**23}]}, "$.budgets[0].tokens"),
    ({"name": "x", "budgets": [{"usd": 1.0, "unknown_price": {"count_usd": 1e300}}]},
     "$.budgets[0].unknown_price.count_usd"),
    ({"name": "x", "budgets": [{"tokens": 1, "time_zone": "Mars"}]}, "budgets[0].time_zone"),
    ({"name": "x", "budgets": [{"tokens": 1, "on_exceeded": {"use_model": "y"}}]},
     "budgets[0].on_exceeded.use_model: no model is named"),
]  # fmt: skip


@pytest.fixture(scope="module")
async def refusing(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[httpx.AsyncClient]:
    """The operator's client of a gateway that issues no key."""
    async with operated(tmp_path_factory.mktemp("refusing")) as (_, client):
        yield client


@pytest.mark.parametrize(("body", "told"), FAULTY)
async def test_a_faulty_key_is_refused_with_its_field(
    body: dict[str, object], told: str, refusing: httpx.AsyncClient
) -> None:
    answer = await refusing.post("/keys", json=body)
    listed = (await refusing.get("/keys")).json()["keys"]

    assert answer.status_code == 400
    assert told in answer.json()["error"]["message"]
    assert len(listed) == 1


async def test_a_body_that_is_too_large_is_refused_with_the_largest_size(
    refusing: httpx.AsyncClient,
) -> None:
    answer = await refusing.post("/keys", content=b" " * 262_145)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (413, "request_too_large")
    assert error["message"] == "the body is larger than the maximum of 262144 bytes"


async def test_keys_of_the_file_cannot_be_changed_and_unknown_ones_are_404(tmp_path: Path) -> None:
    calls: list[tuple[str, str, Callable[[str], dict[str, object] | None]]] = [
        ("PATCH", "", lambda _: {"disabled": True}),
        ("DELETE", "", lambda _: None),
        ("POST", "/rotate", lambda _: None),
    ]
    found: list[tuple[int, str]] = []
    async with operated(tmp_path) as (_, client):
        for name in ("of-the-file", "unknown"):
            for method, more, body in calls:
                answer = await client.request(method, f"/keys/{name}{more}", json=body(name))
                found += [(answer.status_code, answer.json()["error"]["code"])]
        taken = await client.post("/keys", json={"name": "of-the-file"})
        client.headers["authorization"] = "Bearer key-of-the-file"
        not_operator = await client.get("/keys")

    assert found == [(409, "key_in_file")] * 3 + [(404, "key_not_found")] * 3
    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "key_in_file")
    assert not_operator.status_code == 401


async def test_the_description_of_the_api_has_what_is_sent_and_answered(tmp_path: Path) -> None:
    async with operated(tmp_path) as (gateway, client):
        made = await client.post("/keys", json={"name": "ci"})
        shown = await client.get("/keys/ci")
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as public:
            document = (await public.get("/openapi.json")).json()

    paths = document["paths"]
    for path, method, answer in (
        ("/admin/keys", "post", made),
        ("/admin/keys/{name}", "get", shown),
    ):
        content = paths[path][method]["responses"]["200"]["content"]["application/json"]
        whole = {**content["schema"], "components": document["components"]}
        Draft202012Validator(whole).validate(answer.json())  # pyright: ignore[reportUnknownMemberType]  # its stubs
    changes = ("post", "/admin/keys"), ("patch", "/admin/keys/{name}"), ("get", "/admin/keys")
    described = [sorted(paths[path][method]["responses"]) for method, path in changes]
    assert ["409" in one for one in described] == [True, True, False]
    body = paths["/admin/keys"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "NewKeyBody" in str(body)
