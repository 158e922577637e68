"""What a vendor does to a run besides answering: its model thinks long, or it fails for a while."""

import asyncio
import time
from typing import Final

from msgspec import Struct, field

from tests.gateway.backends.vendors.dialect import Json, sse
from tests.gateway.backends.vendors.rows import Vendor
from tests.stand_ins.gemini_server import error as googles
from tests.stand_ins.provider import Answer

STATUSES: Final = (500, 503, 529, 429)
"""One for each of a run's first four steps."""

PING_S: Final = 5.0
PING: Final = sse({"type": "ping"}, "ping")

_ANTHROPICS: Final = {429: "rate_limit_error", 529: "overloaded_error"}
_GOOGLES: Final = {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}
_SAYS: Final = {429: "Too many requests.", 529: "Overloaded"}


class Trouble(Struct, kw_only=True):
    """Of one run with one vendor; both in seconds. statuses: of one step's outage each.

    begun: when each step's outage did. thought: the model was left to think until it was done.
    """

    thinks_s: float = 0
    outage_s: float = 0
    statuses: tuple[int, ...] = STATUSES
    begun: dict[int, float] = field(default_factory=dict[int, float])
    thought: bool = False

    def status(self, step: int | None) -> int:
        """Return the status with which a request fails, 0 if it does not.

        step: how far the task is; None for a request that is not the task's. A step's outage begins
        with its first request.
        """
        if not self.outage_s:
            return 0
        now = time.monotonic()
        if step is not None and step not in self.begun and len(self.begun) < len(self.statuses):
            self.begun[step] = now
        for place, began in enumerate(self.begun.values()):
            if now < began + self.outage_s:
                return self.statuses[place]
        return 0

    async def think(self, vendor: Vendor, answer: Answer, *, streamed: bool) -> None:
        """Think, once. Anthropic pings in a stream that has begun; others send nothing.

        A caller that hangs up meanwhile ends it: a request that is repeated is answered without.
        """
        left, self.thinks_s = self.thinks_s, 0
        pause_s = PING_S if streamed and vendor.name == "anthropic" else left
        thinks = left > 0
        while left > 0:
            await asyncio.sleep(min(left, pause_s))
            left -= pause_s
            if streamed and vendor.name == "anthropic":
                await answer.chunk(PING)
        self.thought = self.thought or thinks


def refusal(vendor: Vendor, status: int) -> Json:
    """Return the body of an error of this status, as this vendor encodes it."""
    says = _SAYS.get(status, "Internal server error")
    if vendor.name == "anthropic":
        kind = _ANTHROPICS.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": says}}
    if vendor.name == "gemini":
        return googles(status, _GOOGLES.get(status, "UNAVAILABLE"), says)
    return vendor.dialect.error(status, says)
