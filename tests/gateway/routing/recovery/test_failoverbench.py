"""What failoverbench says of a gateway that declares its providers as `openai`.

Its verdicts with the defaults, with `stream_recovery: continue` and limits of 10 s, and with
`stream_recovery: restart`.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from strowger_gateway.gateway.backends.upstream.patience import USUAL
from tests.gateway.routing.recovery.bench_scenarios import (
    SCENARIOS,
    WHOLE,
    Bench,
    Verdict,
    stalls_after,
    verdict,
)
from tests.gateway.routing.recovery.continuing import ask
from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

TENTH = "{silence_s: 1, first_token_s: 1, between_tokens_s: 1}"
"""The 10 s of an operator who wants to fail over soon, ten times as fast."""

PATIENT = "{silence_s: 4.5, first_token_s: 15, between_tokens_s: 4}"
"""The defaults, in proportion to the times of the scenarios."""

ALL_PASS: Mapping[str, Verdict] = dict.fromkeys(SCENARIOS, "pass")
DEFAULTS: Mapping[str, Verdict] = {
    **ALL_PASS,
    "S07": "partial",
    **dict.fromkeys(("S08", "S09", "S10", "S14"), "safe"),
}
"""S07: the default waits for minutes, because prompts are long and models think. The others need
`stream_recovery`: what a client has received cannot be taken back."""


def config(url: str, timeouts: str, continues: str, recovery: str) -> str:
    providers, models = ["providers:"], ["models:"]
    for name in SCENARIOS:
        for place in ("first", "second"):
            base = f"{url}/{name}/{place}/v1"
            providers.append(
                f"  - {{name: {place}-{name}, adapter: openai, base_url: {base}, {continues}\n"
                f"     timeouts: {timeouts}}}"
            )
        models.append(
            f"  - {{name: {name}, backends: [{{provider: first-{name}, model: m}}],\n"
            f"     fallback: [spare-{name}], {recovery}\n"
            "     fallback_by_error:\n"
            f"       [{{codes: [context_length_exceeded], models: [spare-{name}]}}]}}\n"
            f"  - {{name: spare-{name}, backends: [{{provider: second-{name}, model: fb-ok}}]}}"
        )
    return "\n".join([*providers, *models])


async def verdicts(
    tmp_path: Path, timeouts: str, continues: str = "", recovery: str = ""
) -> dict[str, Verdict]:
    """Of all scenarios at once."""
    bench = Bench()
    async with provider(bench) as remote:
        async with serving(config(remote.origin, timeouts, continues, recovery), tmp_path) as one:
            seen = await asyncio.gather(*(bench.observe(one.url, name) for name in SCENARIOS))
    named = zip(SCENARIOS.items(), seen, strict=True)
    return {name: verdict(scenario, found) for (name, scenario), found in named}


async def test_with_the_defaults_nothing_fails_and_eleven_scenarios_pass(tmp_path: Path) -> None:
    """S15, which is the sixteenth, passes in test_outages.py."""
    found = await verdicts(tmp_path, PATIENT)

    assert found == DEFAULTS
    assert Counter(found.values())["pass"] + 1 >= 11


def test_the_default_silence_leaves_room_within_the_hundred_seconds_of_s06() -> None:
    assert USUAL.silence_s < 100


@pytest.mark.parametrize("form", ["assistant_turn", "continue_final_message", "prefix", "partial"])
async def test_with_stream_recovery_and_a_declared_form_every_scenario_passes(
    form: str, tmp_path: Path
) -> None:
    recovery = "stream_recovery: continue, retry: {attempts: 4},"

    assert await verdicts(tmp_path, TENTH, f"continues: {form},", recovery) == ALL_PASS


async def test_a_stream_that_is_held_until_it_is_complete_passes_every_scenario(
    tmp_path: Path,
) -> None:
    assert await verdicts(tmp_path, TENTH, "", "stream_recovery: restart,") == ALL_PASS


@asynccontextmanager
async def stalling(tmp_path: Path) -> AsyncGenerator[str]:
    """A stream that stalls for 30 s, with our defaults."""

    async def behave(request: Received, answer: Answer) -> None:
        first = request.path.startswith("/first")
        scenario = SCENARIOS["S09"]
        turn = stalls_after(20, 30.0) if first else scenario.second
        await turn(request, answer, 0)

    async with provider(behave) as remote:
        text = f"""
providers:
  - {{name: first, adapter: vllm, base_url: {remote.origin}/first/v1}}
  - {{name: second, adapter: vllm, base_url: {remote.origin}/second/v1}}
models:
  - name: chat
    stream_recovery: continue
    policy: in_order
    backends: [{{provider: first, model: m}}, {{provider: second, model: m}}]
"""
        async with serving(text, tmp_path) as gateway:
            yield gateway.url


@pytest.mark.nightly
async def test_s09_is_completed_at_its_own_times(tmp_path: Path) -> None:
    """A stall of 30 s with our defaults, within the 45 s that the benchmark allows."""
    async with stalling(tmp_path) as url:
        began = time.monotonic()

        got = await ask(url)

        assert (got.text, got.error, got.finish, got.done) == (WHOLE, "", "stop", True)
        assert time.monotonic() - began < 45
