"""Enrolment of requests: units, variants, and the requests that reach the backends."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from strowger_gateway.gateway.routing.planning.enrolment import ExperimentStatus
from tests.gateway.experiments.recorded_gateway import (
    ask,
    behave,
    config,
    stand,
    variant_of,
)
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Provider, provider

pytestmark = pytest.mark.anyio

SESSIONS = [f"session-{number}" for number in range(40)]
SETTING = (
    "{name: control, backend: a/old, weight: 50}, {name: treatment, backend: a/old, weight: 50, "
    "set: {temperature: 0.25, system: Be brief.}}"
)
RUNNING = ExperimentStatus(epoch=1)
ADMIN_KEY = "key-of-the-operator"
Gateway = tuple[Serving, Provider]


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Gateway, None]:
    rules = (
        "    fallback: [spare]\n    when: [{header: {x-tier: gold}, backends: [a/gold]}]\n"
        "    fallback_by_error: [{codes: [context_length_exceeded], models: [spare]}]"
    )
    async with provider(behave) as remote:
        text = config(remote.base_url, model_more=rules, other=f"auth: {{admin_key: {ADMIN_KEY}}}")
        async with serving(text, tmp_path_factory.mktemp("run")) as running:
            stand(running, RUNNING)
            yield running, remote


async def shares(text: str, run_dir: Path) -> dict[str, str]:
    """Return the variant of every session on a new gateway."""
    async with serving(text, run_dir) as running:
        stand(running, RUNNING)
        return {session: await variant_of(running, session) for session in SESSIONS}


async def session_of(running: Serving, variant: str) -> str:
    for session in SESSIONS:
        if await variant_of(running, session) == variant:
            return session
    raise AssertionError(f"no unit is in {variant}")


async def seen_by_the_operator(running: Serving, request_id: str) -> tuple[dict[str, Any], str]:
    """Return a request as the operator sees it: in JSON, and in its row of the page."""
    bearer = {"authorization": f"Bearer {ADMIN_KEY}"}
    async with httpx.AsyncClient(base_url=running.url, headers=bearer, timeout=60) as client:
        past = await client.get(f"/admin/requests/{request_id}")
        page = (await client.get("/admin/live")).text
    assert past.status_code == 200, past.text
    return past.json(), page.partition(f'id="r-{request_id}"')[2].partition("</details>")[0]


async def test_a_unit_gets_the_same_variant_on_every_gateway_and_after_a_restart(
    gateway: Gateway, tmp_path: Path
) -> None:
    here = {session: await variant_of(gateway[0], session) for session in SESSIONS}

    elsewhere = await shares(config(gateway[1].base_url), tmp_path)
    restarted = await shares(config(gateway[1].base_url), tmp_path)

    assert here == elsewhere == restarted
    assert set(here.values()) == {"control", "treatment"}


async def test_a_ramp_moves_units_only_into_the_variant_that_grows(
    gateway: Gateway, tmp_path: Path
) -> None:
    treated: list[set[str]] = []
    for weight in (10, 25, 50):
        arms = (
            f"{{name: control, backend: a/old, weight: {100 - weight}}},"
            f"{{name: treatment, backend: a/new, weight: {weight}}}"
        )
        found = await shares(config(gateway[1].base_url, arms), tmp_path)
        treated.append({session for session, variant in found.items() if variant == "treatment"})

    assert treated[0] < treated[1] < treated[2]


async def test_the_arms_backend_answers_and_the_answer_names_the_arm(gateway: Gateway) -> None:
    running, _ = gateway

    for variant, backend in (("control", "a/old"), ("treatment", "a/new")):
        answer = await ask(running, await session_of(running, variant))

        assert answer.headers["x-gateway-experiment"] == "trial"
        assert answer.headers["x-gateway-variant"] == variant
        assert answer.headers["x-gateway-backend"] == backend


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("variant", "own"), [("control", "old"), ("treatment", "new")])
async def test_when_an_arm_fails_no_other_arm_answers(
    gateway: Gateway, variant: str, own: str, stream: bool
) -> None:
    running, remote = gateway
    session = await session_of(running, variant)
    before = len(remote.requests)

    first = await ask(running, session, f"{own} is down", stream=stream)
    second = await ask(running, session, f"{own} is down, backup is down", stream=stream)

    line = running.access_lines()[-1]
    asked = {request.json["model"] for request in remote.requests[before:]}
    assert first.headers["x-gateway-backend"] == "a/backup"
    assert second.headers["x-gateway-backend"] == "a/s"
    assert first.headers["x-gateway-variant"] == second.headers["x-gateway-variant"] == variant
    assert (line.experiment, line.variant, line.fallback) == ("trial", variant, True)
    assert asked == {own, "backup", "s"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("variant", "own"), [("control", "old"), ("treatment", "new")])
async def test_where_an_arm_is_too_small_for_a_request_no_other_arm_answers_either(
    gateway: Gateway, variant: str, own: str, stream: bool
) -> None:
    running, remote = gateway
    session = await session_of(running, variant)
    before = len(remote.requests)

    found = [await ask(running, session, f"{own} is full", stream=stream) for _ in range(6)]

    asked = [request.json["model"] for request in remote.requests[before:]]
    assert {one.headers["x-gateway-backend"] for one in found} == {"a/s"}
    assert asked == [own, "s"] * 6
    assert running.access_lines()[-1].variant == variant


async def test_a_request_without_a_unit_gets_control_and_is_counted_as_excluded(
    gateway: Gateway,
) -> None:
    answers = [await ask(gateway[0]) for _ in range(4)]

    line = gateway[0].access_lines()[-1]
    metrics = (await gateway[0].state.processes.metrics_text())[0].decode()
    counted = 'strowger_experiment_requests_total{experiment="trial",fallback="no",variant=""}'
    assert {answer.headers["x-gateway-backend"] for answer in answers} == {"a/old"}
    assert not any("x-gateway-variant" in answer.headers for answer in answers)
    assert (line.experiment, line.variant) == ("trial", "")
    assert f"{counted} 4.0" in metrics


async def test_a_rule_that_matches_wins_and_its_requests_take_no_part(gateway: Gateway) -> None:
    running, _ = gateway
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(
            f"{running.url}/v1/chat/completions",
            json={"model": "chat", "messages": [{"role": "user", "content": "hi"}]},
            headers={"x-tier": "gold", "x-session-id": SESSIONS[0]},
        )

    line = running.access_lines()[-1]
    assert answer.headers["x-gateway-backend"] == "a/gold"
    assert "x-gateway-variant" not in answer.headers
    assert line.experiment == ""


@pytest.mark.parametrize("standing", [ExperimentStatus(epoch=2, paused=True), ExperimentStatus()])
async def test_while_paused_or_unknown_control_serves_all_and_no_request_counts(
    gateway: Gateway, standing: ExperimentStatus
) -> None:
    running, _ = gateway
    session = await session_of(running, "treatment")

    stand(running, standing)
    answer = await ask(running, session)
    stand(running, RUNNING)
    resumed = await ask(running, session)

    assert answer.headers["x-gateway-backend"] == "a/old"
    assert "x-gateway-variant" not in answer.headers
    assert resumed.headers["x-gateway-variant"] == "treatment"


REASONS: list[tuple[ExperimentStatus, str, dict[str, str], str, str]] = [
    (
        RUNNING,
        "",
        {},
        "no_unit",
        "the request has no header x-session-id, and the control serves it",
    ),
    (RUNNING, SESSIONS[0], {"x-tier": "gold"}, "rule", "a `when` rule decides"),
    (
        ExperimentStatus(epoch=2, paused=True, reason="too slow"),
        SESSIONS[0],
        {},
        "paused",
        "(too slow)",
    ),
    (
        ExperimentStatus(),
        SESSIONS[0],
        {},
        "unknown",
        "the state of the experiment is not loaded from the store yet",
    ),
]


@pytest.mark.parametrize(("standing", "session", "headers", "code", "words"), REASONS)
async def test_a_past_request_shows_why_it_was_excluded_from_the_experiment(
    gateway: Gateway,
    standing: ExperimentStatus,
    session: str,
    headers: dict[str, str],
    code: str,
    words: str,
) -> None:
    running, _ = gateway

    stand(running, standing)
    answer = await ask(running, session, headers=headers)
    stand(running, RUNNING)

    request_id = answer.headers["x-gateway-request-id"]
    past, page = await seen_by_the_operator(running, request_id)
    assert past["variant"] == ""
    assert (past["excluded"]["experiment"], past["excluded"]["code"]) == ("trial", code)
    assert words in past["excluded"]["words"]
    assert f"Excluded from trial: {past['excluded']['words']}." in page


async def test_a_past_request_that_counts_was_left_out_of_nothing(gateway: Gateway) -> None:
    running, _ = gateway
    session = await session_of(running, "control")
    answer = await ask(running, session, "old is down")

    past, page = await seen_by_the_operator(running, answer.headers["x-gateway-request-id"])

    assert (past["variant"], past["excluded"]) == ("control", None)
    assert "It still counts for control." in page


async def test_what_a_variant_sets_wins_and_control_is_unchanged(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "You are kind.", "name": "house"},
        {"role": "user", "content": "hi"},
    ]
    async with provider(behave) as remote:
        text = config(remote.base_url, SETTING, model_more="    overrides: {temperature: 0.9}")
        async with serving(text, tmp_path) as running:
            stand(running, RUNNING)
            for variant in ("control", "treatment"):
                session = await session_of(running, variant)
                await ask(running, session, messages=messages)
                sent = remote.requests[-1].json
                if variant == "control":
                    assert sent["temperature"] == 0.9
                    assert sent["messages"] == messages
                else:
                    system = {**messages[0], "content": "Be brief.\n\nYou are kind."}
                    assert sent["temperature"] == 0.25
                    assert sent["messages"] == [system, messages[1]]


async def test_a_kind_of_request_that_cannot_say_system_takes_no_part(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        async with serving(config(remote.base_url, SETTING), tmp_path) as running:
            stand(running, RUNNING)
            session = await session_of(running, "treatment")

            answer = await ask(running, session, path="/v1/completions", prompt="hi")
            (past,) = await running.state.processes.recent(1)

    assert answer.status_code == 200
    assert past.excluded is not None
    assert past.excluded.code == "wrong_task"
    assert "x-gateway-variant" not in answer.headers


ELSEWHERE = [
    ("/v1/completions", {"prompt": "hi"}),
    ("/v1/completions", {"prompt": [1, 2, 3]}),
    ("/v1/embeddings", {"input": "hi"}),
    ("/v1/chat/completions", {"stream": True}),
    ("/serving-endpoints/chat/invocations", {"messages": [{"role": "user", "content": "hi"}]}),
    ("/v2/models/chat/generate", {"text_input": "hi", "max_tokens": 5}),
]


@pytest.mark.parametrize(("path", "body"), ELSEWHERE)
async def test_every_surface_takes_part_equally(
    gateway: Gateway, path: str, body: dict[str, object]
) -> None:
    for variant in ("control", "treatment"):
        session = await session_of(gateway[0], variant)

        answer = await ask(gateway[0], session, path=path, body=body)

        assert answer.status_code == 200, answer.text
        assert answer.headers["x-gateway-variant"] == variant


async def test_a_known_unit_is_explained_also_for_an_outage_of_its_backend(
    gateway: Gateway,
) -> None:
    """The cached plan of a unit is that of the real state of the backends."""
    running, _ = gateway
    session = await session_of(running, "treatment")
    body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
    headers = {"authorization": f"Bearer {ADMIN_KEY}", "x-session-id": session}

    async with httpx.AsyncClient(base_url=running.url, headers=headers, timeout=60) as client:
        as_it_is = await client.post("/admin/explain", json=body)
        broken = await client.post("/admin/explain", json=body, params={"down": "a/new"})

    first = [answer.json()["candidates"][0]["backend"] for answer in (as_it_is, broken)]
    assert first == ["a/new", "a/backup"]
