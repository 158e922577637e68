"""Whatever a DNS server does over hours: which addresses a user of a name may get."""

import asyncio
import socket
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from strowger_gateway.gateway.platform.names.look_up import Found
from strowger_gateway.gateway.platform.names.names import DENIED_S, FRESH_S, STALE_S, Names

Answer = Literal["found", "failed", "denied"]


class Step(Struct, frozen=True):
    """Let time pass, let the DNS answer in this way from then on, and use the name."""

    seconds: float
    answer: Answer


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from([0.0, 0.25, 1.0, 2.0, 3.0, 5.0, 10.0, 299.0, 301.0, 3601.0]),
        st.sampled_from(["found", "failed", "denied"]),
    ),
    min_size=1,
    max_size=12,
)


class Dns:
    """A DNS server that gives each answer a new address. given: addresses, and when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.answer: Answer = "found"
        self.given: list[tuple[str, float]] = []

    def look_up(self, _: str) -> Found:
        if self.answer == "failed":
            raise socket.gaierror(socket.EAI_AGAIN, "failed")
        if self.answer == "denied":
            raise socket.gaierror(socket.EAI_NONAME, "denied")
        number = len(self.given) + 1
        self.given.append((f"192.0.2.{number}", self.now))
        return [(socket.AF_INET, (self.given[-1][0], 0))]


@given(steps=STEPS)
def test_a_user_gets_the_last_addresses_while_they_may_be_used_and_none_that_are_older(
    steps: list[Step],
) -> None:
    dns = Dns()
    names = Names(dns.look_up, clock=lambda: dns.now)

    async def use() -> str | None:
        try:
            ((_, address),) = await names.addresses("api.test", 1)
        except socket.gaierror:
            return None
        finally:
            while names.in_flight:  # noqa: ASYNC110  its thread announces nothing
                await asyncio.sleep(0)
        return str(address[0])

    async def run() -> None:
        for step in steps:
            dns.now += step.seconds
            dns.answer = step.answer
            last = dns.given[-1] if dns.given else None
            got = await use()
            age = float("inf") if last is None else dns.now - last[1]
            allowed_s = DENIED_S if step.answer == "denied" else STALE_S
            if got is None:
                assert age >= DENIED_S
            elif last is not None and got == last[0]:
                assert age < STALE_S
            else:
                assert (got, dns.now) == dns.given[-1]
            if step.seconds >= FRESH_S:  # nothing that happened before is still an answer
                new = dns.given[-1][0] if step.answer == "found" else None
                old = last[0] if last is not None and age < allowed_s else None
                assert got == (new or old)

    asyncio.run(run())
