"""Parts at a hand-over and at the end: a bug in one costs no other anything."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from strowger_gateway.gateway.assembly.leader_parts import LeaderParts, LeaderState
from strowger_gateway.gateway.audit.log import NoAudit
from strowger_gateway.gateway.observability.telemetry.process_metrics import ProcessMetrics
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.storage.sql.open import open_store
from tests.gateway.config.configs import GOOD, read

pytestmark = pytest.mark.anyio


class CountingSide(LeaderSide[None, None]):
    carries = int

    def __init__(self) -> None:
        self.count = 3
        self.closed = False

    def carried(self) -> int:
        return self.count

    def carry(self, found: int) -> None:
        self.count += found

    async def close(self) -> None:
        self.closed = True


class FailingSide(LeaderSide[None, None]):
    async def close(self) -> None:
        raise RuntimeError("a bug in a part")


class CountingPart(Part):
    name = "counting"

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        return CountingSide()


class FailingPart(Part):
    name = "failing"

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        return FailingSide()


def leading(folder: Path, metrics: ProcessMetrics) -> LeaderParts:
    config = read(GOOD)
    state = LeaderState(
        first=config,
        config=lambda: config,
        registry=metrics.registry,
        crashed=metrics.internal_errors.count,
        store=open_store(config.store.url),
        imported_at=lambda: 0.0,
        audit=NoAudit(),
        alone=True,
        run_dir=folder,
        freed=None,
    )
    return LeaderParts((CountingPart(), FailingPart()), state)


async def test_a_part_that_cannot_be_closed_keeps_no_other_from_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = ProcessMetrics()
    parts = leading(tmp_path, metrics)
    await parts.close()

    assert parts.side(CountingSide).closed
    assert "part failing: closing it failed" in caplog.text
    labels = {"where": "parts"}
    assert metrics.registry.get_sample_value("strowger_internal_errors_total", labels) == 1


async def test_a_new_gateway_knows_what_the_parts_of_the_old_one_carried(tmp_path: Path) -> None:
    old, new = (leading(tmp_path, ProcessMetrics()) for _ in range(2))
    new.carry(old.carried())

    assert new.side(CountingSide).count == 6


async def test_what_another_version_carries_is_logged_and_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = leading(tmp_path, ProcessMetrics())
    parts.carry({"counting": msgspec.Raw(b'"many"'), "unknown": msgspec.Raw(b"1")})

    assert parts.side(CountingSide).count == 3
    assert "what the old gateway knew of counting is not used" in caplog.text
