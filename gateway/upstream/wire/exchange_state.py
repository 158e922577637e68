"""The states of an exchange on a connection, and the events that lead from one to the next.

As in h11 (https://h11.readthedocs.io/en/latest/api.html#the-state-machine), every change goes
through one table, so that an impossible one is an internal error instead of a corrupt answer.
Facts about the socket itself (lost, half-closed, reusable) are flags of the connection: each can
become true in any state.

    READY ──send──▶ SENT ──head──▶ BODY ──end──▶ COMPLETE ──release──▶ READY
                      │              │               │
                      └─────fail─────┴──────fail─────┴──▶ FAILED
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


class ExchangeEvent(IntEnum):
    """What changes the state."""

    SEND = 0
    HEAD = 1
    END = 2
    FAIL = 3
    RELEASE = 4


TRANSITIONS: Final[Mapping[ExchangeState, Mapping[ExchangeEvent, ExchangeState]]] = {
    ExchangeState.READY: {ExchangeEvent.SEND: ExchangeState.SENT},
    ExchangeState.SENT: {
        ExchangeEvent.HEAD: ExchangeState.BODY,
        ExchangeEvent.FAIL: ExchangeState.FAILED,
    },
    ExchangeState.BODY: {
        ExchangeEvent.END: ExchangeState.COMPLETE,
        ExchangeEvent.FAIL: ExchangeState.FAILED,
    },
    ExchangeState.COMPLETE: {
        ExchangeEvent.RELEASE: ExchangeState.READY,
        ExchangeEvent.FAIL: ExchangeState.FAILED,
    },
    ExchangeState.FAILED: {ExchangeEvent.FAIL: ExchangeState.FAILED},
}
"""The next state by state and event; what is not listed cannot happen."""
