"""Which connections make room: rules that hold for every order of arrivals and departures."""

import asyncio
from typing import Final, Literal

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from strowger_gateway.gateway.server.http1.open_connections import (
    ConnectionLimits,
    OpenConnection,
    OpenConnections,
    Standing,
)
from strowger_gateway.gateway.server.http1.response_head import ResponseHeads

MOST, SPARE, EACH = 6, 2, 4
LIMITED: Final = ConnectionLimits(
    most=MOST, spare=SPARE, per_address=EACH, exempt=lambda address: address == "10.0.0.9"
)


class Stub(OpenConnection):
    """A connection in a given state. rank: `None` is being answered."""

    def __init__(self, rank: int | None, since: float) -> None:
        self.rank = rank
        self.since = since
        self.aborted = False

    def standing(self, at: float) -> Standing | None:
        return None if self.rank is None else Standing(rank=self.rank, since=self.since)

    def check_deadline(self, at: float, limit_s: float) -> None: ...
    def close_idle(self) -> None: ...
    def shutdown(self) -> None: ...
    def cut(self) -> None: ...

    def abort(self) -> None:
        self.aborted = True


class Socket(asyncio.Transport):
    """A client's, as far as it is looked at before a connection is served."""

    def __init__(self, host: str) -> None:
        super().__init__({"peername": (host, 1)})
        self.aborted = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None: ...

    def abort(self) -> None:
        self.aborted = True


class Arrival(Struct, frozen=True):
    """A new connection, or the end of an earlier one by its number."""

    host: str
    rank: int | None
    kind: Literal["arrives", "leaves"] = "arrives"
    number: int = 0


ARRIVALS = st.lists(
    st.builds(
        Arrival,
        st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.9", "2001:db8::1", "2001:db8::2"]),
        st.sampled_from([None, 0, 1, 2]),
        st.sampled_from(["arrives", "arrives", "arrives", "leaves"]),
        st.integers(0, 40),
    ),
    max_size=60,
)


@given(arrivals=ARRIVALS)
def test_connections_stay_within_their_limits_and_only_unused_ones_make_room(
    arrivals: list[Arrival],
) -> None:
    connections = OpenConnections(ResponseHeads(), lambda: LIMITED, clock=lambda: 0.0)
    open_ones: dict[Stub, str] = {}
    for at, one in enumerate(arrivals):
        if one.kind == "leaves":
            if open_ones:
                gone = list(open_ones)[one.number % len(open_ones)]
                connections.discard(gone)
                del open_ones[gone]
            continue
        new, socket = Stub(one.rank, at), Socket(one.host)
        address = "2001:db8::/64" if ":" in one.host else one.host
        served = connections.enter(new, socket, clear=False)

        assert socket.aborted is not served
        if not served:
            same = sum(other == address for other in open_ones.values())
            left = [other for other in open_ones if not other.aborted]
            full = all(other.rank is None for other in left) and len(left) >= MOST + SPARE
            assert full or (same >= EACH and address != "10.0.0.9")
        else:
            open_ones[new] = address
        closed = [other for other in open_ones if other.aborted]
        assert all(other.rank is not None for other in closed)
        kept = [other for other in open_ones if not other.aborted and other is not new]
        if closed:
            worst = max(other.rank or 0 for other in closed)
            assert all(other.rank is None or other.rank >= worst for other in kept)
        for other in closed:
            del open_ones[other]
        assert set(connections) == set(open_ones)
        assert len(connections) <= MOST + SPARE
        assert connections.crowded is (len(connections) > MOST)


def test_among_equals_the_address_with_the_most_gives_way_and_its_oldest_first() -> None:
    connections = OpenConnections(ResponseHeads(), lambda: LIMITED, clock=lambda: 0.0)
    hosts = ["10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.1", "10.0.0.9", "10.0.0.2"]
    ones = [Stub(1, since) for since in (1.0, 0.0, 3.0, 2.0, 0.0, 9.0)]
    for one, host in zip(ones, hosts, strict=True):
        assert connections.enter(one, Socket(host))

    order: list[int] = []
    for _ in range(6):
        assert connections.enter(Stub(None, 0.0), Socket("10.0.0.3" if len(order) < 3 else "::1"))
        order += [n for n, one in enumerate(ones) if one.aborted and n not in order]

    assert order == [0, 1, 3, 2, 5, 4]
