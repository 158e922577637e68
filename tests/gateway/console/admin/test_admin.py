"""/admin requires the operator key, does not exist without one, and is in the API description."""

from pathlib import Path

import httpx
import pytest

from tests.gateway.config.configs import GOOD, faults
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

KEY = "key-of-the-operator"
CLIENTS = "mode: keys, keys: [{name: a, key: key-of-a-client}]"


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def get(config: str, path: str, headers: dict[str, str], run_dir: Path) -> httpx.Response:
    async with provider() as remote, serving(one_model(remote.base_url, config), run_dir) as up:
        async with httpx.AsyncClient(base_url=up.url, timeout=60) as client:
            return await client.get(path, headers=headers)


async def test_without_an_admin_key_there_is_no_admin(tmp_path: Path) -> None:
    answer = await get("", "/admin/engines", bearer("guess"), tmp_path)

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "unknown_url"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("key-of-a-client"),
        bearer(KEY[:-1]),
        bearer(KEY + "x"),
        {"x-api-key": KEY},
    ],
    ids=["none", "a client's", "too short", "too long", "another header"],
)
async def test_only_the_operator_gets_in(headers: dict[str, str], tmp_path: Path) -> None:
    auth = f"auth: {{admin_key: {KEY}, {CLIENTS}}}"

    answer = await get(auth, "/admin/engines", headers, tmp_path)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


async def test_the_operator_sees_that_there_is_no_engine(tmp_path: Path) -> None:
    answer = await get(f"auth: {{admin_key: {KEY}}}", "/admin/engines", bearer(KEY), tmp_path)

    assert answer.status_code == 200
    assert answer.json() == {"engines": []}


async def test_the_admin_key_is_not_a_client_key(tmp_path: Path) -> None:
    auth = f"auth: {{admin_key: {KEY}, {CLIENTS}}}"

    answer = await get(auth, "/v1/models", bearer(KEY), tmp_path)

    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("more", "nobody", "client", "scraper"),
    [
        ("", 401, 401, 401),
        (", metrics_key: key-of-prometheus", 401, 401, 200),
        (", metrics: client", 401, 200, 401),
        (", metrics: client, metrics_key: key-of-prometheus", 401, 200, 200),
        (", metrics: open", 200, 200, 200),
    ],
)
async def test_metrics_show_all_traffic_only_to_those_the_operator_permits(
    more: str, nobody: int, client: int, scraper: int, tmp_path: Path
) -> None:
    config = f"auth: {{admin_key: {KEY}, {CLIENTS}{more}}}"
    keys = {"": nobody, "key-of-a-client": client, "key-of-prometheus": scraper, KEY: 200}
    async with provider() as remote, serving(one_model(remote.base_url, config), tmp_path) as up:
        async with httpx.AsyncClient(base_url=up.url, timeout=60) as ask:
            found = {
                key: (await ask.get("/metrics", headers=bearer(key) if key else {})).status_code
                for key in keys
            }

    assert found == keys


def test_the_key_for_metrics_must_differ_from_all_others() -> None:
    clients = "mode: keys, keys: [{name: a, key: same-key}], admin_key: key-of-admin"

    assert faults(f"{GOOD}auth: {{metrics_key: same-key, {clients}}}\n") == [
        "auth.metrics_key: is the same as auth.keys[0]; no client may have the key for /metrics"
    ]
    assert faults(f"{GOOD}auth: {{metrics_key: key-of-admin, {clients}}}\n") == [
        "auth.metrics_key: is the same as auth.admin_key; give the scraper its own key"
    ]


async def test_admin_is_documented_with_its_key_and_its_answer(tmp_path: Path) -> None:
    document = (await get("", "/openapi.json", {}, tmp_path)).json()

    route = document["paths"]["/admin/engines"]["get"]
    kinds = [kind for one in route["security"] for kind in one]
    schemes = [document["components"]["securitySchemes"][kind] for kind in kinds]
    schema = route["responses"]["200"]["content"]["application/json"]["schema"]
    assert [(one["type"], one.get("scheme") or one["in"]) for one in schemes] == [
        ("http", "bearer"),
        ("apiKey", "cookie"),
    ]
    assert schema["$ref"].rpartition("/")[2] in document["components"]["schemas"]


def test_the_operators_key_must_differ_from_all_others_and_fit_a_header() -> None:
    clients = "mode: keys, keys: [{name: a, key: same-key}]"

    assert faults(f"{GOOD}auth: {{admin_key: same-key, {clients}}}\n") == [
        "auth.admin_key: is the same as auth.keys[0]; no client may have the operator's key"
    ]
    assert faults(f"{GOOD}auth: {{admin_key: ' a'}}\n") == [
        "auth.admin_key: starts or ends with a space, or contains a line break or another "
        "character that headers cannot carry"
    ]


async def test_a_misspelt_query_parameter_is_refused_with_those_that_are_documented(
    tmp_path: Path,
) -> None:
    config = f"auth: {{admin_key: {KEY}}}"
    async with provider() as remote, serving(one_model(remote.base_url, config), tmp_path) as up:
        async with httpx.AsyncClient(base_url=up.url, headers=bearer(KEY), timeout=60) as ask:
            paths = (await ask.get("/openapi.json")).json()["paths"]
            documented = {
                (method, path): [
                    one["name"] for one in route.get("parameters", ()) if one["in"] == "query"
                ]
                for path, routes in paths.items()
                if path.startswith("/admin/")
                for method, route in routes.items()
            }
            answers = {
                (method, path): await ask.request(method, path, params={"teams": "x"})
                for method, path in documented
            }

    assert len(answers) > 20
    for route, answer in answers.items():
        error = answer.json()["error"]
        names = documented[route]
        remedy = f"known: {', '.join(names)}" if names else "this route has none"
        assert (answer.status_code, error["param"]) == (400, "teams"), route
        assert error["message"] == f"teams: unknown query parameter; {remedy}", route
