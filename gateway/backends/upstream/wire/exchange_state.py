"""The states of an exchange on a connection, and the events that lead from one to the next.

As in h11 (https://h11.readthedocs.io/en/latest/api.html#the-state-machine), every change goes
through one table, so that an impossible one is an internal error instead of a corrupt answer.
Facts about the socket itself (lost, half-closed, reusable) are flags of the connection: each can
become true in any state.

    READY ──send──▶ SENT ──head──▶ BODY ──end──▶ COMPLETE ──release──▶ READY
                      │              │               │
                      └────failure───┴────failure────┴──▶ FAILED
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class ExchangeState(IntEnum):
    """Where an exchange is. An IntEnum, because hashing a plain Enum takes a Python call."""

    READY = 0
    """No exchange; bytes from the peer are a protocol violation."""
    SENT = 1
    """The request is sent; the head of the answer is not complete."""
    BODY = 2
    """The head is complete, the body is not."""
    COMPLETE = 3
    """The peer has sent everything; some of it may be unread."""
    FAILED = 4
    """The exchange ended with an error, and the connection with it."""


# The events. Each maps the states in which it can happen to the next state; another state is a
# KeyError. A change is one look-up, `self.state = ON_HEAD[self.state]`, without a call.

Transitions = Mapping[ExchangeState, ExchangeState]

ON_SEND: Final[Transitions] = {ExchangeState.READY: ExchangeState.SENT}
ON_HEAD: Final[Transitions] = {ExchangeState.SENT: ExchangeState.BODY}
ON_END: Final[Transitions] = {ExchangeState.BODY: ExchangeState.COMPLETE}
ON_RELEASE: Final[Transitions] = {ExchangeState.COMPLETE: ExchangeState.READY}
ON_FAILURE: Final[Transitions] = {
    ExchangeState.SENT: ExchangeState.FAILED,
    ExchangeState.BODY: ExchangeState.FAILED,
    ExchangeState.COMPLETE: ExchangeState.FAILED,
    ExchangeState.FAILED: ExchangeState.FAILED,
}

TRANSITIONS: Final = {
    "send": ON_SEND,
    "head": ON_HEAD,
    "end": ON_END,
    "release": ON_RELEASE,
    "failure": ON_FAILURE,
}
"""The whole table, by event."""
