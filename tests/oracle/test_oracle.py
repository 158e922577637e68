"""The oracle sees what stand-ins receive, and knows which vendor each of them plays."""

import re
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from tests.gateway.serving import serving
from tests.oracle.oracle import ORACLE, Oracle
from tests.oracle.plugin import Plugin
from tests.oracle.sent import api_of
from tests.oracle.vendors import Vendors
from tests.stand_ins.provider import Received, provider

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
LISTENS = re.compile(r"\bstart_server\(|\bcreate_server\(|\bHTTPServer\(")
NO_VENDOR = {
    "tests/deploy/balancer.py": "a balancer in front of gateways",
    "tests/gateway/platform/names/outage.py": "a namespace of its own, whose requests are counted",
    "tests/stand_ins/redis_relay.py": "Redis",
    "tests/stand_ins/webhook_receiver.py": "a receiver of webhooks",
    "tests/stand_ins/ports/reserved.py": "reserves ports",
    "tests/gateway/serving.py": "the gateway itself",
    "tests/gateway/routing/failures/engine_stand_in.py": "our engine",
    "tests/gateway/fleet/burst/burst_upstream.py": "a process of its own, which counts alone",
    "tests/gateway/http/test_another_server.py": "the gateway itself",
}
"""Stand-ins and the like that listen for others than the adapters."""


class Configured(Struct, frozen=True):
    adapter: str
    base_url: str | None


def received(path: str, body: bytes = b"{}", host: str = "127.0.0.1:7") -> Received:
    return Received(method="POST", path=path, headers={"host": host}, body=body)


@pytest.fixture
def oracle() -> Oracle:
    one = Oracle()
    one.vendors.learn(
        [
            Configured("openai", "http://127.0.0.1:7/v1"),
            Configured("openai-responses", "http://127.0.0.1:7/v1"),
            Configured("mistral", "http://127.0.0.1:7/mistral/v1"),
            Configured("anthropic", "http://127.0.0.1:7"),
            Configured("openai", "http://api.openai.com/v1"),
            Configured("vllm", "http://127.0.0.1:8/v1"),
            Configured("groq", "http://127.0.0.1:8/v1"),
        ]
    )
    return one


@pytest.mark.parametrize(
    ("path", "host", "vendor"),
    [
        ("/v1/chat/completions", "127.0.0.1:7", "compatible"),
        ("/mistral/v1/chat/completions", "127.0.0.1:7", "mistral"),
        ("/v1/responses", "127.0.0.1:7", "openai-responses"),
        ("/v1/messages", "127.0.0.1:7", "anthropic"),
        ("/model/m/converse", "127.0.0.1:9", "bedrock"),
        ("/v1/chat/completions", "127.0.0.1:8", ""),
        ("/v1/chat/completions", "127.0.0.1:9", ""),
        ("http://api.openai.com/v1/chat/completions", "127.0.0.1:9", "openai"),
    ],
)
def test_an_address_tells_the_vendor(oracle: Oracle, path: str, host: str, vendor: str) -> None:
    oracle.receive(received(path, host=host))
    list(oracle.judge())
    assert [who for _, who in oracle.judged] == [vendor]


def test_a_later_configuration_replaces_what_was_known_of_an_address() -> None:
    vendors = Vendors()
    for adapter in ("vllm", "sglang"):
        vendors.learn([Configured(adapter, "http://localhost:7/v1")])
    assert vendors.of("openai-chat", "LOCALHOST:7", "/v1/chat/completions") == "sglang"


