"""Access: accepted keys, and rejections in the error format of each API."""

import re
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.server.asgi import response
from strowger_gateway.gateway.server.asgi.cors import CorsHeaders
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

KEYS = """
  - {name: spare, backends: [{provider: remote, model: m-2}]}
auth:
  mode: keys
  keys:
    - {name: team-a, key: key-of-team-a, models: [chat], max_priority: 3}
    - {name: root, key: key-of-root}
"""
HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


async def send(
    url: str, key: str | None = None, path: str = "/v1/chat/completions", **more: object
) -> httpx.Response:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
        return await client.post(path, json={**HELLO, **more})


@pytest.mark.parametrize("key", [None, "key-of-no-one", "key-of-team-", "key-of-team-ab"])
async def test_without_a_known_key_every_request_is_refused(
    key: str | None, tmp_path: Path
) -> None:
    async with provider() as a, serving(one_model(a.base_url, KEYS), tmp_path) as gateway:
        answer = await send(gateway.url, key)

    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert a.requests == []


async def test_a_key_opens_its_own_models_and_no_others(tmp_path: Path) -> None:
    async with provider() as a, serving(one_model(a.base_url, KEYS), tmp_path) as gateway:
        allowed = await send(gateway.url, "key-of-team-a")
        refused = await send(gateway.url, "key-of-team-a", model="spare")
        root = await send(gateway.url, "key-of-root", model="spare")
        lines = gateway.access_lines()

    assert [allowed.status_code, refused.status_code, root.status_code] == [200, 404, 200]
    assert refused.json()["error"]["code"] == "model_not_found"
    assert [line.key for line in lines] == ["team-a", "team-a", "root"]
    assert lines[1].error == "model_not_allowed"


async def test_a_fallback_answers_for_a_model_also_where_the_key_may_not_use_it_by_name(
    tmp_path: Path,
) -> None:
    """The operator wrote the fallback; the key's list says what it may ask for."""
    config = KEYS.replace("  - {name: spare,", "    fallback: [spare]\n  - {name: spare,")
    async with provider() as a, serving(one_model(a.base_url, config), tmp_path) as gateway:

        async def answers(request: Received, answer: Answer) -> None:
            if request.json["model"] == "m-1":
                await answer.json({"error": {"message": "down"}}, 503)
            else:
                await answer.chat("from the spare")

        a.behaviour = answers
        by_fallback = await send(gateway.url, "key-of-team-a")
        by_name = await send(gateway.url, "key-of-team-a", model="spare")

    assert by_fallback.status_code == 200
    assert by_fallback.headers["x-gateway-backend"] == "remote/m-2"
    assert by_name.status_code == 404


@pytest.mark.parametrize(
    ("asked", "hint"),
    [("spare", ""), ("spara", ""), ("chap", "; did you mean 'chat'?"), ("spare-alias", "")],
)
async def test_a_key_learns_no_names_that_it_may_not_use(
    asked: str, hint: str, tmp_path: Path
) -> None:
    """Neither from a hint nor from another status: what it may not use does not exist for it."""
    config = KEYS.replace("name: spare,", "name: spare, aliases: [spare-alias],")
    async with provider() as a, serving(one_model(a.base_url, config), tmp_path) as gateway:
        answer = await send(gateway.url, "key-of-team-a", model=asked)
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            client.headers["authorization"] = "Bearer key-of-team-a"
            text = {"text_input": "hi", "max_tokens": 1}
            at_v2 = await client.post(f"/v2/models/{asked}/generate", json=text)
            shown = await client.get(f"/v2/models/{asked}")
            endpoint = await client.get(f"/api/2.0/serving-endpoints/{asked}")

    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == f"model '{asked}' not found{hint}"
    for other in (at_v2, shown, endpoint):
        assert other.status_code == 404
        assert "'spare'" not in other.text.replace(f"'{asked}'", "")


