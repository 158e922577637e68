"""Operations: probes, metrics, the access log, and a shutdown that loses nothing."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from strowger_gateway.gateway.governance.access.wrong_keys import FREE
from tests.gateway.serving import one_model, serving
from tests.stand_ins.ports.reserved import reserved_port
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


async def test_the_probes_answer_without_a_key(tmp_path: Path) -> None:
    keys = "auth: {mode: keys, keys: [{name: a, key: secret-key-of-a}]}"
    async with (
        provider() as remote,
        serving(one_model(remote.base_url, keys), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        alive = await client.get("/healthz")
        ready = await client.get("/readyz")

    assert (alive.status_code, ready.status_code) == (200, 200)


async def test_liveness_names_the_process_to_the_operator_only(tmp_path: Path) -> None:
    """It is never refused or delayed. An address that guesses keys learns nothing by it."""
    keys = "auth: {mode: keys, admin_key: key-of-the-operator, keys: [{name: a, key: key-of-a}]}"
    async with (
        serving(one_model("http://127.0.0.1:9/v1", keys), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):

        async def names(key: str) -> set[str]:
            headers = {"authorization": f"Bearer {key}"} if key else {}
            answer = await client.get("/healthz", headers=headers)
            assert answer.status_code == 200
            return set(answer.json())

        found = {key: await names(key) for key in ("", "key-of-a", "key-of-the-operator", "wrong")}
        for n in range(FREE + 5):
            await names(f"guess-{n}")
        guessed = await names("key-of-the-operator")

    assert found.pop("key-of-the-operator") == {"status", "worker", "pid"}
    assert [*found.values(), guessed] == [{"status"}] * 4


async def test_health_is_readiness_and_head_is_get_without_a_body(tmp_path: Path) -> None:
    """As inference servers answer it: guidellm, for one, asks before it measures."""
    keys = "auth: {mode: keys, keys: [{name: a, key: secret-key-of-a}]}"
    async with (
        serving(one_model("http://127.0.0.1:9/v1", keys), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        able = [await client.request(how, "/health") for how in ("GET", "HEAD")]
        gateway.state.admission.draining = True
        not_able = [await client.request(how, "/health") for how in ("GET", "HEAD")]
        others = [await client.head(path) for path in ("/healthz", "/v1/models", "/nowhere")]
        post = await client.head("/v2/repository/index")

    assert [answer.status_code for answer in (*able, *not_able)] == [200, 200, 503, 503]
    assert able[0].json()["status"] == "ready"
    assert able[1].content == not_able[1].content == b""
    assert able[1].headers["content-length"] == able[0].headers["content-length"]
    assert [answer.status_code for answer in others] == [200, 401, 404]
    assert (post.status_code, post.headers["allow"]) == (405, "OPTIONS, POST")


async def test_metrics_count_requests_tokens_and_attempts(tmp_path: Path) -> None:
    async with (
        provider() as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        for _ in range(3):
            await client.post("/v1/chat/completions", json=HELLO)
        text = (await client.get("/metrics")).text

    labels = 'model="chat",status="200",surface="openai"'
    assert f'strowger_requests_total{{backend="remote/m-1",{labels}}} 3.0' in text
    assert 'kind="completion",model="chat",role="served",source="reported"} 9.0' in text
    assert 'strowger_attempts_total{backend="remote/m-1",outcome="ok"} 3.0' in text


async def test_names_that_clients_make_up_do_not_grow_the_metrics(tmp_path: Path) -> None:
    config = one_model(
        "{url}", model_more='  - {name: "m-*", backends: [&b {provider: remote, model: "*"}]}'
    )
    async with (
        provider() as remote,
        serving(config.replace("{url}", remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        for number in range(5):
            await client.post("/v1/chat/completions", json={**HELLO, "model": f"m-{number}"})
            await client.post("/v1/chat/completions", json={**HELLO, "model": f"no-{number}"})
        text = (await client.get("/metrics")).text

    assert remote.requests[-1].json["model"] == "m-4"
    assert "m-4" not in text
    assert "no-4" not in text


async def test_each_request_is_one_structured_line(tmp_path: Path) -> None:
    async with (
        provider() as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        answer = await client.post(
            "/v1/chat/completions", json={**HELLO, "stream": True}, headers={"x-request-id": "mine"}
        )
        (line,) = gateway.access_lines()

    assert line.status == 200
    assert (line.model, line.route, line.backend) == ("chat", "chat", "remote/m-1")
    assert (line.prompt_tokens, line.completion_tokens) == (7, 3)
    assert line.usage_source == "reported"
    assert line.client_request_id == answer.headers["x-request-id"] == "mine"
    assert line.request_id == answer.headers["x-gateway-request-id"]
    assert line.ttft_ms is not None
    assert [attempt.outcome for attempt in line.attempts] == ["ok"]
    assert line.attempts[0].ms == round(line.attempts[0].ms, 3)


async def test_a_request_id_that_is_not_sane_is_replaced(tmp_path: Path) -> None:
    async with (
        provider() as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        answer = await client.post(
            "/v1/chat/completions", json=HELLO, headers={"x-request-id": "a b\tc"}
        )

    assert answer.headers["x-request-id"] == answer.headers["x-gateway-request-id"]


async def test_the_error_for_a_base_url_without_v1_names_the_right_path(
    tmp_path: Path,
) -> None:
    async with (
        serving(one_model("http://127.0.0.1:9/v1"), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        few, other, twice = [
            (await client.post(path, json=HELLO)).json()["error"]["message"]
            for path in ("/chat/completions", "/v1/nowhere", "/v1/v1/nowhere")
        ]

    hint = "; did you mean /v1/chat/completions? Set the client's base_url to end in /v1"
    assert few == f"no route POST /chat/completions{hint}"
    assert other == twice == "no route POST /v1/nowhere"


async def test_a_public_face_shows_no_backend(tmp_path: Path) -> None:
    config = one_model("{url}", "server: {expose_headers: false}")
    async with (
        provider() as remote,
        serving(config.replace("{url}", remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        answer = await client.post("/v1/chat/completions", json=HELLO)

    assert not [name for name in answer.headers if name.startswith("x-gateway")]


async def test_the_documented_way_in_gives_the_same_bytes(tmp_path: Path) -> None:
    """Litestar's own handlers, which the front usually answers before, end in the same place."""
    async with provider() as remote, serving(one_model(remote.base_url), tmp_path) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            direct = await client.post("/v1/chat/completions", json=HELLO)
            through = await client.post("/v1/chat/completions/", json=HELLO)

    assert direct.status_code == through.status_code == 200
    assert _without_id(direct) == _without_id(through)
    assert direct.headers.keys() == through.headers.keys()


