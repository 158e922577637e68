"""Slots shared between tenants, and long work that can be stopped and leaves the loop free."""

# tokenizers annotates these members in part only:
# pyright: reportUnknownMemberType=false

import asyncio
import os
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import pytest

from strowger_gateway.local_engine.child_process.fair_gate import Gate
from strowger_gateway.local_engine.child_process.text_encoder import (
    LONG,
    BatchEncoder,
    TextEncoder,
    run_offloaded,
)
from strowger_gateway.local_engine.loading.model_paths import model_folder
from strowger_gateway.schemas.errors import InvalidConfig, Throttled, Unavailable
from strowger_gateway.schemas.holdings import Holder
from tests.local_engine.tiny import tokenizer

pytestmark = pytest.mark.anyio

LIBRARY = tokenizer()
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def encoder() -> TextEncoder:
    return TextEncoder(cast(BatchEncoder, LIBRARY), "tiny", LIBRARY.to_str)


def gate(*, slots: int = 2, waiting: int = 3, wait_s: float = 60.0) -> Gate:
    return Gate("a test", slots=slots, waiting=waiting, wait_s=wait_s, name="here")


async def test_tenants_get_slots_in_rotation_and_none_holds_all() -> None:
    doors, order = gate(), list[str]()

    async def pass_through(tenant: str) -> None:
        async with doors.slot(Holder(tenant)):
            order.append(tenant)
            await asyncio.sleep(0)

    async with AsyncExitStack() as held:
        await held.enter_async_context(doors.slot(Holder("a")))
        waiting = [asyncio.create_task(pass_through("a")) for _ in range(3)]
        await asyncio.sleep(0)
        async with asyncio.timeout(60):
            for tenant in ("b", "c", "b"):
                await pass_through(tenant)
    await asyncio.gather(*waiting)

    assert order == ["b", "c", "b", "a", "a", "a"]


async def test_a_team_of_many_keys_gets_as_many_turns_as_a_team_of_one() -> None:
    doors, order = gate(slots=1), list[str]()

    async def pass_through(holder: Holder) -> None:
        async with doors.slot(holder):
            order.append(holder.team)
            await asyncio.sleep(0)

    async with doors.slot(Holder("first")):
        holders = [Holder(f"a{number}", "many") for number in range(4)] + [Holder("b", "one")] * 2
        waiting = [asyncio.create_task(pass_through(holder)) for holder in holders]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)

    assert order == ["many", "one", "many", "one", "many", "many"]


async def test_a_request_that_is_cancelled_when_its_turn_comes_returns_the_slot() -> None:
    doors = gate(slots=1)
    async with doors.slot(Holder("a")):
        leaving = asyncio.create_task(doors.slot(Holder("b")).__aenter__())
        await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])

    async with asyncio.timeout(60), doors.slot(Holder("c")):
        pass


async def test_a_cancelled_request_leaves_the_queue_without_trace() -> None:
    doors = gate(slots=1)
    async with doors.slot(Holder("a")):
        leaving = [asyncio.create_task(doors.slot(Holder(t)).__aenter__()) for t in ("a", "b", "c")]
        await asyncio.sleep(0)
        for one in leaving:
            one.cancel()
        await asyncio.wait(leaving)

    async with asyncio.timeout(60), doors.slot(Holder("d")):
        pass


async def test_a_tenant_with_too_much_waiting_is_throttled_and_others_are_not() -> None:
    doors = gate(waiting=1)
    async with doors.slot(Holder("a")):
        waiting = asyncio.create_task(doors.slot(Holder("a")).__aenter__())
        await asyncio.sleep(0)

        with pytest.raises(
            Throttled, match="1 requests of this key are already waiting for a test"
        ):
            await doors.slot(Holder("a")).__aenter__()

        async with doors.slot(Holder("b")):
            waiting.cancel()


async def test_waiting_for_other_tenants_does_not_count_as_throttling() -> None:
    doors = gate(slots=1, wait_s=0.01)
    async with doors.slot(Holder("a")):
        with pytest.raises(Unavailable, match=r"here: no slot for a test within 0\.01 s"):
            await doors.slot(Holder("b")).__aenter__()
        with pytest.raises(Throttled, match="this key's own"):
            await doors.slot(Holder("a")).__aenter__()


async def test_a_long_text_is_encoded_in_a_child_process_to_the_same_tokens() -> None:
    text = "The quick brown fox, café. " * (LONG // 20)
    reads = encoder()

    ids, count = await run_offloaded(
        lambda offload: reads.encode(text, special=False, most=50, offload=offload)
    )

    whole, all_of_them = reads.encode(text, special=False)
    assert (ids, count) == (whole[-50:], all_of_them)


@pytest.mark.parametrize(("times", "refused"), [(0.5, True), (0.95, False), (1.0, False)])
async def test_of_a_text_with_too_many_tokens_only_a_part_is_counted(
    times: float, refused: bool
) -> None:
    text = "The quick brown fox, café. " * (LONG // 12)
    reads = encoder()
    whole, all_of_them = reads.encode(text, special=False)
    limit = int(all_of_them * times)

    ids, count = await run_offloaded(
        lambda offload: reads.encode(text, special=False, limit=limit, offload=offload)
    )

    if refused:
        assert ids == []
        assert limit < count < all_of_them
    else:
        assert (ids, count) == (whole, all_of_them)


async def test_encoding_a_long_text_leaves_the_loop_free_and_ends_with_its_client() -> None:
    text = "abcdefghij" * 600_000
    reads, longest = encoder(), 0.0

    reading = asyncio.create_task(
        run_offloaded(lambda offload: reads.encode(text, special=False, most=50, offload=offload))
    )
    for _ in range(40):
        began = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - began)

    assert not reading.done()
    reading.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait([reading])
    assert longest < 2.0


def test_a_revision_is_for_models_at_the_hub(tmp_path: Path) -> None:
    for path in (str(tmp_path), "bundled:tiny-chat"):
        with pytest.raises(InvalidConfig, match=f"revision {COMMIT}: only models at the"):
            model_folder(path, COMMIT)


def test_a_pinned_model_is_the_folder_of_its_commit(tmp_path: Path) -> None:
    folder = tmp_path / "hub" / "models--org--name" / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    call = f"print(model_folder('org/name', '{COMMIT}'))"
    script = f"from strowger_gateway.local_engine.loading.model_paths import model_folder; {call}"

    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        check=True,
        text=True,
    )

    assert found.stdout.strip() == str(folder)
