"""Settings of responses that clients of the Responses API continue by ids: stored, or sealed."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.units import MIB, Count, Seconds
from strowger_gateway.schemas.secret import Secret

SHORTEST_SEALING_KEY = 32
"""Characters."""


class ResponsesConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the content of responses is kept in `store.url`, and for how long.

    keep_days:         a response is deleted this long after it was stored.
    max_bytes_per_key: of all responses of one API key; beyond it, the conversation that was
                       continued least recently is deleted.
    max_total_bytes:   of all responses of all keys; beyond it, those of the key that has the most
                       are deleted in the same way.
    timeout_s:         an answer waits this long for the store, and then leaves unstored.
    seal:              while nothing is stored, clients get items to which they refer later in a
                       sealed form, and return it.
    sealing_keys:      of all gateways of a deployment: the first seals, both open. Without any, the
                       gateways on one `store.url` share one that is in it.
    sealed_days:       a sealed item can be referred to for this long.
    """

    store: Literal["off", "on"] = "off"
    keep_days: Count = 30
    max_bytes_per_key: Annotated[int, Meta(ge=MIB, extra={"size": True})] = 1024 * MIB
    max_total_bytes: Annotated[int, Meta(ge=MIB, extra={"size": True})] = 8 * 1024 * MIB
    timeout_s: Seconds = 2.0
    seal: Literal["off", "on"] = "on"
    sealing_keys: Annotated[tuple[Secret, ...], Meta(max_length=2)] = ()
    sealed_days: Count = 30
