"""A run that is stopped in any way is continued by the same command, within the same bound."""

import asyncio
import os
import pty
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from strowger_gateway.gateway.storage.sql.open import open_existing
from strowger_gateway.schemas.secret import Secret
from tests.gateway.experiments.replay.replaying import (
    ARMS,
    CALL_USD,
    PRICED,
    behave,
    new_wins,
    prompts,
    said_to,
    site,
)
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio
IN_FLIGHT = 4


async def test_a_run_that_is_killed_twice_comes_to_the_true_win_rate(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        file = here.file(prompts(500))
        words = ("--from", str(file), *ARMS, "--max-usd", "20")
        for asked in (300, 1100):
            async with here.started(*words) as process:
                await here.vendor.until(lambda asked=asked: len(here.vendor.requests) >= asked)
                process.send_signal(signal.SIGKILL)
                await process.wait()
        found = await here.replay(*words)
        report = await here.report()

    assert found.exit_code == 0, found.output
    truth = sum(new_wins(f"question {number}") for number in range(500)) / 500
    assert report["counted"] == 500
    assert report["win_rate"]["rate"] == pytest.approx(truth)
    assert report["win_rate"]["low"] <= 0.6 <= report["win_rate"]["high"]
    assert report["win_rate"]["finding"] == "better"
    counts = Counter(str(one.json["model"]) for one in here.vendor.requests)
    again = sum(counts.values()) - 2000
    assert 0 <= again <= 2 * IN_FLIGHT
    texts = Counter((str(one.json["model"]), said_to(one)) for one in here.asked("old", "new"))
    assert len(texts) == 1000
    assert 2000 * CALL_USD <= report["usd"] <= 20
    unknown = report["usd"] - 2000 * CALL_USD
    assert (unknown > 0) == (again > 0)


async def test_a_run_stops_before_its_bound_and_continues_with_a_higher_one(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as here:
        file = here.file(prompts(60))
        words = ("--from", str(file), *ARMS, "--concurrency", "2")
        stopped = await here.replay(*words, "--max-usd", "0.6")
        part = await here.report()
        asked = len(here.vendor.requests)
        still = await here.replay(*words, "--max-usd", "0.6")
        unchanged = len(here.vendor.requests)
        done = await here.replay(*words, "--max-usd", "20")

    assert "The next pair could exceed the bound: it may cost $0." in stopped.output
    assert " of $0.60." in stopped.output
    assert "The same command continues; " in stopped.output
    assert 0 < part["decided"] < 60
    assert part["counted"] == part["decided"]
    assert part["usd"] == pytest.approx(asked * CALL_USD)
    assert part["usd"] < 0.6
    assert (asked, still.exit_code) == (unchanged, 0)
    assert "All pairs are decided. Spent: $0.2400 of $20.00." in done.output


async def test_another_command_with_the_same_name_is_told_what_differs(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        file = here.file(prompts(3))
        await here.replay("--from", str(file), *ARMS, "--max-usd", "20")
        asked = len(here.vendor.requests)
        other = here.file(prompts(4), "other.jsonl")
        found = await here.replay("--from", str(other), *ARMS, "--max-usd", "20", "--sample", "7")

    assert found.exit_code == 1
    assert "trial exists, and this command differs from it; give another --run" in found.output
    assert "--from: is other.jsonl, was prompts.jsonl" in found.output
    assert "--sample: is 7, was 500" in found.output
    assert len(here.vendor.requests) == asked


async def test_two_commands_never_work_on_one_run(tmp_path: Path) -> None:
    async def slow(request: Received, answer: Answer) -> None:
        await asyncio.sleep(0.05)
        await behave(request, answer)

    async with site(tmp_path, slow) as here:
        file = here.file(prompts(200))
        words = ("--from", str(file), *ARMS, "--max-usd", "20")
        async with here.started(*words) as process:
            await here.vendor.until(lambda: len(here.vendor.requests) >= 8)
            second = await here.replay(*words)
            process.send_signal(signal.SIGINT)
            said = (await process.communicate())[0].decode()
        report = await here.report()

    assert second.exit_code == 1
    assert "trial: another command works on it (process " in second.output
    assert process.returncode == 130, said
    assert "Interrupted. Spent: $" in said
    assert report["usd"] == pytest.approx(len(here.vendor.requests) * CALL_USD)
    assert report["ended"] == "interrupted"


async def test_a_run_that_another_command_begins_meanwhile_is_continued(tmp_path: Path) -> None:
    """The first command waits for its prompts, in a pipe, until the second one has made the run."""
    async with site(tmp_path) as here:
        file = here.file(prompts(5))
        pipe = tmp_path / "pipe" / file.name
        pipe.parent.mkdir()
        os.mkfifo(pipe)
        options = (*ARMS, "--max-usd", "20")
        first = asyncio.create_task(here.replay("--from", str(pipe), *options))
        await asyncio.to_thread(pipe.write_bytes, file.read_bytes())  # for the digest
        while _is_open(pipe):  # noqa: ASYNC110  nothing reports it
            await asyncio.sleep(0.01)
        with await asyncio.to_thread(pipe.open, "wb") as prompts_of_first:
            second = await here.replay("--from", str(file), *options)
            prompts_of_first.write(file.read_bytes())
        found = await first

    assert (second.exit_code, found.exit_code) == (0, 0), found.output
    assert "All pairs are decided" in found.output
    assert len(here.vendor.requests) == 20


def _is_open(path: Path) -> bool:
    """Whether this process has the file open."""
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if link.readlink() == path:
                return True
    return False


async def test_a_second_interrupt_ends_the_command_at_once(tmp_path: Path) -> None:
    async def stuck(request: Received, answer: Answer) -> None:
        await answer.gone.wait()

    async with site(tmp_path, stuck) as here:
        file = here.file(prompts(10))
        words = ("--from", str(file), *ARMS, "--max-usd", "20")
        async with here.started(*words) as process:
            await here.vendor.until(lambda: len(here.vendor.requests) >= IN_FLIGHT)
            process.send_signal(signal.SIGINT)
            await asyncio.sleep(0.5)
            alive = process.returncode is None
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(60):
                await process.wait()
        report = await here.report()

    assert alive
    assert process.returncode != 0
    assert (report["decided"], report["working"]) == (0, False)
    assert report["usd"] > IN_FLIGHT * CALL_USD, "what came of the calls is unknown"


async def test_a_terminal_gets_a_bar(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        file = here.file(prompts(20))
        words = ("--from", str(file), *ARMS, "--max-usd", "20")
        ours, theirs = pty.openpty()
        async with here.started(*words, stderr=theirs) as process:
            os.close(theirs)
            await process.wait()
        shown = os.read(ours, 1 << 20).decode()
        os.close(ours)

    assert process.returncode == 0
    assert "20/20" in shown
    assert "$0.0800 of $20.00" in shown


async def test_what_stops_a_run_between_two_attempts_costs_no_arm_its_pair(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        file = here.file(prompts(20))
        words = ("--from", str(file), *ARMS, "--max-usd", "20")
        refused = await here.replay(*words, key="wrong")
        part = await here.report()
        continued = await here.replay(*words)
        report = await here.report()

    assert (refused.exit_code, continued.exit_code) == (1, 0)
    assert "gave no answer" not in refused.output
    assert sum(arm["failed"] for arm in part["arms"]) == 0
    assert report["by"] == {"judge": 20}


async def test_a_run_that_is_interrupted_while_it_waits_costs_no_arm_its_pair(
    tmp_path: Path,
) -> None:
    full = False

    async def quota(request: Received, answer: Answer) -> None:
        if full:
            await answer.json({"error": {"message": "slow down"}}, 429, {"retry-after": "3"})
        else:
            await behave(request, answer)

    async with site(tmp_path, quota) as here:
        file = here.file(prompts(30))
        words = ("--from", str(file), *ARMS, "--max-usd", "20")
        async with here.started(*words) as process:
            await here.vendor.until(lambda: len(here.vendor.requests) >= 20)
            full = True
            refused = len(here.vendor.requests) + 1
            await here.vendor.until(lambda: len(here.vendor.requests) >= refused)
            await asyncio.sleep(0.5)
            process.send_signal(signal.SIGINT)
            said = (await process.communicate())[0].decode()
        full = False
        continued = await here.replay(*words)
        report = await here.report()

    assert process.returncode == 130, said
    assert continued.exit_code == 0, continued.output
    assert report["by"] == {"judge": 30}
    assert report["unjudged"] == 0


async def test_attempts_that_the_gateway_repeats_are_within_the_bound(tmp_path: Path) -> None:
    async def cuts(request: Received, answer: Answer) -> None:
        if request.json["model"] == "new":
            await answer.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{")
            answer.close()
        else:
            await behave(request, answer)

    async with site(tmp_path, cuts) as here:
        file = here.file(prompts(1))
        found = await here.replay("--from", str(file), *ARMS, "--max-usd", "20")
        report = await here.report()

    sent = len(here.asked("new"))
    assert report["by"] == {"failed": 1}, found.output
    assert sent > 3
    assert report["arms"][1]["usd"] >= sent * 0.0001 * 100


HEDGED = """
  - name: hedged
    policy: in_order
    hedge_after_s: 0.1
    backends: [{provider: v, model: slow}, {provider: v, model: new}]
"""


async def test_both_backends_of_a_hedge_are_within_the_bound(tmp_path: Path) -> None:
    async def slow(request: Received, answer: Answer) -> None:
        if request.json["model"] == "slow":
            await asyncio.wait_for(answer.gone.wait(), 30)
        else:
            await behave(request, answer)

    prices = PRICED + "  - {match: v/slow, input: 100, output: 100}\n"
    async with site(tmp_path, slow, HEDGED + prices) as here:
        file = here.file(prompts(1))
        arms = ("--arms", "old,hedged", *ARMS[2:])
        found = await here.replay("--from", str(file), *arms, "--max-usd", "20")
        report = await here.report()

    assert [one["failed"] for one in report["arms"]] == [0, 0], found.output
    assert len(here.asked("slow")) == 1
    assert report["arms"][1]["usd"] > 0.01 + CALL_USD


async def test_the_next_pair_names_what_it_may_cost(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        file = here.file([{**one, "max_tokens": 10**30} for one in prompts(1)])
        dollars = await here.replay("--from", str(file), *ARMS, "--max-usd", "0.001")
        tokens = await here.replay("--from", str(file), *ARMS, "--max-tokens", "100")

    assert dollars.exit_code == tokens.exit_code == 0
    assert "it may cost $" in dollars.output
    assert "Spent: $0.0000 of $0.001." in dollars.output
    assert "0 of 100 tokens" in tokens.output
    assert here.vendor.requests == []


async def test_a_run_whose_texts_are_deleted_while_it_works_says_so(tmp_path: Path) -> None:
    async def slow(request: Received, answer: Answer) -> None:
        await asyncio.sleep(0.05)
        await behave(request, answer)

    async with site(tmp_path, slow) as here:
        file = here.file(prompts(300))
        words = ("--from", str(file), *ARMS, "--max-usd", "20")
        async with here.started(*words) as process:
            await here.vendor.until(lambda: len(here.vendor.requests) >= 20)
            store = open_existing(Secret(f"sqlite:///{tmp_path / 'store.db'}"))
            await asyncio.to_thread(store.prune, 0.0, 0.0, payloads_before=time.time() + 1)
            store.close()
            said = (await process.communicate())[0].decode()
        again = await here.replay(*words)

    assert process.returncode == 1, said
    assert "Its texts are deleted (store.keep_payload_days). Spent: $" in said
    assert "trial: its texts are deleted (store.keep_payload_days)" in again.output
