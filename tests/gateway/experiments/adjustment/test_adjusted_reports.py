"""Reports on the wire of experiments whose costs the prompts drive."""

import random
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec
import pytest
from click.testing import CliRunner

from strowger_gateway.gateway.cli.main import strowger
from strowger_gateway.gateway.experiments.process_side import ExperimentsSide
from strowger_gateway.gateway.storage.sql.experiments.unit_pages import pages
from tests.gateway.content.prompts.prompted import config as prompted
from tests.gateway.experiments.recorded_gateway import (
    ADMIN,
    BEARER,
    Recorded,
    ask,
    config,
    recorded,
    report,
)
from tests.stand_ins.provider import Answer, Received, chat_body, provider

pytestmark = pytest.mark.anyio

CONTROL = "{name: control, backend: a/old, weight: 1}"
PRICES = "prices: [{match: a/*, input: 1, output: 10}]"
USERS = 120
Json = dict[str, Any]


async def priced(request: Received, answer: Answer) -> None:
    """Four characters are a token; answers have 20 to 60 tokens, those of `old` a quarter more."""
    body = cast("Json", request.json)
    text = str(body["messages"][-1]["content"])
    drawn = blake2b(text.encode(), digest_size=1).digest()[0]
    completion = (20 + drawn * 40 // 255) * (5 if body["model"] == "old" else 4) // 4
    prompt = len(text) // 4
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    await answer.json({**chat_body(), "usage": usage})


async def visits(
    up: Recorded, turn: str, length: Callable[[random.Random, str], int]
) -> Counter[str]:
    """Every user sends two requests; return the users by variant.

    length: a factor, by chance and the variant so far.
    """
    users: Counter[str] = Counter()
    for user in range(USERS):
        own = random.Random(f"{user}")
        chance = random.Random(f"{user} {turn}")
        variant, base = "", own.lognormvariate(6.5, 0.8)
        for number in range(2):
            size = int(base * chance.lognormvariate(0, 0.3)) * length(chance, variant)
            text = f"{user} {turn} {number} " + "x" * size
            answer = await ask(up.running, f"user-{user}", text)
            assert answer.status_code == 200
            variant = answer.headers["x-gateway-variant"]
        users[variant] += 1
    return users


def text_of(base_url: str, weight: int, more: str) -> str:
    arms = f"{CONTROL}, {{name: treatment, backend: a/new, weight: {weight}}}"
    primary = more + "\n    planned: 400"
    other = f"{ADMIN}\n{PRICES}"
    return config(base_url, arms, primary, other=other).replace(
        "primary: thumbs_up", "primary: cost_usd"
    )


def same(rng: random.Random, variant: str) -> int:
    return 1


def plan(folder: Path, text: str) -> Json:
    """How many units find a difference of 0.01 cents, as the command says from the store."""
    file = folder / "planned.yaml"
    file.write_text(f"{text}\nstore: {{url: 'sqlite:///{folder / 'strowger.db'}'}}\n")
    words = ("plan", "--from", "trial", "--lift", "0.0001", "--json", "--config", str(file))
    (found,) = msgspec.json.decode(CliRunner().invoke(strowger, ["experiments", *words]).stdout)
    return cast("Json", found)


async def page_of(up: Recorded) -> str:
    """The page at /admin, with the reports as of now."""
    jobs = up.running.state.side(ExperimentsSide).jobs
    assert jobs is not None
    await jobs.history.update()
    async with httpx.AsyncClient(timeout=60) as client:
        return (await client.get(f"{up.running.url}/admin", headers=BEARER)).text


def measured(found: Json, metric: str) -> tuple[Json, Json]:
    """The metric, and its row of the treatment."""
    (one,) = [one for one in found["metrics"] if one["name"] == metric]
    return one, one["variants"][1]


async def test_an_interval_is_narrower_where_prompts_and_the_past_explain_the_cost(
    tmp_path: Path,
) -> None:
    adjust = "    adjust: [prompt_tokens, past]"
    async with provider(priced) as remote:
        async with recorded(text_of(remote.base_url, 0, adjust), tmp_path) as up:
            await visits(up, "before", same)
            up.settle()
            first = await report(up)
            planned = plan(tmp_path, text_of(remote.base_url, 0, adjust))
            without = plan(tmp_path, text_of(remote.base_url, 0, ""))
        async with recorded(text_of(remote.base_url, 1, adjust), tmp_path) as up:
            drawn = await visits(up, "after", same)
            up.settle()
            found = await report(up)
            page = await page_of(up)

    metric, row = measured(found, "cost_usd")
    raw, adjustment = row["unadjusted"], metric["adjustment"]
    assert (found["adjust"], found["baseline_epochs"]) == (["prompt_tokens", "past"], [1])
    assert found["differing"] == []
    assert {one["name"]: one["units"] for one in found["arms"]} == drawn
    assert found["split_p"] > 0.01
    assert adjustment["used"]
    tokens, past = adjustment["covariates"]
    assert tokens["theta"] == pytest.approx(1e-6, rel=0.2)
    assert (tokens["coverage"], past["coverage"]) == (1, 1)
    assert row["low"] < row["difference"] < row["high"] < 0
    assert row["high"] - row["low"] < 0.5 * (raw["high"] - raw["low"])
    assert raw["low"] < 0 < raw["high"]
    assert row["unadjusted"]["explained"] > 0.75
    assert found["sentence"].startswith("treatment is better than control: cost_usd −")
    (sentence,) = [one for one in adjustment["sentences"] if "takes off" in one]
    assert sentence.startswith("cost_usd of treatment: adjusted by prompt_tokens, past, which")
    assert f"<li>{sentence}.</li>" in page
    assert planned["baseline"]["explained"] > 0.7
    assert planned["units"] < 0.3 * without["units"]
    assert without["baseline"]["explained"] == 0
    assert measured(found, "error")[0]["adjustment"]["used"] is False
    assert measured(first, "cost_usd")[1]["unadjusted"] is None
    assert "too few units of several variants" in str(first["metrics"])


async def test_prompts_that_the_variant_makes_longer_are_not_adjusted_for(tmp_path: Path) -> None:
    """As in a conversation, whose next prompt contains the variant's longer answer."""

    def longer(rng: random.Random, variant: str) -> int:
        return 6 if variant == "treatment" else 1

    async with provider(priced) as remote:
        text = text_of(remote.base_url, 1, "    adjust: [prompt_tokens]")
        async with recorded(text, tmp_path) as up:
            await visits(up, "after", longer)
            await visits(up, "again", longer)
            up.settle()
            found = await report(up)
            page = await page_of(up)
            file = tmp_path / "again.yaml"
            file.write_text(f"{text}\nstore: {{url: 'sqlite:///{tmp_path / 'strowger.db'}'}}\n")
            shown = CliRunner().invoke(
                strowger, ["experiments", "report", "trial", "--config", str(file)]
            )

    metric, row = measured(found, "cost_usd")
    (warning,) = found["differing"]
    assert warning.startswith("PROMPTS DIFFER: prompts of treatment are longer than those of")
    assert "cost_usd" in warning
    assert warning.endswith("compared without adjustment")
    assert not metric["adjustment"]["used"]
    assert row["unadjusted"] is None
    assert "not adjusted, because prompt_tokens differs" in metric["adjustment"]["sentences"][0]
    assert shown.stdout.index("PROMPTS DIFFER") < shown.stdout.index("Verdict:")
    assert page.index("PROMPTS DIFFER") < page.index(found["sentence"][:24])


async def test_without_adjust_no_prompt_is_measured_and_nothing_is_adjusted(tmp_path: Path) -> None:
    async with provider(priced) as remote:
        async with recorded(text_of(remote.base_url, 1, ""), tmp_path) as up:
            await visits(up, "after", same)
            up.running.state.log.flush()
            assert all(not getattr(row, "attributes", None) for row in up.recorder.rows)
            up.settle()
            found = await report(up)

    assert found["adjust"] == []
    assert all(one["adjustment"] is None for one in found["metrics"])
    assert all(row["unadjusted"] is None for one in found["metrics"] for row in one["variants"])


async def test_the_tokens_are_those_of_the_client_and_not_of_the_variant(tmp_path: Path) -> None:
    """A variant's system prompt does not count: a long one would look like long prompts."""
    arms = (
        "{name: control, backend: a/old, weight: 1}, {name: treatment, backend: a/new, weight: 1,"
        " set: {system: '" + "be brief " * 50 + "'}}"
    )
    async with provider(priced) as remote:
        text = config(remote.base_url, arms, "    adjust: [prompt_tokens]", other=ADMIN)
        async with recorded(text, tmp_path) as up:
            for user in range(40):
                await ask(up.running, f"user-{user}", "x" * 400)
            up.settle()
            with up.store.database.reading() as session:
                rows = [one for page in pages(session, "trial") for one in page]

    tokens = [one for one in rows if one.metric == "prompt_tokens"]
    assert len({one.variant for one in tokens}) == 2
    assert {one.total for one in tokens} == {104.0}


async def test_a_longer_prompt_of_a_variant_is_no_longer_prompt_of_the_client(
    tmp_path: Path,
) -> None:
    files = {"help@1": "Help.\n--- user ---\n{{ text }}\n", "help@2": "Help {{ text }}. " * 50}
    variants = (
        "{name: control, weight: 1, prompt: help@1}, {name: treatment, weight: 1, prompt: help@2}"
    )
    async with provider(priced) as remote:
        experiments = (
            "experiments: [{name: trial, model: chat, assign_by: 'header:x-session-id', "
            f"primary: error, adjust: [prompt_tokens], variants: [{variants}]}}]"
        )
        text = prompted(remote.base_url, tmp_path, experiments, files=files)
        async with recorded(text, tmp_path) as up:
            for user in range(24):
                named = {"prompt_id": "help", "prompt_variables": {"text": "x" * 391}}
                answer = await ask(up.running, f"user-{user}", "hi", body=named)
                assert answer.status_code == 200, answer.text
            up.settle()
            with up.store.database.reading() as session:
                rows = [one for page in pages(session, "trial") for one in page]

    tokens = [one for one in rows if one.metric == "prompt_tokens"]
    assert len({one.variant for one in tokens}) == 2
    assert {one.total for one in tokens} == {5 + 101}


def test_a_past_without_units_that_return_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    text = config("http://127.0.0.1:9/v1", more="    adjust: [past, past]")
    file.write_text(text.replace("header:x-session-id", "request"))

    found = CliRunner().invoke(strowger, ["check", str(file)])

    assert found.exit_code == 1
    assert "experiments[0].adjust[0]: with assign_by: request each request is" in found.output
    assert 'experiments[0].adjust[1]: "past" is already in the list' in found.output


def test_prompt_tokens_are_not_a_metric(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    text = config("http://127.0.0.1:9/v1").replace("primary: thumbs_up", "primary: prompt_tokens")
    file.write_text(text)

    found = CliRunner().invoke(strowger, ["check", str(file)])

    assert found.exit_code == 1
    assert '"prompt_tokens" is measured before a variant is chosen' in found.output
