"""`show_variant: false`: nothing of an answer tells which variant it is from."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.experiments.recorded_gateway import (
    ADMIN,
    Recorded,
    ask,
    behave,
    config,
    recorded,
    report,
)
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

HIDDEN = "    show_variant: false"
TELLING = ("x-gateway-variant", "x-gateway-experiment", "x-gateway-backend", "x-gateway-hedged")


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Recorded]:
    async with provider(behave) as remote:
        text = config(remote.base_url, more=HIDDEN, other=ADMIN)
        async with recorded(text, tmp_path_factory.mktemp("store")) as up:
            yield up


def models_in(text: str) -> set[str]:
    """Of an answer, or of all frames of a stream."""
    if not text.startswith("data:"):
        return {json.loads(text)["model"]}
    frames = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
    return {json.loads(frame)["model"] for frame in frames}


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/v1/chat/completions", {}),
        ("/v1/chat/completions", {"stream": True}),
        ("/v1/chat/completions", {"n": 2}),
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/embeddings", {"input": "hi"}),
    ],
)
async def test_answers_of_both_variants_look_alike(
    gateway: Recorded, path: str, more: dict[str, object]
) -> None:
    answers = [
        await ask(gateway.running, f"s{number}", path=path, body=more) for number in range(12)
    ]

    assert {answer.status_code for answer in answers} == {200}
    assert {frozenset(models_in(answer.text)) for answer in answers} == {frozenset({"chat"})}
    assert not [name for answer in answers for name in TELLING if name in answer.headers]
    texts = " ".join(answer.text + str(answer.headers) for answer in answers)
    assert not [name for name in ("a/old", "a/new", "fingerprint") if name in texts]
    assert all("x-gateway-request-id" in answer.headers for answer in answers)


async def test_errors_name_the_model(gateway: Recorded) -> None:
    down = "old is down, new is down, backup is down"

    answers = [await ask(gateway.running, f"s{number}", down) for number in range(12)]

    messages = {answer.json()["error"]["message"] for answer in answers}
    assert {answer.status_code for answer in answers} == {502}
    assert not [one for one in messages if "a/old" in one or "a/new" in one]


async def test_feedback_needs_no_variant_and_operators_see_it(gateway: Recorded) -> None:
    before: dict[str, Any] = await report(gateway)
    for number in range(20):
        answer = await ask(gateway.running, f"v{number}")
        vote = {
            "request_id": answer.headers["x-gateway-request-id"],
            "metric": "thumbs_up",
            "value": True,
        }
        async with httpx.AsyncClient(timeout=60) as client:
            sent = await client.post(f"{gateway.running.url}/v1/feedback", json=vote)
        assert sent.status_code == 202
    gateway.settle()
    found: dict[str, Any] = await report(gateway)

    (votes,) = [one for one in found["metrics"] if one["name"] == "thumbs_up"]
    assert sum(one["observations"] for one in votes["variants"]) == 20
    assert all(one["observations"] for one in votes["variants"])
    assert sum(arm["requests"] for arm in found["arms"]) > sum(
        arm["requests"] for arm in before["arms"]
    )


async def test_requests_outside_of_the_experiment_keep_their_headers(gateway: Recorded) -> None:
    answer = await ask(gateway.running)

    assert answer.headers["x-gateway-backend"] == "a/old"
    assert "x-gateway-variant" not in answer.headers


async def test_variants_are_shown_unless_that_is_turned_off(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url), tmp_path) as up:
            answers = [await ask(up.running, f"s{number}") for number in range(12)]

    assert {answer.headers["x-gateway-variant"] for answer in answers} == {"control", "treatment"}
    assert {answer.headers["x-gateway-backend"] for answer in answers} == {"a/old", "a/new"}