async def test_the_hot_routes_are_documented_with_their_bodies(tmp_path: Path) -> None:
    async with (
        provider() as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        document = (await client.get("/openapi.json")).json()
        page = await client.get("/docs")

    assert "messages" in _body(document, "/v1/chat/completions")["properties"]
    assert page.status_code == 200
    assert "text/html" in page.headers["content-type"]


async def test_the_page_of_the_api_names_every_route_and_field_and_loads_nothing_external(
    tmp_path: Path,
) -> None:
    async with (
        serving(one_model("http://127.0.0.1:9/v1"), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        document = (await client.get("/openapi.json")).json()
        page = await client.get("/docs")
        style = await client.get("/docs/page.css")
        litestars = [await client.get(f"/openapi{end}") for end in ("", "/openapi.json", "/x")]

    assert all(f"<code>{path}</code>" in page.text for path in document["paths"])
    fields = _body(document, "/v1/chat/completions")["properties"]
    assert all(f"<code>{field}</code>" in page.text for field in fields)
    assert set(re.findall(r'(?:src|href)="([^"#]+)', page.text)) == {
        "/docs/page.css",
        "/openapi.json",
    }
    assert "<script" not in page.text
    assert " style=" not in page.text
    assert "://" not in re.sub(r"<code>.*?</code>|<td>.*?</td>|<p>.*?</p>", "", page.text)
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'self';")
    assert "frame-ancestors 'none'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert "url(" not in style.text
    assert {answer.status_code for answer in litestars} == {404}
    assert not any(path.startswith("/openapi") for path in document["paths"])


async def test_the_api_need_not_be_described(tmp_path: Path) -> None:
    config = one_model("http://127.0.0.1:9/v1", "server: {docs: false}")
    async with (
        serving(config, tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        paths = ("/docs", "/docs/page.css", "/openapi.json")
        found = [(await client.get(path)).status_code for path in paths]

    assert found == [404, 404, 404]


@asynccontextmanager
async def command(config: Path, port: int) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """`strowger serve` as a process of its own, ready."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "strowger_gateway.gateway.cli", "serve", "--config", str(config)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "COLUMNS": "100"},
    )
    try:
        async with httpx.AsyncClient(timeout=60) as client:
            for _ in range(300):
                try:
                    if (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200:
                        break
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_sigterm_finishes_running_streams_and_refuses_new_requests(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def waits(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("first ")
        await go_on.wait()
        await answer.text("last")
        await answer.end_stream()

    port = reserved_port()
    async with provider(waits) as remote, httpx.AsyncClient(timeout=60) as client:
        url = f"http://127.0.0.1:{port}"
        server = f"server: {{port: {port}, drain_delay_s: 0.3, drain_timeout_s: 10}}"
        config = tmp_path / "config.yaml"
        slow = one_model(remote.base_url, server).replace(
            "between_tokens_s: 1", "between_tokens_s: 9"
        )
        config.write_text(slow)
        async with command(config, port) as process:
            chat = client.stream(
                "POST", f"{url}/v1/chat/completions", json={**HELLO, "stream": True}
            )
            async with chat as stream:
                lines = stream.aiter_lines()
                await anext(lines)
                process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(60):
                    while (await client.get(f"{url}/readyz")).status_code == 200:  # noqa: ASYNC110  it is another process's
                        await asyncio.sleep(0.02)
                await asyncio.sleep(0.8)  # more than drain_delay_s
                refused = await client.post(f"{url}/v1/chat/completions", json=HELLO)
                go_on.set()
                rest = [line async for line in lines]
            await asyncio.wait_for(process.wait(), 60)
            assert process.stdout is not None
            log = (await process.stdout.read()).splitlines()

    assert refused.status_code == 503
    assert refused.headers["connection"] == "close"
    assert rest[-2:] == ["data: [DONE]", ""]
    assert process.returncode == 0
    assert sorted(json.loads(line)["status"] for line in log) == [200, 503]


def _without_id(answer: httpx.Response) -> object:
    return {name: value for name, value in answer.json().items() if name not in ("id", "created")}


def _body(document: dict[str, Any], path: str) -> dict[str, Any]:
    """The schema of what is sent there, which is a reference."""
    content = document["paths"][path]["post"]["requestBody"]["content"]
    name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
    return document["components"]["schemas"][name]
