"""Agents as they come from their packages do a task through the gateway, as in docs/agents.md.

`make nightly-agents` installs them and runs all with every backend, and before that the tool
runners of the installed SDKs with four; tests/clients has those SDKs' requests in each run.
"""

import asyncio
import os
from collections.abc import AsyncGenerator

import pytest

from tests.agents import jobs_table
from tests.agents.backends import BACKENDS, REASONS, Stage, stage
from tests.agents.install import named
from tests.agents.jobs import JOBS, Job
from tests.agents.measure import do
from tests.agents.roster import AGENTS, Agent
from tests.agents.running import run
from tests.agents.table import DOCUMENT, documented, note
from tests.gateway.backends.vendors.rows import Vendor

pytestmark = pytest.mark.anyio

INSTALLED = [one for one in AGENTS if one.package is None]
FEW = [one for one in BACKENDS if one.name in ("openai", "anthropic", "gemini", "mindie")]
WANTED = named(os.environ.get("STROWGER_AGENTS", "").split())
"""The agents of a nightly run."""


@pytest.fixture(scope="module")
async def on(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage, None]:
    async with stage(tmp_path_factory.mktemp("run")) as one:
        yield one


@pytest.fixture(scope="module")
async def three(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage, None]:
    """Of models that think for minutes."""
    vendors = [one for one in BACKENDS if one.name in jobs_table.BACKENDS]
    async with stage(tmp_path_factory.mktemp("run"), vendors, REASONS) as one:
        yield one


async def does_the_task(agent: Agent, on: Stage, backend: Vendor) -> None:
    outcome = await run(agent, on, backend.name)

    assert not outcome.faults
    told = documented(DOCUMENT.read_text(), agent, backend.name)
    assert told == note(outcome), "docs/agents.md is out of date: run `make agents`"


@pytest.mark.nightly
@pytest.mark.parametrize("agent", INSTALLED, ids=lambda one: one.name)
async def test_the_tool_runners_of_the_sdks_do_the_task(on: Stage, agent: Agent) -> None:
    await asyncio.gather(*(does_the_task(agent, on, backend) for backend in FEW))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "agent", [one for one in WANTED if one.everywhere], ids=lambda one: one.name
)
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda one: one.name)
async def test_agents_from_their_packages_do_the_task(
    on: Stage, agent: Agent, backend: Vendor
) -> None:
    await does_the_task(agent, on, backend)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("agent", "job"),
    [
        pytest.param(agent, job, id=f"{agent.name}-{job.name}")
        for agent in WANTED
        for job in JOBS
        if job.name in agent.jobs
    ],
)
async def test_agents_do_their_jobs_with_three_vendors(
    three: Stage, agent: Agent, job: Job
) -> None:
    """Also while the vendor's model thinks for 70 s, and while it fails for 1 s and for 5 s."""
    outcomes = await do(agent, job, three)

    assert [fault for one in outcomes.values() for fault in one.faults] == []
    told = jobs_table.documented(DOCUMENT.read_text(), agent, job)
    assert told == jobs_table.note(agent, job, outcomes), (
        "docs/agents.md is out of date: run `make agents`"
    )


def test_the_table_of_jobs_has_a_cell_for_every_agent_that_has_jobs() -> None:
    document = DOCUMENT.read_text()

    assert jobs_table.written(document, {}) == document
