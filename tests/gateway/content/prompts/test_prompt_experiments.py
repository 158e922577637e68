"""Experiments whose variants have prompts: who gets which version, and who takes no part."""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import httpx
import msgspec
import pytest

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.removed import definition
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentStatus, fingerprint
from tests.gateway.content.prompts.prompted import (
    TEXTS,
    config,
    past,
    prompted_gateway,
    send,
    texts,
    written,
)
from tests.gateway.experiments.recorded_gateway import BEARER, report, stand
from tests.gateway.experiments.recorded_gateway import recorded as recorded_gateway
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Provider, provider

pytestmark = pytest.mark.anyio

HI = [{"role": "user", "content": "hi"}]
SESSIONS = [f"session-{number}" for number in range(12)]
Gateway = tuple[Serving, Provider]


def trial(*variants: str, more: str = "") -> str:
    listed = ", ".join(
        f"{{name: {name}, weight: 1, {what}}}"
        for name, what in zip(("control", "treatment"), variants, strict=True)
    )
    return (
        "experiments:\n  - {name: trial, model: chat, assign_by: 'header:x-session-id', "
        f"primary: error, variants: [{listed}]{more}}}"
    )


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Gateway, None]:
    more = trial("prompt: support@1", "prompt: support@2")
    async with prompted_gateway(tmp_path_factory.mktemp("run"), more) as found:
        stand(found[0], ExperimentStatus(epoch=1))
        yield found


async def variants_of(
    gateway: Gateway, body: dict[str, object], sessions: Sequence[str] = SESSIONS
) -> dict[str, set[str]]:
    """Return the first message that the vendor got, by variant."""
    running, vendor = gateway
    found: dict[str, set[str]] = {}
    for session in sessions:
        answer = await send(running, {"messages": HI, **body}, headers={"x-session-id": session})
        assert answer.status_code == 200, answer.text
        variant = answer.headers.get("x-gateway-variant", "")
        found.setdefault(variant, set()).add(texts(vendor)[0][1])
    return found


@pytest.mark.parametrize("version", [{}, {"prompt_version": "1"}, {"prompt_version": "2"}])
async def test_a_request_gets_its_variants_version_in_place_of_the_one_that_it_names(
    gateway: Gateway, version: dict[str, object]
) -> None:
    values: dict[str, object] = {"prompt_id": "support", "prompt_variables": {"customer": "Ada"}}

    found = await variants_of(gateway, {**values, **version})

    assert found == {
        "control": {"You help customers of Example Ltd."},
        "treatment": {"You help Ada of Example Ltd."},
    }
    recorded = {
        (one.variant, (one.attributes or {})["prompt"])
        for one in gateway[0].access_lines()[-len(SESSIONS) :]
    }
    assert recorded == {("control", "support@1"), ("treatment", "support@2")}


@pytest.mark.parametrize(
    ("body", "first", "why"),
    [
        (
            {"prompt_id": "support"},
            "You help customers of Example Ltd.",
            "support@2 needs a value of customer",
        ),
        ({}, "hi", "support@2 needs a value of customer"),
        (
            {"prompt_id": "summary", "prompt_variables": {"text": "x", "customer": "Ada"}},
            "Be brief.",
            "it names the prompt summary, and a variant has support@1",
        ),
    ],
)
async def test_what_does_not_fit_every_variant_takes_no_part_and_is_answered_as_it_asks(
    gateway: Gateway, body: dict[str, object], first: str, why: str
) -> None:
    assert await variants_of(gateway, body) == {"": {first}}
    answer = await send(gateway[0], {"messages": HI, **body}, headers={"x-session-id": "s"})
    excluded = (await past(gateway[0], answer))["excluded"]
    assert excluded["code"] == "prompt"
    assert f"does not fit this request ({why})" in excluded["words"]


