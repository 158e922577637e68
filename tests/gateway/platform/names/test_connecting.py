"""Connecting to one of several addresses: which is tried when, and what becomes of the others."""

import asyncio
import socket
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.platform.names.connecting import (
    connect_to,
    first_of,
    has_source,
    interleaved,
)
from strowger_gateway.gateway.platform.names.look_up import SocketAddress

pytestmark = pytest.mark.anyio

LONG_S = 60.0

ADDRESSES = st.lists(
    st.one_of(
        st.integers(1, 250).map(lambda n: (int(socket.AF_INET), (f"192.0.2.{n}", 443))),
        st.integers(1, 250).map(lambda n: (int(socket.AF_INET6), (f"2001:db8::{n:x}", 443, 0, 0))),
    ),
    unique=True,
    max_size=8,
)


@given(found=ADDRESSES, number=st.integers(0, 7))
def test_the_order_of_addresses_loses_none_and_alternates_between_families(
    found: list[tuple[int, SocketAddress]], number: int
) -> None:
    first = found[number][1] if number < len(found) else None

    ordered = list(interleaved(found, first))

    assert sorted(ordered, key=str) == sorted(found, key=str)
    if first is not None:
        assert ordered[0][1] == first
    families = [family for family, _ in ordered]
    pairs = min(families.count(socket.AF_INET), families.count(socket.AF_INET6))
    assert all(one != other for one, other in pairwise(families[: 2 * pairs]))


async def test_the_next_attempt_begins_when_those_before_have_failed() -> None:
    begun: list[str] = []

    async def failing() -> str:
        begun.append("failing")
        raise OSError("refused")

    async def fine() -> str:
        begun.append("fine")
        return "made"

    assert await first_of([failing, failing, fine], LONG_S, list) == "made"
    assert begun == ["failing", "failing", "fine"]


async def test_the_error_of_the_first_is_the_error_of_all() -> None:
    async def failing() -> str:
        tried.append(1)
        raise OSError(f"problem {len(tried)}")

    tried: list[int] = []
    with pytest.raises(OSError, match="problem 1"):
        await first_of([failing, failing], LONG_S, list)
    assert len(tried) == 2


async def test_a_second_address_that_this_machine_cannot_reach_does_not_hide_a_refusal() -> None:
    """Without IPv6, its error would read like a shortage of this machine, which is no evidence."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        refusing: SocketAddress = ("127.0.0.1", unused.getsockname()[1])
        away: SocketAddress = ("2001:db8::1", 443, 0, 0)

        with pytest.raises(ConnectionRefusedError):
            await connect_to([(socket.AF_INET, refusing), (socket.AF_INET6, away)])


def test_a_machine_has_sources_for_some_addresses_only() -> None:
    assert has_source(socket.AF_INET, ("127.0.0.1", 9))
    assert not has_source(socket.AF_INET, ("255.255.255.255", 9))


async def test_without_on_failure_a_failure_is_the_end() -> None:
    async def failing() -> str:
        begun.append("failing")
        raise OSError("refused")

    begun: list[str] = []
    with pytest.raises(OSError, match="refused"):
        await first_of([failing, failing], LONG_S, list, on_failure=False)
    assert begun == ["failing"]


async def test_an_attempt_that_fails_late_leaves_the_others_running() -> None:
    async def failing() -> str:
        await other_begun.wait()
        raise OSError("refused")

    async def slow() -> str:
        other_begun.set()
        await asyncio.sleep(0.05)
        return "made"

    other_begun = asyncio.Event()
    assert await first_of([failing, slow], 0.01, list, on_failure=False) == "made"


async def test_an_attempt_that_takes_longer_than_the_stagger_is_not_given_up() -> None:
    async def far() -> str:
        await asyncio.sleep(0.1)
        return "far"

    async def silent() -> str:
        await asyncio.sleep(LONG_S)
        return ""

    assert await first_of([far, silent, silent], 0.01, list) == "far"


async def test_what_a_further_attempt_makes_is_discarded() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            return "surplus"
        return ""

    async def fine() -> str:
        return "made"

    discarded: list[str] = []
    assert await first_of([stubborn, fine], 0.01, discarded.append) == "made"
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert discarded == ["surplus"]


async def test_no_address_at_all_is_an_error() -> None:
    with pytest.raises(OSError, match="no addresses"):
        await connect_to([])


async def test_options_are_set_before_the_connection_is_made() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        option = (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        address: tuple[str, int] = server.getsockname()
        sock = await connect_to([(socket.AF_INET, address)], [option])
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        sock.close()
