"""The pages of running sequences on the device."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.local_engine.ops.attention import Share
from strowger_gateway.local_engine.ops.page_table import SEATS, PageRows, PageTable, page_rows
from tests.examples import examples

CPU = torch.device("cpu")


def share(owner: list[int], pages: int | None = None) -> Share:
    blocks = tuple(owner[:pages])
    return Share(count=1, keys=16 * len(blocks), blocks=blocks, owner=owner)


def pages_of(rows: PageRows, row: int, count: int) -> tuple[int, ...]:
    return tuple(int(page) for page in rows.table[rows.seats[row], :count])


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 1 << 30))
def test_every_step_reads_the_pages_that_its_sequences_have_now(seed: int) -> None:
    """Sequences come, grow, pause, are preempted to other pages, and end, in any order."""
    source = random.Random(seed)
    table = PageTable(64, CPU)
    running: list[list[int]] = []
    for _ in range(30):
        for place, blocks in enumerate(running):
            if source.random() < 0.1:
                blocks.clear()
                running[place] = [source.randrange(1000)]
            elif source.random() < 0.4 and len(blocks) < 64:
                blocks.append(source.randrange(1000))
        running = [blocks for blocks in running if source.random() < 0.95]
        while len(running) < source.choice((1, 20, SEATS)):
            running.append([source.randrange(1000) for _ in range(source.randint(1, 20))])
        step = source.sample(running, source.randint(1, min(len(running), SEATS)))
        shares = tuple(share(blocks, source.randint(1, len(blocks))) for blocks in step)

        rows = page_rows(table, shares)

        assert len({int(seat) for seat in rows.seats}) == len(shares)
        for row, one in enumerate(shares):
            assert rows.used[row] == one.keys
            assert pages_of(rows, row, len(one.blocks)) == one.blocks


def test_pages_without_an_owner_are_written_each_time() -> None:
    table = PageTable(4, CPU)
    for pages in ((3, 1), (2, 0)):
        rows = page_rows(table, (Share(count=1, keys=20, blocks=pages),))
        assert pages_of(rows, 0, 2) == pages


def test_a_failed_upload_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    table = PageTable(4, CPU)
    owner = [3, 1]

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "index_copy_", full)
        with pytest.raises(torch.OutOfMemoryError):
            page_rows(table, (share(owner),))

    rows = page_rows(table, (share(owner),))

    assert pages_of(rows, 0, 2) == (3, 1)
