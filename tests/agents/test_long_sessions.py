"""codex goes through a session that is ten times as long as its context, with every backend."""

import os
from pathlib import Path

import pytest

from tests.agents.backends import BACKENDS
from tests.agents.long_sessions import (
    COMPACTS_AT,
    CONTEXT,
    SESSION_TOKENS,
    STEPS,
    long_stage,
    session,
)
from tests.gateway.backends.vendors.rows import Vendor

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]

WANTED = os.environ.get("STROWGER_AGENTS", "").split()
WAYS = {"codex": "trigger", "codex-endpoint": "endpoint"}
"""By package, how its version asks for compaction."""

INSTALLED = [one for one in WAYS if not WANTED or one in WANTED]
FACTS = {f"FACT-{step:02}" for step in range(1, STEPS + 1)}


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda one: one.name)
@pytest.mark.parametrize("dies", [False, True], ids=["one gateway", "another gateway"])
@pytest.mark.parametrize("package", INSTALLED, ids=[WAYS[one] for one in INSTALLED])
async def test_codex_keeps_every_fact_of_a_session_that_its_context_does_not_hold(
    tmp_path: Path, backend: Vendor, package: str, dies: bool
) -> None:
    async with long_stage(tmp_path, backend) as stage:
        done = await session(stage, tmp_path / "home", package, dies=dies)

    assert done.facts == FACTS, done.text[-3000:]
    assert done.tokens == SESSION_TOKENS
    assert done.tokens >= 10 * CONTEXT
    assert done.summaries >= done.tokens // COMPACTS_AT
    assert done.longest <= CONTEXT
    if backend.name == "openai-responses":  # which is asked in the same way
        assert any(one.endswith("/compact") for one in done.paths) is (package == "codex-endpoint")
