"""Where runs are kept and removed, what is warned of, and models that are named by aliases."""

from pathlib import Path

import pytest

from strowger_gateway.gateway.experiments.replay.rows import ReplayRows
from strowger_gateway.gateway.storage.sql.open import open_existing
from strowger_gateway.schemas.secret import Secret
from tests.gateway.experiments.replay.replaying import ARMS, PRICED, prompts, site
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio
ALIASES = """
  - {name: good, aliases: [best], backends: [{provider: v, model: new}]}
  - {name: "v-*", backends: [{provider: v, model: "*"}]}
"""
WILD = PRICED + "  - {match: 'v/v-*', input: 1, output: 1}\n"


async def test_runs_can_be_in_a_file_of_their_own(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        file, runs = here.file(prompts(3)), str(tmp_path / "runs.db")
        words = ("--from", str(file), *ARMS, "--max-usd", "20", "--into", runs)
        found = await here.replay(*words)
        listed = await here.read("replay-report", "--into", runs)
        elsewhere = await here.read("replay-report", "trial")
        exported = await here.read(
            "replay-export", "trial", "--into", runs, "-o", str(tmp_path / "pairs.csv")
        )

    store = open_existing(Secret(f"sqlite:///{tmp_path / 'store.db'}"))
    assert found.exit_code == 0, found.output
    assert "trial" in listed.output
    assert "all pairs are decided" in listed.output
    assert (elsewhere.exit_code, elsewhere.output) == (1, "no run is named 'trial'\n")
    assert "pairs.csv: 3 rows" in exported.output
    assert len((tmp_path / "pairs.csv").read_text().splitlines()) == 4
    assert ReplayRows(store.database).runs() == []
    store.close()


async def test_a_removed_run_is_gone_and_its_name_free(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        words = ("--from", str(here.file(prompts(3))), *ARMS, "--max-usd", "20")
        await here.replay(*words)
        removed = await here.read("replay-remove", "trial")
        unknown = await here.read("replay-remove", "trail")
        again = await here.replay(*words)

    assert removed.output == "trial is deleted\n"
    assert unknown.exit_code == 1
    assert again.exit_code == 0, again.output
    assert len(here.vendor.requests) == 24


async def test_a_judge_that_is_an_arm_is_warned_of(tmp_path: Path) -> None:
    async def undecided(request: Received, answer: Answer) -> None:
        await answer.chat('{"reason": "", "verdict": "tie"}')

    async with site(tmp_path, undecided) as here:
        file = here.file(prompts(1))
        found = await here.replay(
            "--from", str(file), "--arms", "old,judge", "--judge", "judge", "--max-usd", "20",
            "--answer-tokens", "100", "--judge-tokens", "100",
        )  # fmt: skip

    assert "warning: the judge judge is the model of an arm" in found.output


async def test_arms_are_aliases_and_wildcards_as_clients_may_name_them(tmp_path: Path) -> None:
    async with site(tmp_path, more=ALIASES + WILD) as here:
        file = here.file([{**line, "expected": "x"} for line in prompts(2)])
        found = await here.replay(
            "--from", str(file), "--arms", "best,v-small", "--max-usd", "20",
            "--answer-tokens", "100",
        )  # fmt: skip
        report = await here.report()

    assert found.exit_code == 0, found.output
    assert [arm["backends"] for arm in report["arms"]] == [{"v/new": 2}, {"v/v-small": 2}]


async def test_a_name_that_no_header_can_carry_is_refused(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        file = here.file(prompts(1))
        words = ("--from", str(file), *ARMS, "--max-usd", "20")
        found = await here.replay(*words, "--run", "my run")

    assert found.exit_code == 1
    assert "--run: up to 64 letters, digits and . - _" in found.output
