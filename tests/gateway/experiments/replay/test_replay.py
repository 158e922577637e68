"""`strowger experiments replay` with a running gateway: the verdict, and what it rests on."""

import asyncio
import csv
import io
import json
from itertools import pairwise
from pathlib import Path

import pytest

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


async def test_the_better_arm_is_found_in_pairs_that_a_judge_compares(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        file = here.file(prompts(40))

        found = await here.replay("--from", str(file), *ARMS, "--max-usd", "20")
        report = await here.report()

    assert found.exit_code == 0, found.output
    assert (report["pairs"], report["decided"], report["counted"]) == (40, 40, 40)
    wins = sum(new_wins(f"question {number}") for number in range(40))
    assert report["win_rate"]["rate"] == pytest.approx(wins / 40)
    assert report["win_rate"]["order"]["consistent"] == 1.0
    assert report["usd"] == pytest.approx(160 * CALL_USD)
    assert "All pairs are decided. Spent: $0.1600 of $20.00." in found.output


async def test_requests_are_those_of_the_key_and_name_no_user(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        file = here.file([{"messages": [{"role": "user", "content": "hi"}], "user": "ada"}])

        await here.replay("--from", str(file), *ARMS, "--max-usd", "20")
        lines = here.up.access_lines()

    assert len(lines) == 4
    assert {line.key for line in lines} == {"replayer"}
    assert all("ada" not in one.body.decode() for one in here.vendor.requests)


async def test_a_judge_that_prefers_a_place_decides_nothing(tmp_path: Path) -> None:
    async def always_a(request: Received, answer: Answer) -> None:
        if request.json["model"] == "judge":
            await answer.chat('{"reason": "the first one", "verdict": "A"}')
        else:
            await behave(request, answer)

    async with site(tmp_path, always_a) as here:
        file = here.file(prompts(30))
        found = await here.replay("--from", str(file), *ARMS, "--max-usd", "20")
        report = await here.report()

    assert report["win_rate"]["rate"] == 0.5
    assert report["win_rate"]["order"]["first"] == 1.0
    assert report["win_rate"]["order"]["consistent"] == 0.0
    assert "the judge prefers the answer shown first" in found.output


async def test_a_judge_without_a_verdict_is_asked_once_more_and_then_counted(
    tmp_path: Path,
) -> None:
    async def refuses(request: Received, answer: Answer) -> None:
        if request.json["model"] == "judge":
            await answer.chat("I cannot compare these.")
        else:
            await behave(request, answer)

    async with site(tmp_path, refuses) as here:
        file = here.file(prompts(5))
        found = await here.replay("--from", str(file), *ARMS, "--max-usd", "20")
        report = await here.report()

    assert len(here.asked("judge")) == 20
    assert (report["judgements"], report["unjudged"]) == (10, 10)
    assert report["by"] == {"tie": 5}
    assert "10 of 10 questions got no verdict and count as ties" in found.output


async def test_an_arm_without_an_answer_loses_the_pair_and_is_named(tmp_path: Path) -> None:
    async def refuses(request: Received, answer: Answer) -> None:
        if request.json["model"] == "new" and said_to(request) == "question 3":
            await answer.json({"error": {"message": "no such thing"}}, 400)
        else:
            await behave(request, answer)

    async with site(tmp_path, refuses) as here:
        file = here.file(prompts(10))
        found = await here.replay("--from", str(file), *ARMS, "--max-usd", "20")
        report = await here.report()

    assert report["by"] == {"judge": 9, "failed": 1}
    assert report["arms"][1]["failed"] == 1
    assert "new gave no answer to 1 prompts" in found.output


async def test_the_limits_of_the_key_hold_and_the_replay_waits_for_them(tmp_path: Path) -> None:
    async def slow(request: Received, answer: Answer) -> None:
        await asyncio.sleep(0.02)
        await behave(request, answer)

    limits = "limits: [{name: one-by-one, who: {key: replayer}, concurrent: 1}]"
    async with site(tmp_path, slow, f"{PRICED}{limits}\n") as here:
        file = here.file(prompts(6))
        found = await here.replay("--from", str(file), *ARMS, "--max-usd", "20")
        report = await here.report()

    assert found.exit_code == 0, found.output
    assert "s: 429: " in found.output
    assert report["decided"] == 6
    assert report["usd"] == pytest.approx(24 * CALL_USD)
    assert len(here.vendor.requests) == 24


async def test_the_report_follows_from_the_exported_rows(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        file = here.file(prompts(60, units=20))
        await here.replay("--from", str(file), *ARMS, "--max-usd", "20")
        report = await here.report()
        exported = await here.read("replay-export", "trial")

    rows = list(csv.DictReader(io.StringIO(exported.output)))
    counted = [row for row in rows if row["counted"] == "1"]
    units: dict[str, list[float]] = {}
    for row in counted:
        score = (float(row["first"]) + float(row["second"])) / 2
        assert float(row["score"]) == score
        assert (
            score == (float(row["first_verdict"] == "A") + float(row["second_verdict"] == "B")) / 2
        )
        units.setdefault(row["unit"], []).append(score)
    means = [sum(scores) / len(scores) for scores in units.values()]
    assert len(means) == report["win_rate"]["units"] == 20
    assert report["win_rate"]["rate"] == pytest.approx(sum(means) / len(means), abs=1e-9)
    nanos = [int(value) for row in rows for name, value in row.items() if name.endswith("_nanos")]
    assert report["usd"] == pytest.approx(sum(nanos) / 1e9)
    order = [row["unit"] for row in rows]
    assert len([1 for one, other in pairwise(order) if one != other]) == 19


async def test_without_a_bound_or_with_unknown_prices_nothing_is_sent(tmp_path: Path) -> None:
    async with site(tmp_path, more="") as here:
        file = here.file(prompts(3))
        unbounded = await here.replay("--from", str(file), *ARMS)
        unpriced = await here.replay("--from", str(file), *ARMS, "--max-usd", "1")
        tokens = await here.replay("--from", str(file), *ARMS, "--max-tokens", "1000000")

    assert "give --max-usd, or --max-tokens where prices are unknown" in unbounded.output
    assert "--max-usd: the price of v/judge, v/new, v/old is unknown" in unpriced.output
    assert "Spent: 120 of 1,000,000 tokens." in tokens.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--arms", "old"), "--arms: name two different ones, control first"),
        ((), "--arms: no experiment of the configuration is named 'trial'"),
        (("--arms", "old,nwe"), "--arms: no model is named 'nwe'; did you mean"),
        (("--arms", "old,new", "--judge", "jugde"), "--judge: no model is named 'jugde'"),
        (("--arms", "old,new"), "give --judge MODEL: no prompt has `expected` or `schema`"),
        (("--arms", "old,new", "--test-command", "no-such-program"), "--test-command: no program"),
        (("--arms", "old,new", "--since", "1h"), "--since and --until are for --from payloads"),
    ],
)
async def test_a_wrong_option_is_named_with_the_remedy(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    async with site(tmp_path) as here:
        file = here.file(prompts(3))
        found = await here.replay("--from", str(file), "--max-usd", "1", *words)

    assert found.exit_code == 1
    assert told in found.output
    assert here.vendor.requests == []


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e300"])
@pytest.mark.parametrize("option", ["--max-usd", "--alpha", "--test-timeout"])
async def test_a_number_that_is_none_is_refused(tmp_path: Path, option: str, number: str) -> None:
    async with site(tmp_path) as here:
        file = here.file(prompts(3))
        found = await here.replay("--from", str(file), *ARMS, "--max-usd", "1", option, number)

    assert found.exit_code == 2
    assert option in found.output
    assert here.vendor.requests == []


async def test_bad_lines_are_named_and_left_out(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        file = here.file(prompts(3))
        with file.open("a") as end:
            end.write(json.dumps({"messages": "hello", "expected": []}) + "\nno json\n")

        strict = await here.replay("--from", str(file), *ARMS, "--max-usd", "20", "--strict")
        found = await here.replay("--from", str(file), *ARMS, "--max-usd", "20")
        report = await here.report()

    assert strict.exit_code == 1
    assert "prompts.jsonl: line 4: expected: is not a text or a number" in strict.output
    assert "prompts.jsonl: line 5: is not JSON" in found.output
    assert report["pairs"] == 3
    assert sum(report["left_out"].values()) == 2


async def test_a_judge_that_cannot_promise_a_form_is_asked_without_one(tmp_path: Path) -> None:
    async def informal(request: Received, answer: Answer) -> None:
        if "response_format" in request.json:
            await answer.json({"error": {"message": "response_format is not supported"}}, 400)
        else:
            await behave(request, answer)

    async with site(tmp_path, informal) as here:
        file = here.file(prompts(6))
        found = await here.replay(
            "--from", str(file), *ARMS, "--max-usd", "20", "--concurrency", "1"
        )
        report = await here.report()

    assert found.exit_code == 0, found.output
    assert report["by"] == {"judge": 6}
    assert len(here.asked("judge")) == 13


@pytest.mark.parametrize("status", [400, 401])
async def test_a_judge_that_never_judges_stops_the_run(tmp_path: Path, status: int) -> None:
    async def broken(request: Received, answer: Answer) -> None:
        if request.json["model"] == "judge":
            await answer.json({"error": {"message": "no judging today"}}, status)
        else:
            await behave(request, answer)

    async with site(tmp_path, broken) as here:
        file = here.file(prompts(60))
        found = await here.replay("--from", str(file), *ARMS, "--max-usd", "20")
        report = await here.report()

    assert found.exit_code == 1
    assert report["decided"] < 20
    assert ("the judge gives no verdict" if status == 400 else "refuses judge") in report["ended"]


async def test_a_key_that_may_not_use_an_arm_stops_the_run_at_once(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        file = here.file(prompts(60))
        found = await here.replay("--from", str(file), *ARMS, "--max-usd", "20", key="wrong")
        report = await here.report()

    assert found.exit_code == 1
    assert "The gateway refuses " in found.output
    assert (report["decided"], report["usd"]) == (0, 0)
    assert here.vendor.requests == []


async def test_a_gateway_that_is_not_there_stops_the_run_at_once(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        file = here.file(prompts(1))
        words = ("--from", str(file), *ARMS, "--max-usd", "20")
        found = await here.replay(*words, url="http://127.0.0.1:9")

    assert found.exit_code == 1
    assert "Cannot reach http://127.0.0.1:9" in found.output
    assert "start the gateway, or give --url. Spent: $0.0000" in found.output


async def test_answers_that_end_at_their_limit_are_counted(tmp_path: Path) -> None:
    async def short(request: Received, answer: Answer) -> None:
        if request.json["model"] == "new":
            await answer.chat("new says: ", finish="length")
        else:
            await behave(request, answer)

    async with site(tmp_path, short) as here:
        file = here.file(prompts(4))
        found = await here.replay("--from", str(file), *ARMS, "--max-usd", "20")

    assert "Note: 4 of 4 answers of new end at their limit of tokens." in found.output