async def test_a_request_without_a_message_takes_part_if_every_variant_ends_with_the_users(
    tmp_path: Path,
) -> None:
    more = trial("prompt: summary@a", "prompt: summary@b")
    async with prompted_gateway(tmp_path, more) as found:
        stand(found[0], ExperimentStatus(epoch=1))
        body: dict[str, object] = {"prompt_id": "summary", "prompt_variables": {"text": "x"}}

        assert await variants_of(found, {**body, "messages": []}) == {"": {"Be brief."}}
        assert (await variants_of(found, body)).keys() == {"control", "treatment"}
        answer = await send(found[0], {**body, "messages": []}, headers={"x-session-id": "s"})
        words = (await past(found[0], answer))["excluded"]["words"]

    assert "it has no message, and summary@b does not end with a user section" in words


@pytest.mark.parametrize(
    ("status", "code"),
    [(ExperimentStatus(epoch=1, paused=True, reason="by hand"), "paused"), (None, "no_unit")],
)
async def test_without_an_assignment_the_controls_version_serves(
    tmp_path: Path, status: ExperimentStatus | None, code: str
) -> None:
    more = trial("prompt: support@2", "prompt: support@1")
    async with prompted_gateway(tmp_path, more) as found:
        stand(found[0], status or ExperimentStatus(epoch=1))
        body: dict[str, object] = {
            "messages": HI,
            "prompt_id": "support",
            "prompt_variables": {"customer": "Ada"},
        }
        headers = {} if status is None else {"x-session-id": "s"}
        answer = await send(found[0], body, headers=headers)

        assert texts(found[1])[0][1] == "You help Ada of Example Ltd."
        assert (await past(found[0], answer))["excluded"]["code"] == code


async def test_a_variant_without_a_prompt_leaves_the_requests_own(tmp_path: Path) -> None:
    more = trial("backend: a/m", "prompt: support@1")
    async with prompted_gateway(tmp_path, more) as found:
        stand(found[0], ExperimentStatus(epoch=1))
        unnamed = await variants_of(found, {})
        values = {"customer": "Ada"}
        body: dict[str, object] = {
            "prompt_id": "support",
            "prompt_version": "2",
            "prompt_variables": values,
        }
        named = await variants_of(found, body)
        empty = await send(found[0], {"messages": []}, headers={"x-session-id": SESSIONS[0]})

        system = "You help customers of Example Ltd."
        assert unnamed == {"control": {"hi"}, "treatment": {system}}
        assert named == {"control": {"You help Ada of Example Ltd."}, "treatment": {system}}
        assert empty.status_code == 400


async def test_a_rule_about_length_takes_requests_from_all_variants_alike(tmp_path: Path) -> None:
    """Version 2 is longer than version 1 by its examples, so that the rule matches it alone."""
    long = {**TEXTS, "support@2": TEXTS["support@2"] + "word " * 400}
    rules = "when: [{tokens_over: 200, backends: [a/large]}]"
    more = trial("prompt: support@1", "prompt: support@2")
    async with prompted_gateway(tmp_path, more, rules, long) as found:
        stand(found[0], ExperimentStatus(epoch=1))
        body: dict[str, object] = {"prompt_id": "support", "prompt_variables": {"customer": "Ada"}}

        assert await variants_of(found, body) == {"": {"You help customers of Example Ltd."}}
        answer = await send(found[0], {"messages": HI, **body}, headers={"x-session-id": "s"})
        assert (await past(found[0], answer))["excluded"]["code"] == "rule"


def test_a_changed_text_is_another_epoch(tmp_path: Path) -> None:
    def mark(text: str) -> tuple[str, str, str]:
        section = written(tmp_path, {**TEXTS, "support@2": text})
        more = trial("prompt: support@1", "prompt: support@2")
        read = read_config(
            one_model("http://127.0.0.1:9", f"{section}\n{more}"), source="c.yaml", env={}
        )
        arm = read.experiments[0].variants[1]
        return fingerprint(read.experiments[0]), arm.prompt_text, read.digest

    first, second, again = mark("One."), mark("Two."), mark("One.")

    assert (first[1], second[1]) == ("One.", "Two.")
    assert first == again
    assert first[0] != second[0]
    assert first[2] != second[2]


