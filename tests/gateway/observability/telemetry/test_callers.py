"""The access log shows client and actor of requests, rejections, /admin routes and our bugs."""

import logging
from pathlib import Path
from typing import cast

import httpx
import pytest
from litestar.types import HTTPScope

from strowger_gateway.gateway.assembly.admission import Admission
from strowger_gateway.gateway.assembly.all_processes import AllProcesses
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.governance.access.client_address import ClientAddresses
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from tests.gateway.config.configs import GOOD, faults
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

ADMIN = "key-of-the-operator"
AUTH = (
    f"auth: {{admin_key: {ADMIN}, mode: keys, keys: [{{name: a, key: key-of-a, models: [chat]}}]}}"
)
HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def lines_of(
    tmp_path: Path, *requests: tuple[str, str, dict[str, str]], more: str = ""
) -> list[AccessLine]:
    """The access lines of requests, each given as METHOD, path and headers."""
    async with provider() as a, serving(one_model(a.base_url, f"{AUTH}\n{more}"), tmp_path) as up:
        async with httpx.AsyncClient(base_url=up.url, timeout=60) as client:
            for method, path, headers in requests:
                body = HELLO if path.startswith("/v1/chat") else None
                await client.request(method, path, headers=headers, json=body)
        return up.access_lines()


async def test_a_line_names_the_address_and_a_refusal_its_reason_but_never_the_key(
    tmp_path: Path,
) -> None:
    chat = "/v1/chat/completions"
    lines = await lines_of(
        tmp_path,
        ("POST", chat, bearer("key-of-a")),
        ("POST", chat, bearer("key-of-nobody")),
        ("POST", chat, {}),
        ("GET", "/v1/models", bearer("key-of-nobody")),
        ("GET", "/metrics", bearer("key-of-a")),
        ("GET", "/healthz", {}),
    )

    assert {line.client_address for line in lines} == {"127.0.0.1"}
    assert sorted((line.status, line.key, line.path, line.denied[:34]) for line in lines) == [
        (200, "a", "", ""),
        (401, "", "", "no API key in the request; use the"),
        (401, "", "", "the API key is not valid"),
        (401, "", "/metrics", "/metrics needs auth.metrics_key or"),
        (401, "", "/v1/models", "the API key is not valid"),
    ]
    assert "key-of" not in str(lines)


async def test_addresses_can_be_left_out(tmp_path: Path) -> None:
    lines = await lines_of(
        tmp_path,
        ("POST", "/v1/chat/completions", bearer("key-of-a")),
        ("GET", "/admin/engines", bearer(ADMIN)),
        more="logging: {client_address: false}",
    )

    assert [line.client_address for line in lines] == ["", ""]


async def test_everything_at_admin_is_in_the_log_with_its_actor(tmp_path: Path) -> None:
    async with provider() as a, serving(one_model(a.base_url, AUTH), tmp_path) as up:
        async with httpx.AsyncClient(base_url=up.url, timeout=60) as client:
            await client.post("/admin/sign-in", data={"key": "a-guess"})
            await client.post("/admin/sign-in", data={"key": ADMIN})
            await client.get("/admin/engines")
            await client.get("/admin/engines", headers=bearer(ADMIN))
            client.cookies.clear()
            await client.get("/admin/engines", headers=bearer("a-guess"))
        lines = up.access_lines()

    assert [(line.method, line.path, line.status, line.actor) for line in lines] == [
        ("POST", "/admin/sign-in", 401, ""),
        ("POST", "/admin/sign-in", 303, "admin key"),
        ("GET", "/admin/engines", 200, "session"),
        ("GET", "/admin/engines", 200, "admin key"),
        ("GET", "/admin/engines", 401, ""),
    ]
    assert {(line.surface, line.client_address) for line in lines} == {("admin", "127.0.0.1")}
    assert lines[0].denied
    assert "guess" not in str(lines)
    assert ADMIN not in str(lines)


async def _broken(processes: AllProcesses) -> None:
    raise LookupError("a bug in a route")


async def ask(up: Serving, method: str, path: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=up.url, headers=bearer(ADMIN), timeout=60) as client:
        return await client.request(method, path, json=HELLO)


def counted(up: Serving) -> dict[str, float]:
    return {
        dict(sample.labels)["where"]: sample.value
        for family in up.state.processes.counted()
        for sample in family.samples
        if sample.name == "strowger_internal_errors_total"
    }


