"""Whole answers that are one choice of nothing but text: most of them."""

from typing import Literal, final

from msgspec import Struct

from strowger_gateway.schemas.events import LONGEST_TOKEN, Usage


@final
class PlainAnswer(Struct, frozen=True, gc=False):
    """An answer that needs no events: what it has is here, and it has nothing else.

    A Struct created by position (docs/adr/0016), from decoded values only.

    text:   not empty. finish: also the vendor's own reason.
    model:  as the backend sends it, "" if it does not.
    usage:  `None` if the backend sent none. Without `raw`, it is the three totals and nothing else.
    stop_match: see `strowger_gateway.schemas.events.Finished`.
    annotated: the message has an empty list of annotations.
    system_fingerprint, service_tier: of the answer; `None`: not sent, or null.
    seed:   see `strowger_gateway.schemas.events.Finished`.
    """

    text: str
    finish: Literal["stop", "length"]
    model: str
    usage: Usage | None
    stop_match: str | int | None = None
    annotated: bool = False
    system_fingerprint: str | None = None
    service_tier: str | None = None
    seed: int | None = None

    @property
    def deltas(self) -> int:
        """The number of content events that the answer would be: see
        `strowger_gateway.schemas.answers.Fold`.

        Without usage, the estimate of its tokens.
        """
        events = 3 if self.annotated else 2
        if self.usage is None and len(self.text) > LONGEST_TOKEN:
            return events - 1 + len(self.text) // 4
        return events
