"""`POST /v1/feedback`: callers, requests, metrics and limits."""

import time
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.experiments.feedback import MOST_METRICS, is_young
from strowger_gateway.gateway.storage.sql.rows import FeedbackRow
from tests.gateway.experiments.recorded_gateway import Recorded, behave, config, recorded
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

KEYS = "auth: {mode: keys, keys: [{name: ann, key: key-ann}, {name: bob, key: key-bob}]}"
OLD = "01936f2e-1234-7abc-8def-0123456789ab"


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Recorded, None]:
    async with provider(behave) as remote:
        text = config(remote.base_url, other=KEYS)
        async with recorded(text, tmp_path_factory.mktemp("store")) as up:
            yield up


async def post(up: Recorded, path: str, body: object, key: str = "key-ann") -> httpx.Response:
    headers = {"authorization": f"Bearer {key}", "x-session-id": "s"}
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(f"{up.running.url}{path}", json=body, headers=headers)


async def tell(
    up: Recorded, request_id: str, key: str = "key-ann", **more: object
) -> httpx.Response:
    return await post(up, "/v1/feedback", {"request_id": request_id, **more}, key)


async def answered(up: Recorded) -> str:
    """The id of a request of ann's."""
    body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
    answer = await post(up, "/v1/chat/completions", body)
    assert answer.status_code == 200
    return answer.headers["x-gateway-request-id"]


def votes(up: Recorded, metric: str) -> float:
    """The sum of a metric's values in the store."""
    return sum(cell.total for cell in up.store.outcomes("trial", metric).cells)


async def test_feedback_that_comes_before_its_request_is_joined_later(gateway: Recorded) -> None:
    request_id = await answered(gateway)

    early = await tell(gateway, request_id, metric="early", value=True)
    gateway.settle()
    late = await tell(gateway, request_id, metric="late", value=2.5)
    gateway.settle()

    assert (early.status_code, early.json()) == (202, {"status": "accepted"})
    assert (late.status_code, late.json()) == (200, {"status": "recorded"})
    assert (votes(gateway, "early"), votes(gateway, "late")) == (1.0, 2.5)
    assert gateway.store.metrics("trial")["early"].boolean
    assert not gateway.store.metrics("trial")["late"].boolean


async def test_of_one_request_and_metric_the_last_vote_counts_once(gateway: Recorded) -> None:
    request_id = await answered(gateway)

    for value in (True, True, False, True):
        await tell(gateway, request_id, metric="twice", value=value)
        gateway.settle()

    assert votes(gateway, "twice") == 1.0
    assert sum(cell.count for cell in gateway.store.outcomes("trial", "twice").cells) == 1


@pytest.mark.parametrize("settled", [True, False])
async def test_another_keys_request_cannot_be_judged(gateway: Recorded, settled: bool) -> None:
    request_id = await answered(gateway)
    if settled:
        gateway.settle()

    metric = f"foreign_{settled}".lower()
    answer = await tell(gateway, request_id, "key-bob", metric=metric, value=True)
    gateway.settle()

    assert answer.status_code == (404 if settled else 202)
    assert votes(gateway, metric) == 0


async def test_an_unknown_and_a_foreign_id_get_the_same_error(gateway: Recorded) -> None:
    foreign = await answered(gateway)
    gateway.settle()

    answers = {
        name: await tell(gateway, name, "key-bob", metric="liked", value=True)
        for name in (foreign, OLD, "nonsense")
    }

    for name, answer in answers.items():
        error = answer.json()["error"]
        assert answer.status_code == 404
        assert (error["code"], error["param"]) == ("request_not_found", "request_id")
        assert error["message"].replace(name, "ID") == (
            "request_id: this key made no request 'ID'; send the x-gateway-request-id of the "
            "answer, with the key that made the request"
        )


async def test_a_comment_needs_no_metric(gateway: Recorded) -> None:
    request_id = await answered(gateway)

    answer = await tell(gateway, request_id, comment="It was late, and wrong.")

    row = gateway.recorder.rows[-1]
    assert answer.status_code == 202
    assert isinstance(row, FeedbackRow)
    assert (row.metric, row.value, row.comment) == ("comment", None, "It was late, and wrong.")


FAULTS = [
    ({"metric": "liked"}, "value", "give a boolean or a number, or a comment"),
    ({"value": 1}, "metric", "is missing; a value needs a name"),
    ({"metric": "Liked!", "value": 1}, "metric", "is not a valid name"),
    ({"metric": "latency_ms", "value": 1}, "metric", "is reserved for the gateway"),
    (
        {"metric": "liked", "value": "yes"},
        "value",
        "value: give true, false or a number, not in quotes",
    ),
    ({"metric": "liked", "value": 1e13}, "value", "must be between -1e+12 and 1e+12"),
    ({"metric": "liked", "value": 10**400}, "value", "must be between -1e+12 and 1e+12"),
    ({"metric": "liked", "comment": "x"}, "value", "is missing for metric 'liked'"),
    ({"comment": "x" * 9000}, "comment", "at most 8192"),
    (
        {"metric": "liked", "value": 1, "vlaue": 2},
        "vlaue",
        "vlaue: is unknown; the fields are",
    ),
]


@pytest.mark.parametrize(("body", "param", "told"), FAULTS)
async def test_invalid_feedback_is_refused_by_field(
    gateway: Recorded, body: dict[str, object], param: str | None, told: str
) -> None:
    answer = await post(gateway, "/v1/feedback", {"request_id": OLD, **body})

    error = answer.json()["error"]
    assert answer.status_code == 400
    assert error["param"] == param
    assert told in error["message"]


async def test_feedback_needs_a_key_a_small_body_and_json(gateway: Recorded) -> None:
    url = f"{gateway.running.url}/v1/feedback"
    headers = {"authorization": "Bearer key-ann"}
    async with httpx.AsyncClient(timeout=60) as client:
        nobody = await client.post(url, json={"request_id": OLD, "comment": "x"})
        large = await client.post(url, content=b" " * 70_000, headers=headers)
        noise = await client.post(url, content=b"\xff{", headers=headers)

    assert [nobody.status_code, large.status_code, noise.status_code] == [401, 413, 400]


async def test_the_number_of_metrics_is_bounded_and_experiments_own_are_always_taken(
    tmp_path: Path,
) -> None:
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url, other=KEYS), tmp_path) as up:
            request_id = await answered(up)
            codes = [
                (await tell(up, request_id, metric=f"m{number}", value=1)).status_code
                for number in range(MOST_METRICS + 1)
            ]
            own = await tell(up, request_id, metric="thumbs_up", value=True)

    assert codes == [202] * MOST_METRICS + [400]
    assert own.status_code == 202


async def test_feedback_is_described_for_clients(gateway: Recorded) -> None:
    async with httpx.AsyncClient(timeout=60) as client:
        paths = (await client.get(f"{gateway.running.url}/openapi.json")).json()["paths"]

    schema = paths["/v1/feedback"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(schema["properties"]) == {"request_id", "metric", "value", "comment"}


def test_an_id_contains_its_age() -> None:
    at = int("01936f2e1234", 16) / 1e3

    assert is_young(OLD, at + 59)
    assert not is_young(OLD, at + 61)
    assert not is_young(OLD, time.time())
    assert not is_young(OLD.replace("7abc", "4abc"), at)
