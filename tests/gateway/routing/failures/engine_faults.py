"""Faults of a local engine, with the client's result and the number of calls to each backend.

Two backends in order, three attempts: the engine, and another that works unless said otherwise.
"""

import asyncio

from msgspec import Struct

from strowger_gateway.schemas.errors import (
    DeadlineExceeded,
    GatewayError,
    InvalidRequest,
    UpstreamBusy,
    UpstreamFailed,
)
from tests.gateway.routing.failures.engine_stand_in import Asked, Conduct, Door
from tests.gateway.routing.failures.fault_scenarios import (
    CONTINUED,
    CUT,
    ELSEWHERE,
    ELSEWHERE_AT_ONCE,
    Sees,
)

UNREADABLE = b"\0\0\0\3\xc1\xc1\xc1"
"""A frame of three bytes that are no msgpack."""


async def dies(asked: Asked) -> None:
    asked.die()


async def dies_before_content(asked: Asked) -> None:
    await asked.begin()
    await asyncio.sleep(0.01)
    asked.die()


async def half(asked: Asked) -> None:
    await asked.begin()
    await asked.say("hel", 11, 1)
    await asyncio.sleep(0.02)


async def dies_in_the_middle(asked: Asked) -> None:
    await half(asked)
    asked.die()


async def raves(asked: Asked) -> None:
    await asked.write(UNREADABLE)
    await asked.gone.wait()


async def raves_in_the_middle(asked: Asked) -> None:
    await half(asked)
    await raves(asked)


def fails(error: GatewayError) -> Conduct:
    async def behave(asked: Asked) -> None:
        await asked.fail(error)

    return behave


async def fails_in_the_middle(asked: Asked) -> None:
    await half(asked)
    await asked.fail(BOOM)


async def silent(asked: Asked) -> None:
    await asked.gone.wait()


async def slow_first_token(asked: Asked) -> None:
    await asked.begin()
    await asked.gone.wait()


async def stalls(asked: Asked) -> None:
    await half(asked)
    await asked.gone.wait()


async def endless(asked: Asked) -> None:
    await asked.begin()
    while True:
        await asked.say("la", 13, 1)
        await asyncio.sleep(0.02)


async def continues(asked: Asked) -> None:
    """The rest of tokens whose beginning is in the request."""
    assert asked.given[:4] == (5, 6, 7, 11)
    await asked.begin()
    await asked.say("lo", 12, 1)
    await asked.end()


class EngineScenario(Struct, frozen=True, kw_only=True):
    """door: behaviour towards the worker; the engine receives requests only if it "opens".

    times: how many requests the fault lasts; `None`: all. second_fails: the other one, too.
    refuses: a call of the first is not an attempt, because the engine has not begun.
    recovers: with `stream_recovery: continue` the second backend continues the stream.
    """

    fault: str
    first: Conduct = silent
    whole: Sees
    stream: Sees
    door: Door = "opens"
    times: int | None = None
    second_fails: bool = False
    refuses: bool = False
    recovers: bool = False

    @property
    def waits(self) -> bool:
        return self.door == "silent" or self.first in (slow_first_token, stalls, endless)

    @property
    def received(self) -> int:
        """How many requests reach the engine, of one that is not streamed or one that is."""
        return self.whole.asked[0] if self.door == "opens" else 0

    @property
    def row(self) -> str:
        """Of the table in docs/routing.md."""
        seen = (self.whole, self.stream, *((CONTINUED,) if self.recovers else ()))
        asked = [f"{one.asked[0]} + {one.asked[1]}" for one in seen]
        asks = asked[0] if len(set(asked)) == 1 else " / ".join(asked)
        continued = "the second backend continues it" if self.recovers else ""
        return f"| {self.fault} | {self.whole.words} | {self.stream.words} | {continued} | {asks} |"


BOOM = UpstreamFailed("the forward pass failed", upstream="engine")
BUSY = UpstreamBusy("too many answers are queued", upstream="engine", retry_after=1.0)
LATE = DeadlineExceeded("the answer was not complete within 1 s", param="timeout")
UNFIT = InvalidRequest("too many tokens", param="tokens", code="context_length_exceeded")
LOST = Sees(asked=(1, 0), error="upstream_lost")


def alike(
    fault: str,
    first: Conduct,
    sees: Sees,
    *,
    door: Door = "opens",
    times: int | None = None,
    refuses: bool = False,
    second_fails: bool = False,
) -> EngineScenario:
    """The same for both clients."""
    return EngineScenario(
        fault=fault,
        first=first,
        whole=sees,
        stream=sees,
        door=door,
        times=times,
        refuses=refuses,
        second_fails=second_fails,
    )


def later(fault: str, first: Conduct, whole: Sees, stream: Sees) -> EngineScenario:
    """After the first content."""
    return EngineScenario(fault=fault, first=first, whole=whole, stream=stream, recovers=True)


ENGINE_SCENARIOS: tuple[EngineScenario, ...] = (
    alike("no process listens", silent, ELSEWHERE_AT_ONCE, door="gone"),
    alike("the process exits while it starts", silent, ELSEWHERE_AT_ONCE, door="shuts"),
    alike("it reports ready, then exits", silent, ELSEWHERE_AT_ONCE, door="leaves"),
    alike("it never reports ready", silent, ELSEWHERE_AT_ONCE, door="silent"),
    alike("it exits on the request", dies, ELSEWHERE_AT_ONCE),
    alike("it exits before content", dies_before_content, ELSEWHERE_AT_ONCE),
    later("it exits in the middle", dies_in_the_middle, ELSEWHERE_AT_ONCE, LOST),
    alike("an unreadable first frame", raves, ELSEWHERE_AT_ONCE),
    later("an unreadable frame in the middle", raves_in_the_middle, ELSEWHERE_AT_ONCE, LOST),
    alike("it fails once", fails(BOOM), Sees(asked=(2, 0)), times=1),
    alike("it fails always", fails(BOOM), ELSEWHERE),
    later(
        "it fails in the middle",
        fails_in_the_middle,
        ELSEWHERE,
        Sees(asked=(1, 0), error="upstream_failed"),
    ),
    alike("its queue is full", fails(BUSY), ELSEWHERE_AT_ONCE),
    alike("the request exceeds its limits", fails(UNFIT), ELSEWHERE_AT_ONCE, refuses=True),
    alike(
        "the request's deadline has passed",
        fails(LATE),
        Sees(asked=(1, 0), status=504, error="deadline_exceeded"),
    ),
    alike("the first token is too slow", slow_first_token, ELSEWHERE_AT_ONCE),
    later("it stalls in the middle", stalls, ELSEWHERE_AT_ONCE, CUT),
    later("it never ends", endless, ELSEWHERE_AT_ONCE, CUT),
    alike(
        "the second backend fails as well",
        fails(BOOM),
        Sees(asked=(2, 1), status=502, error="upstream_failed"),
        second_fails=True,
    ),
)
