"""Whether the backend has got the prompt of an attempt, and how much of it: that is what it costs.

The upstream that sends marks it. Everything in front of it, such as queues for connections,
credentials, images and tokenizers, needs to know nothing: until then the prompt counts as unread.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from strowger_gateway.schemas.errors import (
    GatewayError,
    InvalidRequest,
    Throttled,
    Unavailable,
    UpstreamBusy,
    UpstreamOverloaded,
    UpstreamRefused,
    UpstreamRejected,
    UpstreamUnreachable,
)

NEVER_READ: Final = (
    InvalidRequest,
    Throttled,
    Unavailable,
    UpstreamBusy,
    UpstreamOverloaded,
    UpstreamRefused,
    UpstreamRejected,
    UpstreamUnreachable,
)
"""Errors after which no model has read the prompt: nothing was sent, or the backend refused it
first, for which vendors do not charge. So is any answer whose status is an error's, except one
that says that the time was over; such an error is `unread`."""


class Sending(Protocol):
    """The part of an attempt's record that its upstream writes.

    unread: no model has read the prompt. True from the beginning of the attempt until the request
            is written to the backend's connection.
    waiting: it waits for something of the gateway's own: a connection, a thread, an image.
    waited_s: seconds in which it did so. They say nothing about the backend.
    share:  how much of the prompt was sent, if the upstream makes several calls of the request:
            0.25 for a quarter of the inputs, 2.0 for two choices of the whole prompt.
    provider_key: the name of the key that it was sent with, if the provider has several.
    """

    unread: bool
    share: float
    waiting: bool
    waited_s: float
    provider_key: str


class PartSending:
    """See Sending: of one of several calls, or of a call that nothing records."""

    __slots__ = ("provider_key", "share", "unread", "waited_s", "waiting")

    def __init__(self) -> None:
        self.unread = True
        self.share = 1.0
        self.waiting = False
        self.waited_s = 0.0
        self.provider_key = ""


def is_unread(error: GatewayError) -> bool:
    """Whether no model has read the prompt of the call that ended with the error."""
    return isinstance(error, NEVER_READ) if error.unread is None else error.unread


UNWATCHED = PartSending()
"""For calls whose costs are not recorded. All of them write to it, so do not read it."""


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
    whole.waited_s += max((part.waited_s for part, _ in parts), default=0.0)
    whole.provider_key = next(
        (part.provider_key for part, _ in parts if part.provider_key), whole.provider_key
    )
