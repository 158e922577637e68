"""Whether the backend has got the prompt of an attempt, and how much of it: that is what it costs.

The upstream that sends marks it. Everything in front of it, such as queues for connections,
credentials, images and tokenizers, needs to know nothing: until then the prompt counts as unread.
"""

from collections.abc import Sequence
from typing import Protocol

from schemas.errors import GatewayError


class Sending(Protocol):
    """The part of an attempt's record that its upstream writes.

    unread: no model has read the prompt. True from the beginning of the attempt until the request
            is written to the backend's connection.
    share:  how much of the prompt was sent, if the upstream makes several calls of the request:
            0.25 for a quarter of the inputs, 2.0 for two choices of the whole prompt.
    """

    unread: bool
    share: float


class PartSending:
    """See Sending: of one of several calls, or of a call that nothing records."""

    __slots__ = ("share", "unread")

    def __init__(self) -> None:
        self.unread = True
        self.share = 1.0


UNWATCHED = PartSending()
"""For calls whose costs nobody pays. Everyone writes to it, so never read it."""


def add_up(
    whole: Sending, parts: Sequence[tuple[Sending, float]], failure: GatewayError | None
) -> None:
    """Set the whole by its parts. parts: each with its own share of the prompt.

    failure: of one part, which ends all; it then also says what all have cost.
    """
    sent = sum([part.share * share for part, share in parts if not part.unread])
    whole.unread = not sent
    whole.share = sent or 1.0
    if failure is not None:
        failure.unread = whole.unread
