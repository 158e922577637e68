"""Health checks find out that a backend is down, or up again, while no client sends anything."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.backends.discovery.discovered import Discovered, ReplicaSet
from strowger_gateway.gateway.backends.discovery.source import HostPort
from strowger_gateway.gateway.backends.upstream.tls import TlsContexts
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.routing.backend_events.process_side import BackendEventsSide
from strowger_gateway.gateway.routing.health_checks.checks import HealthChecks
from strowger_gateway.gateway.routing.health_checks.path_check import get
from strowger_gateway.gateway.routing.health_checks.targets import targets_of
from strowger_gateway.schemas.errors import InvalidConfig, UpstreamError
from tests.gateway.routing.backend_events.simulated import Simulated, simulated
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

CHAT = "chat: p/m"


class Vendor:
    """Answers /health and chats, or fails as a test wants it."""

    def __init__(self) -> None:
        self.status = self.healthy = 200
        self.headers: Mapping[str, object] = {}

    async def __call__(self, request: Received, answer: Answer) -> None:
        if request.method == "GET":
            await answer.json({"ok": True}, self.healthy, self.headers)
        elif self.status != 200:
            await answer.json({"error": {"message": "no"}}, self.status, self.headers)
        else:
            await answers(request, answer)


def config(url: str, check: str, model: str = "m") -> str:
    return f"""
auth: {{admin_key: key-of-the-operator}}
providers:
  - {{name: p, adapter: openai, base_url: "{url}", api_key: sk-1, health_check: {check}}}
models:
  - {{name: chat, backends: [{{provider: p, model: {model}}}]}}
  - {{name: other, backends: [{{provider: p, model: {model}}}]}}
  - {{name: "any/*", backends: [{{provider: p, model: "*"}}]}}
"""


class Checked(Simulated):
    """A simulated gateway before a vendor, with its checks."""

    vendor: Vendor
    remote: Provider
    checks: HealthChecks

    async def pass_s(self, seconds: float) -> None:
        """Let time pass, and each check that is due run to its end."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now += 1.0
            self.checks.tick()
            await self.checks.idle()


@asynccontextmanager
async def checked(run_dir: Path, check: str) -> AsyncGenerator[Checked]:
    vendor = Vendor()
    async with (
        provider(vendor) as remote,
        simulated(run_dir, config(remote.base_url, check)) as one,
    ):
        found = Checked(one.up, one.clock, one.client, run_dir)
        state = one.up.state
        found.vendor, found.remote = vendor, remote
        found.checks = HealthChecks(
            lambda: state.runtime.config,
            lambda: state.runtime.backends,
            state.side(BackendEventsSide).watch,
            state.log.metrics.registry,
            clock=one.clock,
            draw=lambda: 0.5,
        )
        yield found
        await found.checks.close()


@pytest.mark.parametrize("check", ["{request: smallest}", "{path: /health}"])
async def test_a_backend_that_nobody_asks_is_known_to_be_down_and_up_again(
    check: str, tmp_path: Path
) -> None:
    async with checked(tmp_path, check) as one:
        one.vendor.status = one.vendor.healthy = 500
        await one.pass_s(120.0)
        down, page = await one.gauge(CHAT), await one.band()
        one.vendor.status = one.vendor.healthy = 200
        await one.pass_s(40.0)
        up, kinds = await one.gauge(CHAT), await one.kinds()
        lines = one.up.access_lines()

    assert (down, up) == (0.0, 1.0)
    assert "chat · p/m" in page
    assert kinds[0] == "check_failed"
    assert {"failing", "no_backend", "recovered", "backend_again", "check_passed"} <= set(kinds)
    assert {line.surface for line in lines} == {"admin"}, "no request is recorded or charged"


async def test_a_check_by_request_closes_an_open_circuit_as_a_probe_does(tmp_path: Path) -> None:
    async with checked(tmp_path, "{request: smallest, every_s: 5, timeout_s: 2}") as one:
        for _ in range(12):
            one.attempt(CHAT, ok=False)
        before = one.breaker(CHAT).state(one.clock.now)
        await one.pass_s(6.0)
        after = one.breaker(CHAT).state(one.clock.now)
        (asked, *_) = [request.json for request in one.remote.requests]

    assert (before, after) == ("open", "closed")
    assert (asked["model"], asked.get("max_tokens", asked.get("max_completion_tokens"))) == ("m", 1)


