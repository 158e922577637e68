"""Routes as serving endpoints: traffic shares, fallbacks, and visibility per key."""

from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {{name: a, adapter: openai, base_url: "{url}", api_key: k}}
  - {{name: b, adapter: databricks, base_url: "{url}", api_key: k}}
  - {{name: c, adapter: openai, base_url: "{url}", api_key: k}}
models:
  - name: split
    backends:
      - {{provider: a, model: m, weight: 2}}
      - {{provider: b, model: org/m, weight: 1}}
      - {{provider: c, model: m, weight: 0}}
  - name: listed
    policy: in_order
    aliases: [by-another-name]
    fallback: [split]
    backends: [{{provider: c, model: m}}, {{provider: b, model: m}}]
  - name: even
    backends: [{{provider: a, model: m}}, {{provider: b, model: m}}, {{provider: c, model: m}}]
  - name: twice
    fallback: [split, even]
    backends: [{{provider: a, model: m}}]
  - name: gpt-*
    retry: {{attempts: 1}}
    breaker: {{min_requests: 1}}
    backends: [{{provider: a, model: "*"}}]
auth:
  mode: keys
  keys:
    - {{name: all, key: all}}
    - {{name: few, key: few, models: [split, "gpt-4*"]}}
"""
URL = "/api/2.0/serving-endpoints"


async def get(gateway: Serving, path: str, key: str = "all") -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as client:
        return await client.get(path)


def traffic(endpoint: dict[str, object]) -> dict[str, int]:
    config = cast("dict[str, dict[str, list[dict[str, object]]]]", endpoint["config"])
    routes = config["traffic_config"]["routes"]
    entities = cast("list[dict[str, object]]", config["served_entities"])
    assert [one["name"] for one in entities] == [one["served_entity_name"] for one in routes]
    return {
        cast(str, one["served_entity_name"]): cast(int, one["traffic_percentage"]) for one in routes
    }


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        ("split", {"a/m": 67, "b/org/m": 33, "c/m": 0}),
        ("listed", {"c/m": 100, "b/m": 0, "a/m": 0, "b/org/m": 0}),
        ("by-another-name", {"c/m": 100, "b/m": 0, "a/m": 0, "b/org/m": 0}),
        ("even", {"a/m": 34, "b/m": 33, "c/m": 33}),
        ("twice", {"a/m": 100, "b/org/m": 0, "c/m": 0, "b/m": 0}),
        ("gpt-5", {"a/gpt-5": 100}),
    ],
)
async def test_the_traffic_is_what_the_router_does(
    name: str, shares: dict[str, int], tmp_path: Path
) -> None:
    async with provider() as a, serving(CONFIG.format(url=a.base_url), tmp_path) as gateway:
        answer = await get(gateway, f"{URL}/{name}")

    assert answer.status_code == 200
    assert answer.json()["name"] == name
    assert traffic(answer.json()) == shares


async def test_the_entity_that_answers_has_the_name_that_is_shown(tmp_path: Path) -> None:
    async with (
        provider() as a,
        serving(CONFIG.format(url=a.base_url), tmp_path, seed=3) as gateway,
        httpx.AsyncClient(
            base_url=gateway.url, headers={"authorization": "Bearer all"}, timeout=60
        ) as client,
    ):
        shown = traffic((await client.get(f"{URL}/split")).json())
        answers = [
            await client.post(
                "/serving-endpoints/split/invocations",
                json={"messages": [{"role": "user", "content": "hi"}]},
            )
            for _ in range(30)
        ]

    served = [answer.headers["served-model-name"] for answer in answers]
    assert served == [answer.headers["x-gateway-backend"] for answer in answers]
    assert set(served) == {name for name, share in shown.items() if share}


@pytest.mark.parametrize("name", ["org/chat", "org%2Fchat"])
async def test_a_name_with_a_slash_may_be_quoted(name: str, tmp_path: Path) -> None:
    async with provider() as a:
        config = CONFIG.format(url=a.base_url).replace("even", "org/chat")
        async with (
            serving(config, tmp_path) as gateway,
            httpx.AsyncClient(
                base_url=gateway.url, headers={"authorization": "Bearer all"}, timeout=60
            ) as client,
        ):
            shown = await client.get(f"{URL}/{name}")
            answer = await client.post(
                f"/serving-endpoints/{name}/invocations",
                json={"messages": [{"role": "user", "content": "hi"}]},
            )

    assert shown.json()["name"] == "org/chat"
    assert answer.status_code == 200


async def test_the_list_has_every_name_that_a_key_may_use(tmp_path: Path) -> None:
    async with provider() as a, serving(CONFIG.format(url=a.base_url), tmp_path) as gateway:
        every = (await get(gateway, f"{URL}/")).json()["endpoints"]
        few = (await get(gateway, URL, "few")).json()["endpoints"]
        one = (await get(gateway, f"{URL}/split", "few")).json()

    names = {endpoint["name"] for endpoint in every}
    assert names == {"split", "listed", "by-another-name", "even", "twice"}
    assert len({endpoint["id"] for endpoint in every}) == len(names)
    assert few == [one]


@pytest.mark.parametrize(
    ("name", "key", "status"),
    [
        ("gpt-4-mini", "few", 200),
        ("gpt-5", "few", 404),
        ("even", "few", 404),
        ("none", "all", 404),
        ("gpt-*", "all", 404),
    ],
)
async def test_a_name_is_shown_to_those_who_may_use_it(
    name: str, key: str, status: int, tmp_path: Path
) -> None:
    async with provider() as a, serving(CONFIG.format(url=a.base_url), tmp_path) as gateway:
        answer = await get(gateway, f"{URL}/{name}", key)

    assert answer.status_code == status
    assert status == 200 or answer.json()["error_code"] == "RESOURCE_DOES_NOT_EXIST"


async def test_an_endpoint_whose_only_backend_cools_down_is_not_ready(tmp_path: Path) -> None:
    async def busy(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "slow down"}}, 429, {"retry-after": "60"})

    async def fails(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "boom"}}, 500)

    states: list[tuple[str, str, str]] = []
    for behaviour in (busy, fails):
        async with (
            provider(behaviour) as a,
            serving(CONFIG.format(url=a.base_url), tmp_path) as gateway,
            httpx.AsyncClient(
                base_url=gateway.url, headers={"authorization": "Bearer all"}, timeout=60
            ) as client,
        ):
            before = (await client.get(f"{URL}/gpt-5")).json()["state"]["ready"]
            await client.post("/serving-endpoints/gpt-5/invocations", json={"prompt": "x"})
            shown = (await client.get(f"{URL}/gpt-5")).json()
            (entity,) = shown["config"]["served_entities"]
            states.append((before, shown["state"]["ready"], entity["state"]["deployment"]))
            assert entity["state"]["deployment_state_message"]

    assert states == [("READY", "NOT_READY", "DEPLOYMENT_RECOVERING")] * 2


async def test_what_serves_a_model_is_shown_in_the_services_terms(tmp_path: Path) -> None:
    async with provider() as a, serving(CONFIG.format(url=a.base_url), tmp_path) as gateway:
        shown = (await get(gateway, f"{URL}/split")).json()

    entities = shown["config"]["served_entities"]
    assert shown["task"] == "llm/v1/chat"
    assert [one["external_model"]["provider"] for one in entities] == [
        "openai",
        "databricks-model-serving",
        "openai",
    ]
    assert entities[1]["entity_name"] == "org/m"
    assert shown["creation_timestamp"] == gateway.state.processes.status.started_at * 1000