async def test_a_bug_in_a_route_is_logged_once_with_its_trace_id_and_route_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AllProcesses, "engine_reports", _broken)
    async with provider() as a, serving(one_model(a.base_url, AUTH), tmp_path) as up:
        answer = await ask(up, "GET", "/admin/engines")
        found = counted(up)

    (record,) = [one for one in caplog.records if one.levelno >= logging.ERROR]
    request_id = answer.headers["x-gateway-request-id"]
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert "a bug in a route" not in answer.text
    assert (
        record.getMessage()
        == f"request {request_id} at GET /admin/engines failed: bug in the gateway"
    )
    assert record.exc_info is not None
    assert found == {"/admin/engines": 1}


async def test_a_bug_on_the_hot_path_is_counted_by_its_route(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(admission: Admission, runtime: Runtime) -> None:
        raise LookupError("a bug on the hot path")

    monkeypatch.setattr(Admission, "admit", broken)
    async with provider() as a, serving(one_model(a.base_url, AUTH), tmp_path) as up:
        answer = await ask(up, "POST", "/v1/chat/completions")
        (line,) = up.access_lines()
        found = counted(up)

    assert answer.status_code == 500
    assert f"request {line.request_id} at /v1/chat/completions failed" in caplog.text
    assert found == {"/v1/chat/completions": 1}


PROXIES = ("10.0.0.0/8", "fd00::/8")


@pytest.mark.parametrize(
    ("peer", "headers", "client"),
    [
        ("203.0.113.9", {"x-forwarded-for": "1.2.3.4"}, "203.0.113.9"),
        ("10.0.0.1", {}, "10.0.0.1"),
        ("10.0.0.1", {"x-forwarded-for": "1.2.3.4"}, "1.2.3.4"),
        ("10.0.0.1", {"x-forwarded-for": "9.9.9.9, 1.2.3.4, 10.0.0.7"}, "1.2.3.4"),
        ("10.0.0.1", {"x-forwarded-for": "10.0.0.3, 10.0.0.7"}, "10.0.0.3"),
        ("10.0.0.1", {"x-forwarded-for": "1.2.3.4:5678"}, "1.2.3.4"),
        ("10.0.0.1", {"x-forwarded-for": "2001:db8::1"}, "2001:db8::1"),
        ("fd00::1", {"x-forwarded-for": "[2001:db8::1]:443"}, "2001:db8::1"),
        ("::ffff:10.0.0.1", {"x-forwarded-for": "::ffff:1.2.3.4"}, "1.2.3.4"),
        ("10.0.0.1", {"x-forwarded-for": "1.2.3.4, unknown"}, "10.0.0.1"),
        ("10.0.0.1", {"x-forwarded-for": "\x1b[31mevil"}, "10.0.0.1"),
        ("10.0.0.1", {"x-forwarded-for": ""}, "10.0.0.1"),
        ("10.0.0.1", {"forwarded": "for=1.2.3.4;proto=https"}, "1.2.3.4"),
        ("10.0.0.1", {"forwarded": 'proto=http;For="[2001:db8::1]:4711"'}, "2001:db8::1"),
        (
            "10.0.0.1",
            {"forwarded": "for=6.6.6.6, for=1.2.3.4;by=10.0.0.1, for=10.0.0.7"},
            "1.2.3.4",
        ),
        ("10.0.0.1", {"forwarded": "for=_hidden"}, "10.0.0.1"),
        ("10.0.0.1", {"forwarded": "for=1.2.3.4", "x-forwarded-for": "1.2.3.4"}, "1.2.3.4"),
        ("10.0.0.1", {"forwarded": "for=6.6.6.6", "x-forwarded-for": "1.2.3.4"}, "10.0.0.1"),
    ],
)
def test_the_rightmost_hop_that_is_not_a_trusted_proxy_is_the_client(
    peer: str, headers: dict[str, str], client: str
) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = cast(HTTPScope, {"client": (peer, 1), "headers": raw})

    assert ClientAddresses(PROXIES).of(scope) == client
    assert ClientAddresses(()).of(scope) == peer
    assert ClientAddresses(PROXIES, shown=False).of(scope) == ""


def test_a_trusted_proxy_that_is_not_a_network_is_refused() -> None:
    assert faults(f"{GOOD}server: {{trusted_proxies: [load-balancer]}}\n") == [
        'server.trusted_proxies[0]: "load-balancer" is not a network; write it as 10.1.0.0/16'
    ]
