"""Each agent is set up by the command alone, in an empty home, and then does a job."""

from collections.abc import AsyncGenerator

import pytest

from strowger_gateway.gateway.cli.agents.tools.roster import TOOLS
from tests.agents.backends import BACKENDS, Stage, stage
from tests.agents.jobs import FILES
from tests.agents.running import run
from tests.agents.set_up import COMMANDS, EDITS, set_up

pytestmark = pytest.mark.anyio

KEYS = """
auth: {mode: keys, keys: [{name: another, key: key-of-another}]}
capabilities:
  - {match: "openai/*", context: 131_072, max_output: 16_384, input: [text, image], output: [text],
     tools: true}
prices: [{match: "openai/*", input: 1.25, output: 10}]
"""


@pytest.fixture(scope="module")
async def on(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage, None]:
    vendors = [one for one in BACKENDS if one.name == "openai"]
    async with stage(tmp_path_factory.mktemp("run"), vendors, more=KEYS) as one:
        yield one


@pytest.mark.nightly
@pytest.mark.parametrize("tool", COMMANDS)
async def test_an_agent_that_the_command_has_set_up_does_a_job(on: Stage, tool: str) -> None:
    job = EDITS if tool == "aider" else FILES

    outcome = await run(set_up(tool, on.gateway.config), on, "openai", job)

    assert not outcome.faults


def test_every_agent_that_can_be_set_up_is_run_each_night() -> None:
    assert set(COMMANDS) == set(TOOLS)