async def test_one_server_is_asked_once_however_many_models_it_has(tmp_path: Path) -> None:
    async with checked(tmp_path, "{path: /health?full=1}") as one:
        await one.pass_s(31.0)
        requests = one.remote.requests
        metrics = await one.metrics()

    assert [(request.method, request.path) for request in requests] == [("GET", "/health?full=1")]
    assert requests[0].headers["authorization"] == "Bearer sk-1"
    assert 'strowger_health_checks_total{outcome="passed",provider="p"} 1.0' in metrics


async def test_a_check_by_path_reaches_the_names_of_a_wildcard(tmp_path: Path) -> None:
    wild = "any/*: p/*"
    async with checked(tmp_path, "{path: /health}") as one:
        for _ in range(12):
            one.attempt(wild, ok=False, name="x")
        down, state = await one.gauge(wild), one.breaker(wild, "x").state(one.clock.now)
        await one.pass_s(31.0)
        up = await one.gauge(wild)
        closed = one.breaker(wild, "x").state(one.clock.now)
        one.vendor.healthy = 503
        await one.pass_s(120.0)
        again = await one.gauge(wild)

    assert (down, state, up, closed, again) == (0.0, "open", 1.0, "closed", 0.0)


async def test_a_server_that_is_healthy_while_its_model_fails_stays_down(tmp_path: Path) -> None:
    async with checked(tmp_path, "{path: /health, every_s: 10, timeout_s: 5}") as one:
        states: list[float] = []
        for _ in range(6):
            for _ in range(12):
                one.attempt(CHAT, ok=False)
            await one.pass_s(12.0)
            states.append(await one.gauge(CHAT))

    assert states == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], "the check is believed once"


async def test_checks_wait_out_a_cooldown_and_slow_down_after_a_429(tmp_path: Path) -> None:
    async with checked(tmp_path, "{request: smallest, every_s: 10, timeout_s: 5}") as one:
        one.vendor.status, one.vendor.headers = 429, {"retry-after": "60"}
        await one.pass_s(70.0)
        limited = len(one.remote.requests)
        one.vendor.headers = {}
        await one.pass_s(120.0)
        slower = len(one.remote.requests) - limited
        metrics = await one.metrics()
        kinds = await one.kinds(model="chat")

    assert limited <= 3, "one per cooldown"
    assert slower <= 5, "instead of 12"
    assert 'strowger_health_checks_total{outcome="limited",provider="p"}' in metrics
    assert "failing" not in kinds


async def test_a_backend_that_clients_use_is_not_asked_on_top(tmp_path: Path) -> None:
    async with checked(tmp_path, "{request: smallest, every_s: 5, timeout_s: 2}") as one:
        for _ in range(20):
            one.attempt(CHAT, ok=True)
            one.attempt("other: p/m", ok=True)
            await one.pass_s(3.0)
        used = len(one.remote.requests)
        await one.pass_s(90.0)

    assert used == 0
    assert 15 <= len(one.remote.requests) <= 20, "every 5 s, although a check counts as a request"


async def test_a_refused_account_is_found_without_a_client(tmp_path: Path) -> None:
    async with checked(tmp_path, "{request: smallest, every_s: 5, timeout_s: 2}") as one:
        one.vendor.status = 401
        await one.pass_s(6.0)
        phase = one.breaker(CHAT).phase(one.clock.now)
        events = await one.events(kind="refused")

    assert phase == "refused"
    assert {event["model"] for event in events} == {"chat", "other"}


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        ("Could not finish the message because max_tokens or model output limit was reached.", [1]),
        ("Invalid 'max_output_tokens': expected a value >= 16, but got 1 instead.", [1, 16]),
    ],
)
async def test_models_that_need_more_than_one_token_are_not_taken_for_broken(
    message: str, tokens: list[int], tmp_path: Path
) -> None:
    """https://github.com/BerriAI/litellm/issues/26987"""

    async def rejects(request: Received, answer: Answer) -> None:
        if request.json["max_tokens"] == 1:
            await answer.json({"error": {"message": message}}, 400)
        else:
            await answers(request, answer)

    async with checked(tmp_path, "{request: smallest}") as one:
        one.remote.behaviour = rejects
        await one.pass_s(20.0)
        asked = [request.json["max_tokens"] for request in one.remote.requests]
        metrics, kinds = await one.metrics(), await one.kinds()

    assert asked == tokens
    assert 'strowger_health_checks_total{outcome="passed",provider="p"} 1.0' in metrics
    assert kinds == []