async def test_routes_that_name_no_model_do_not_name_the_operators_to_a_key_without_it(
    tmp_path: Path,
) -> None:
    config = KEYS + "server: {default_model: spare}\n"
    async with provider() as a, serving(one_model(a.base_url, config), tmp_path) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            answer = await client.post(
                "/infer_token",
                json={"input_id": [1], "parameters": {}},
                headers={"authorization": "Bearer key-of-team-a"},
            )

    assert answer.status_code == 400
    assert "spare" not in answer.text


async def test_the_model_list_shows_what_the_key_may_use(tmp_path: Path) -> None:
    async with provider() as a, serving(one_model(a.base_url, KEYS), tmp_path) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            unknown = await client.get("/v1/models")
            team = await client.get("/v1/models", headers={"x-api-key": "key-of-team-a"})
            one = await client.get("/v1/models/chat", headers={"x-api-key": "key-of-team-a"})
            basic = await client.get("/v1/models", auth=("token", "key-of-team-a"))
            wrong = await client.get("/v1/models", auth=("token", "a-wrong-key"))
            both = await client.get(
                "/v1/models", auth=("proxy", "secret"), headers={"x-api-key": "key-of-team-a"}
            )
            other = await client.get("/v1/models/spare", headers={"x-api-key": "key-of-team-a"})

    assert unknown.status_code == 401
    assert [model["id"] for model in team.json()["data"]] == ["chat"]
    assert one.json()["id"] == "chat"
    assert other.status_code == 404
    assert [one.status_code for one in (basic, wrong, both)] == [200, 401, 200]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/models", 405),
        ("GET", "/v1/nothing", 404),
        ("POST", "/nothing", 404),
    ],
)
async def test_unknown_routes_and_methods_wear_the_envelope(
    method: str, path: str, status: int, tmp_path: Path
) -> None:
    async with provider() as a, serving(one_model(a.base_url), tmp_path) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            answer = await client.request(method, path, json={})

    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert status != 405 or answer.headers["allow"]


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    config = one_model("{url}", "server: {max_body_bytes: 1000}")
    async with (
        provider() as a,
        serving(config.replace("{url}", a.base_url), tmp_path) as gateway,
    ):
        answer = await send(gateway.url, user="x" * 2000)

    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "request_too_large"


async def test_the_fields_of_a_form_are_refused_as_no_json(tmp_path: Path) -> None:
    async with provider() as a, serving(one_model(a.base_url), tmp_path) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            answer = await client.post("/v1/chat/completions", data={"model": "chat"})

    assert answer.status_code == 400
    assert "JSON" in answer.json()["error"]["message"]


async def test_an_unknown_model_is_404_with_the_nearest_names(tmp_path: Path) -> None:
    async with provider() as a, serving(one_model(a.base_url), tmp_path) as gateway:
        answer = await send(gateway.url, model="chta")

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"
    assert "'chat'" in answer.json()["error"]["message"]


async def test_a_browser_page_of_an_allowed_origin_may_call(tmp_path: Path) -> None:
    config = one_model("{url}", "server: {cors: {allow_origins: ['https://a.example']}}")
    async with (
        provider() as a,
        serving(config.replace("{url}", a.base_url), tmp_path) as gateway,
        httpx.AsyncClient(
            base_url=gateway.url, headers={"origin": "https://a.example"}, timeout=60
        ) as page,
    ):
        asked = {"access-control-request-method": "POST"}
        preflight = await page.options("/v1/chat/completions", headers=asked)
        answer = await page.post("/v1/chat/completions", json=HELLO)
        stranger = await page.post(
            "/v1/chat/completions", json=HELLO, headers={"origin": "https://b.example"}
        )

    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "https://a.example"
    assert answer.headers["access-control-allow-origin"] == "https://a.example"
    assert "access-control-allow-origin" not in stranger.headers


def test_a_page_may_read_every_header_about_an_answer() -> None:
    source = (Path(response.__file__)).read_text("utf-8")
    reported = set(re.findall(r'b"(x-gateway-[a-z-]+)"', source))

    headers = dict(CorsHeaders(["*"]).headers(b"https://app.test"))

    assert len(reported) >= 6
    assert reported <= {*headers[b"access-control-expose-headers"].decode().split(", ")}