@pytest.mark.parametrize(
    ("path", "body", "api"),
    [
        ("/v1/messages?beta=true", b"{}", "anthropic-messages"),
        ("/v1/messages/count_tokens", b"{}", "anthropic-count"),
        (
            "/v1/projects/p/publishers/anthropic/models/m:streamRawPredict",
            b"{}",
            "anthropic-vertex",
        ),
        ("/model/arn%3Aaws%3Ax/converse-stream", b"{}", "bedrock-converse"),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", b"{}", "gemini-generate"),
        ("/serving-endpoints/m/invocations", b'{"messages":[]}', "openai-chat"),
        ("/serving-endpoints/m/invocations", b'{"prompt":""}', "openai-completions"),
        ("/v1/fim/completions", b"{}", "mistral-fim"),
        ("/generate_stream", b"{}", "tgi-generate"),
        ("/v2/models/m/generate", b"{}", None),
        ("/oauth/token", b"", None),
    ],
)
def test_a_path_tells_the_api(path: str, body: bytes, api: str | None) -> None:
    assert api_of(path, body) == api


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"a":"\\ud83d"}',
        b'{"a":"\xff"}',
        b"{",
        b'{"a":1e999,"b":NaN}',
        b'{"a":1e999',
        pytest.param(b'{"a":%b}' % (b"1" * 5_000), id="5000 digits"),
    ],
)
def test_what_is_no_object_in_json_is_refused(oracle: Oracle, body: bytes) -> None:
    oracle.receive(received("/v1/chat/completions", body))
    assert [one.rule for one in oracle.judge()] == ["json"]


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" + "0" * 310])
def test_a_number_out_of_range_is_its_fields_matter(oracle: Oracle, number: str) -> None:
    said = '"model":"m","messages":[{"role":"user","content":"hi"}]'
    for path, name in (("/v1", "x_unknown"), ("/mistral/v1", "temperature")):
        body = f'{{{said},"{name}":{number}}}'.encode()
        oracle.receive(received(f"{path}/chat/completions", body))
    oracle.settle()
    assert {(one.vendor, one.rule == "json") for one in oracle.judge()} == {("mistral", False)}


def test_a_repeated_request_is_refused_each_time(oracle: Oracle) -> None:
    for _ in range(2):
        oracle.receive(received("/v1/chat/completions", b'{"model":"m","messages":[]}'))
    oracle.settle()
    assert [one.rule for one in oracle.judge()] == ["chat-messages"] * 2
    assert list(oracle.judge()) == []


@pytest.fixture
def nothing_left() -> Generator[None]:
    """What a test sends wrong on purpose is not this test's fault."""
    list(ORACLE.judge())
    yield
    list(ORACLE.judge())


async def test_what_a_gateway_sends_is_judged_as_its_configuration_says(
    tmp_path: Path, nothing_left: None
) -> None:
    config = """
providers: [{{name: far, adapter: deepseek, base_url: {url}}}]
models: [{{name: m, backends: [{{provider: far, model: m}}]}}]
"""
    async with provider() as server:
        async with (
            serving(config.format(url=server.base_url), tmp_path) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        ):
            said = [{"role": "user", "content": "hi"}]
            await client.post("/v1/chat/completions", json={"model": "m", "messages": said})
            before = ORACLE.judged["openai-chat", "deepseek"]
            assert list(ORACLE.judge()) == []
    assert ORACLE.judged["openai-chat", "deepseek"] == before + 1


def test_a_test_fails_that_makes_us_send_what_a_vendor_refuses(
    request: pytest.FixtureRequest, nothing_left: None
) -> None:
    ORACLE.receive(received("/v1/messages", b'{"model":"m","max_tokens":1,"messages":[]}'))
    plugin = Plugin(request.config, known=frozenset())
    running = plugin.pytest_runtest_call(request.node)
    next(running)
    with pytest.raises(pytest.fail.Exception, match="anthropic-version"):
        running.send(None)


@pytest.mark.vendor_refuses("anthropic-version", because="the marker is what is tested")
def test_a_test_may_say_that_a_refusal_is_its_purpose(
    request: pytest.FixtureRequest, nothing_left: None
) -> None:
    ORACLE.receive(received("/v1/messages", b'{"model":"m","max_tokens":1,"messages":[]}'))
    running = Plugin(request.config, known=frozenset()).pytest_runtest_call(request.node)
    next(running)
    with pytest.raises(StopIteration):
        running.send(None)


def test_every_stand_in_shows_what_it_receives_or_is_for_no_vendor() -> None:
    listening = {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for path in (ROOT / "tests").rglob("*.py")
        if not path.name.startswith("test_") and LISTENS.search(path.read_text())
    }
    blind = {name for name, text in listening.items() if "ORACLE.receive(" not in text}
    assert blind == {name for name in NO_VENDOR if "/test_" not in name}