def test_each_replica_that_is_discovered_is_checked(tmp_path: Path) -> None:
    text = """
providers:
  - {name: pool, adapter: openai, base_url: "http://pool.internal/v1", health_check: {path: /h}}
models:
  - name: chat
    backends: [{provider: pool, model: m, discover: {dns: pool.internal, port: 8000}}]
"""
    settings = read_config(text, source="config.yaml", env={})
    (ref,) = settings.models[0].backends
    assert ref.discover is not None
    places = tuple(HostPort(host=host, port=8000) for host in ("10.0.0.7", "10.0.0.8"))
    found = Discovered(
        sets=(ReplicaSet(discover=ref.discover, source="dns", endpoints=places, known=True),)
    )
    runtime = Runtime(settings, run_dir=tmp_path, discovered=found)

    targets = targets_of(settings, runtime.backends)
    unknown = Runtime(settings, run_dir=tmp_path)

    assert targets_of(settings, unknown.backends) == {}
    assert [(one.name, one.address) for one in targets.values()] == [
        ("pool @ 10.0.0.7:8000", "10.0.0.7:8000"),
        ("pool @ 10.0.0.8:8000", "10.0.0.8:8000"),
    ]


async def test_a_check_by_path_goes_to_the_replicas_address_with_the_servers_name(
    tmp_path: Path,
) -> None:
    async with provider(Vendor()) as remote:
        url = f"http://pool.internal:{remote.port}/v1"
        settings = read_config(
            config(url, "{path: /health}").replace("sk-1", "sk-1, headers: {x-tenant: t1}"),
            source="config.yaml",
            env={},
        )
        address = f"127.0.0.1:{remote.port}"
        await get(settings.providers[0], "/health", address, 5.0, TlsContexts())
        (request,) = remote.requests

    assert request.headers["host"] == f"pool.internal:{remote.port}"
    assert request.headers["x-tenant"] == "t1"


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        ("{}", "providers[0].health_check: has neither path and request; give path"),
        ("{path: /h, request: smallest}", "providers[0].health_check: has both"),
        ("{path: '/h#a'}", "providers[0].health_check.path: '/h#a' is not a path; write it from"),
        ("{path: health}", "providers[0].health_check.path: 'health' is not a path; write it from"),
        (
            "{path: /h, every_s: 1, timeout_s: 10}",
            "providers[0].health_check.timeout_s: is 10, which is more",
        ),
        ("{request: big}", "providers[0].health_check.request"),
        ("{path: /h, every_s: 0}", "providers[0].health_check.every_s"),
    ],
)
def test_a_check_that_cannot_be_is_named_with_its_remedy(check: str, problem: str) -> None:
    with pytest.raises(InvalidConfig) as failed:
        read_config(config("http://127.0.0.1:9/v1", check), source="config.yaml", env={})

    assert problem in str(failed.value).replace('"', "'")


def test_a_short_interval_shortens_the_time_for_an_answer() -> None:
    text = config("http://127.0.0.1:9/v1", "{path: /h, every_s: 5}")

    check = read_config(text, source="config.yaml", env={}).providers[0].health_check

    assert check is not None
    assert check.within_s == 5.0


class Accounts:
    """Answers a GET by its key. asked: the keys."""

    def __init__(self, **status: int) -> None:
        self.status = status
        self.asked: list[str] = []

    async def __call__(self, request: Received, answer: Answer) -> None:
        key = request.headers["authorization"].removeprefix("Bearer ")
        self.asked.append(key)
        headers = {"retry-after": "7"} if self.status[key] == 429 else {}
        await answer.json({}, self.status[key], headers)


@pytest.mark.parametrize(
    ("status", "fails", "asked"),
    [
        ({"a": 401, "b": 200}, "", ["a", "b"]),
        ({"a": 429, "b": 200}, "", ["a", "b"]),
        ({"a": 503, "b": 200}, "answers 503", ["a"]),
        ({"a": 401, "b": 503}, "answers 503", ["a", "b"]),
        ({"a": 429, "b": 401}, "answers 429", ["a", "b"]),
    ],
)
async def test_a_key_of_several_that_is_refused_does_not_fail_a_check(
    status: dict[str, int], fails: str, asked: list[str]
) -> None:
    vendor = Accounts(**status)
    async with provider(vendor) as remote:
        text = config(remote.base_url, "{path: /health}").replace(
            "api_key: sk-1", "api_keys: [a, b]"
        )
        (first,) = read_config(text, source="config.yaml", env={}).providers
        found = ""
        try:
            await get(first, "/health", "", 5.0, TlsContexts())
        except UpstreamError as exc:
            found = str(exc)
    assert fails in found
    assert bool(fails) == bool(found)
    assert vendor.asked == asked