@pytest.mark.parametrize("variants", [("prompt: support@1", "prompt: support@2"), ("", "")])
def test_what_the_store_keeps_of_an_experiment_has_the_texts_and_can_be_read(
    tmp_path: Path, variants: tuple[str, str]
) -> None:
    prompts = written(tmp_path)
    arms = [one or f"backend: remote/m-{place}" for place, one in enumerate(variants)]
    text = one_model("http://127.0.0.1:9", f"{prompts}\n{trial(*arms)}")
    (experiment,) = read_config(text, source="c.yaml", env={}).experiments

    again = msgspec.json.decode(definition(experiment), type=Experiment)

    assert again == experiment
    assert [one.prompt_text for one in again.variants] == [
        TEXTS.get(one.removeprefix("prompt: "), "") for one in variants
    ]


async def test_a_report_shows_the_prompt_of_each_variant(tmp_path: Path) -> None:
    more = trial("prompt: support@1", "prompt: support@2")
    async with provider() as vendor:
        text = config(vendor.base_url, tmp_path, more)
        async with recorded_gateway(text, tmp_path) as up:
            found = await report(up)
            async with httpx.AsyncClient(headers=BEARER, timeout=60) as client:
                page = (await client.get(f"{up.running.url}/admin/live")).text

    assert [(one["name"], one["prompt"]) for one in found["arms"]] == [
        ("control", "support@1"),
        ("treatment", "support@2"),
    ]
    assert "a/m, support@2" in page


async def test_what_a_budget_sends_to_another_model_takes_no_part_in_its_experiment(
    tmp_path: Path,
) -> None:
    """It has the prompt that it was given before."""
    other = "\n  - {name: cheap, backends: [{provider: a, model: m-2}]}"
    more = trial("prompt: support@1", "prompt: support@1", more=", aa: true") + (
        "\n  - {name: other, model: cheap, assign_by: 'header:x-session-id', primary: error, "
        "variants: [{name: control, weight: 1, prompt: support@1}, "
        "{name: treatment, weight: 1, prompt: support@2}]}\n"
        "prices: [{match: a/m, input: 1000000, output: 0}, {match: a/m-2, input: 0, output: 0}]\n"
        "budgets: [{name: b, who: {any: true}, usd: 0.000001, on_exceeded: {use_model: cheap}}]\n"
    )
    async with prompted_gateway(tmp_path, more, other) as found:
        stand(found[0], ExperimentStatus(epoch=1))
        values: dict[str, object] = {"prompt_variables": {"customer": "Ada"}}
        served = await variants_of(found, {"prompt_id": "support", **values})
        body = {"messages": HI, "prompt_id": "support", **values}
        answer = await send(found[0], body, headers={"x-session-id": "s"})
        excluded = (await past(found[0], answer))["excluded"]

    assert served[""] == {"You help customers of Example Ltd."}
    assert (excluded["experiment"], excluded["code"]) == ("other", "prompt")
    assert "before it came to this model" in excluded["words"]


async def test_a_replay_gets_the_prompt_of_the_variant_that_it_asks_for(tmp_path: Path) -> None:
    more = trial("prompt: support@1", "prompt: support@2", more=", replay_keys: [judge]")
    keys = "keys: [{name: judge, key: key-of-judge-0000}], mode: keys, "
    async with provider() as vendor:
        text = config(vendor.base_url, tmp_path, more).replace("auth: {", f"auth: {{{keys}")
        async with serving(text, tmp_path) as gateway:

            async def replayed(variant: str, values: dict[str, str]) -> httpx.Response:
                headers = {
                    "x-gateway-replay": f"trial/{variant}",
                    "authorization": "Bearer key-of-judge-0000",
                }
                body = {"messages": HI, "prompt_id": "support", "prompt_variables": values}
                return await send(gateway, body, headers=headers)

            firsts: list[str] = []
            for variant in ("control", "treatment"):
                answer = await replayed(variant, {"customer": "Ada"})
                assert answer.status_code == 200, answer.text
                firsts.append(texts(vendor)[0][1])
            unfit = await replayed("treatment", {})

    assert firsts == ["You help customers of Example Ltd.", "You help Ada of Example Ltd."]
    assert unfit.status_code == 400
    assert "support@2 needs a value of customer" in unfit.json()["error"]["message"]
