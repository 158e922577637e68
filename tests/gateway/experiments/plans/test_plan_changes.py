"""A plan that was changed after the start is named above the verdict."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from strowger_gateway.gateway.cli.main import strowger
from tests.gateway.experiments.recorded_gateway import (
    ADMIN,
    ARMS,
    ask,
    behave,
    config,
    recorded,
    report,
)
from tests.stand_ins.provider import Provider, provider

pytestmark = pytest.mark.anyio

BEFORE = ARMS.replace("a/new, weight: 50", "a/new, weight: 0")


async def run(
    remote: Provider, folder: Path, more: str, arms: str = ARMS, requests: int = 3
) -> str:
    """Serve some requests under a configuration; return what its report says of the plan."""
    async with recorded(config(remote.base_url, arms, more, other=ADMIN), folder) as up:
        for number in range(requests):
            assert (await ask(up.running, f"user-{number}")).status_code == 200
        up.settle()
        return str((await report(up))["plan_changed"])


async def test_a_plan_may_change_before_the_comparison_and_is_named_afterwards(
    tmp_path: Path,
) -> None:
    async with provider(behave) as remote:
        first = await run(remote, tmp_path, "    planned: 500", BEFORE)
        ready = await run(remote, tmp_path, "    adjust: [past]", BEFORE)
        started = await run(remote, tmp_path, "    adjust: [past]")
        changed = await run(
            remote, tmp_path, "    adjust: [prompt_tokens, past]\n    planned: 12000"
        )
        again = await run(remote, tmp_path, "    planned: 700\n    smallest: 0.1")
        back = await run(remote, tmp_path, "    adjust: [past]")

    assert (first, ready, started, back) == ("", "", "", "")
    assert changed.startswith(
        "PLAN CHANGED after 9 requests: planned was 10,000 and is 12,000; "
        "adjust was past and is prompt_tokens and past. "
    )
    assert again.startswith(
        "PLAN CHANGED after 9 requests: planned was 10,000 and is 700; smallest was none and is "
        "0.1; adjust was past and is none. "
    )


async def test_other_settings_are_no_part_of_the_plan(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        await run(remote, tmp_path, "    planned: 500")
        weights = ARMS.replace("weight: 50}", "weight: 80}")
        ramped = await run(
            remote,
            tmp_path,
            "    planned: 500\n    harm_limits: [{metric: error, worse_by: 0.5}]",
            weights,
        )

    assert ramped == ""


async def test_a_decision_that_is_added_later_stands_above_the_verdict(tmp_path: Path) -> None:
    more = "    decide: {better: latency_ms, not_worse: [{metric: error, by: 0.01}]}"
    async with provider(behave) as remote:
        await run(remote, tmp_path, "")
        text = config(remote.base_url, more=more)
        file = tmp_path / "later.yaml"
        file.write_text(f"{text}\nstore: {{url: 'sqlite:///{tmp_path / 'strowger.db'}'}}\n")
        words = ["experiments", "report", "trial", "--config", str(file)]
        shown = CliRunner().invoke(strowger, words).stdout

    told = "decide was none and is better latency_ms, error not worse by 0.01"
    assert shown.index("PLAN CHANGED after 3 requests: ") < shown.index(told)
    assert shown.index(told) < shown.index("Verdict: ")
