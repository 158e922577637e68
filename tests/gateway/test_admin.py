"""/admin: behind the operator's own key, off without one, and described like everything else."""

from pathlib import Path

import httpx
import pytest

from tests.gateway.config.configs import GOOD, faults
from tests.gateway.serving import one_model, serving
from tests.provider import provider

pytestmark = pytest.mark.anyio

KEY = "key-of-the-operator"
CLIENTS = "mode: keys, keys: [{name: a, key: key-of-a-client}]"


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def get(config: str, path: str, headers: dict[str, str], run_dir: Path) -> httpx.Response:
    async with provider() as remote, serving(one_model(remote.base_url, config), run_dir) as up:
        async with httpx.AsyncClient(base_url=up.url) as client:
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
async def test_nobody_but_the_operator_gets_in(headers: dict[str, str], tmp_path: Path) -> None:
    auth = f"auth: {{admin_key: {KEY}, {CLIENTS}}}"

    answer = await get(auth, "/admin/engines", headers, tmp_path)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


async def test_the_operator_sees_that_there_is_no_engine(tmp_path: Path) -> None:
    answer = await get(f"auth: {{admin_key: {KEY}}}", "/admin/engines", bearer(KEY), tmp_path)

    assert answer.status_code == 200
    assert answer.json() == {"engines": []}


async def test_the_admin_key_is_no_clients_key(tmp_path: Path) -> None:
    auth = f"auth: {{admin_key: {KEY}, {CLIENTS}}}"

    answer = await get(auth, "/v1/models", bearer(KEY), tmp_path)

    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), (bearer("key-of-a-client"), 200), (bearer(KEY), 200)],
    ids=["nobody", "a client", "the operator"],
)
async def test_where_keys_are_asked_for_metrics_need_one_too(
    headers: dict[str, str], status: int, tmp_path: Path
) -> None:
    answer = await get(f"auth: {{admin_key: {KEY}, {CLIENTS}}}", "/metrics", headers, tmp_path)

    assert answer.status_code == status


async def test_admin_is_documented_with_its_key_and_its_answer(tmp_path: Path) -> None:
    document = (await get("", "/openapi.json", {}, tmp_path)).json()

    route = document["paths"]["/admin/engines"]["get"]
    (kind,) = route["security"]
    schema = route["responses"]["200"]["content"]["application/json"]["schema"]
    assert document["components"]["securitySchemes"][next(iter(kind))]["scheme"] == "bearer"
    assert schema["$ref"].rpartition("/")[2] in document["components"]["schemas"]


def test_the_operators_key_must_be_nobody_elses_and_fit_a_header() -> None:
    clients = "mode: keys, keys: [{name: a, key: same-key}]"

    assert faults(f"{GOOD}auth: {{admin_key: same-key, {clients}}}\n") == [
        "auth.admin_key: auth.keys[0] is the same; no client may have the operator's key"
    ]
    assert faults(f"{GOOD}auth: {{admin_key: ' a'}}\n") == [
        "auth.admin_key: holds a space at an end, a line break or a character that no header "
        "can carry"
    ]
