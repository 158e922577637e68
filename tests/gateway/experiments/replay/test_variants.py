"""Requests that ask for a variant: which keys may, and that none of them counts."""

from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.routing.planning.enrolment import ExperimentStatus
from tests.gateway.experiments.recorded_gateway import stand
from tests.gateway.experiments.replay.replaying import KEY, PRICED, Site, prompts, site

pytestmark = pytest.mark.anyio
TRIAL = """
  - name: chat
    when: [{features: [tools], backends: [v/backup]}]
    backends:
      - {provider: v, model: old, weight: 1}
      - {provider: v, model: new, weight: 1}
      - {provider: v, model: backup, weight: 0}
experiments:
  - name: trial
    model: chat
    primary: thumbs_up
    replay_keys: [REPLAYER]
    variants:
      - {name: control, backend: v/old, weight: 50}
      - {name: treatment, backend: v/new, weight: 50}
"""
BACKUP = PRICED + "  - {match: v/backup, input: 100, output: 100}\n"
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


def experiment(key: str = "replayer") -> str:
    return TRIAL.replace("REPLAYER", key) + BACKUP


async def ask(here: Site, variant: str, **more: object) -> httpx.Response:
    headers = {"authorization": f"Bearer {KEY}", "x-gateway-replay": variant}
    body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], **more}
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(f"{here.up.url}/v1/chat/completions", json=body, headers=headers)


@pytest.mark.parametrize("variant", ["control", "treatment"])
@pytest.mark.parametrize("more", [{}, {"user": "ada"}, {"tools": TOOLS}], ids=str)
async def test_a_replay_gets_the_variant_that_it_asks_for_and_does_not_count(
    tmp_path: Path, variant: str, more: dict[str, object]
) -> None:
    async with site(tmp_path, more=experiment()) as here:
        stand(here.up, ExperimentStatus(epoch=1))
        answer = await ask(here, f"trial/{variant}", **more)
        (line,) = here.up.access_lines()

    assert answer.status_code == 200, answer.text
    assert answer.headers["x-gateway-replay"] == f"trial/{variant}"
    assert "x-gateway-variant" not in answer.headers
    assert (
        answer.headers["x-gateway-backend"] == {"control": "v/old", "treatment": "v/new"}[variant]
    )
    assert (line.experiment, line.variant) == ("", "")


@pytest.mark.parametrize("keys", ["other", ""], ids=["another key", "no keys"])
async def test_a_key_that_is_not_listed_gets_no_variant(tmp_path: Path, keys: str) -> None:
    async with site(tmp_path, more=experiment(keys)) as here:
        stand(here.up, ExperimentStatus(epoch=1))
        answer = await ask(here, "trial/control")

    assert answer.status_code == 403
    assert "'replayer' is not in replay_keys of the experiment trial" in answer.text
    assert here.vendor.requests == []


@pytest.mark.parametrize("asked", ["trial/other", "other/control", "control", ""])
async def test_an_unknown_variant_is_named_with_those_that_there_are(
    tmp_path: Path, asked: str
) -> None:
    async with site(tmp_path, more=experiment()) as here:
        answer = await ask(here, asked)

    assert answer.status_code == 400
    assert "must be one of trial/control, trial/treatment" in answer.text


async def test_variants_of_an_experiment_are_replayed(tmp_path: Path) -> None:
    async with site(tmp_path, more=experiment()) as here:
        file = here.file(prompts(6))
        found = await here.replay(
            "--from", str(file), "--judge", "judge", "--max-usd", "20",
            "--answer-tokens", "100", "--judge-tokens", "100",
        )  # fmt: skip
        report = await here.report()

    assert found.exit_code == 0, found.output
    assert [arm["name"] for arm in report["arms"]] == ["control", "treatment"]
    assert [arm["backends"] for arm in report["arms"]] == [{"v/old": 6}, {"v/new": 6}]


@pytest.mark.parametrize("added", ["prompt", "prompt of the request", "system"])
async def test_what_the_gateway_adds_to_a_request_is_within_the_bound(
    tmp_path: Path, added: str
) -> None:
    long = tmp_path / "long.md"
    long.write_text("Be brief. " * 2_000 + "{{ word }}" * 50)
    text = "Be brief. " * 2_000
    more = {
        "prompt": "prompt: long@1",
        "prompt of the request": "set: {}",
        "system": f"set: {{system: '{text}'}}",
    }[added]
    treatment = "{name: treatment, backend: v/new, weight: 50"
    changed = experiment().replace(treatment, f"{treatment}, {more}")
    changed += f"prompts: [{{name: long, versions: [{{version: 1, file: {long}}}]}}]\n"
    values = {"word": "word " * 100}
    line = {"messages": [{"role": "user", "content": "hi"}]}
    if added != "system":
        line |= {"prompt_id": "long", "prompt_variables": values}
    async with site(tmp_path, more=changed) as here:
        file = here.file([line])
        found = await here.replay(
            "--from", str(file), "--judge", "judge", "--max-tokens", "9000",
            "--answer-tokens", "10", "--judge-tokens", "10",
        )  # fmt: skip

    assert "The next pair could exceed the bound" in found.output
    assert here.vendor.requests == []


async def test_a_model_in_an_experiment_is_no_arm(tmp_path: Path) -> None:
    async with site(tmp_path, more=experiment()) as here:
        file = here.file(prompts(6))
        found = await here.replay(
            "--from", str(file), "--arms", "old,chat", "--judge", "judge", "--max-usd", "20",
            name="other",
        )  # fmt: skip

    assert "--arms: requests to chat take part in the experiment trial" in found.output
