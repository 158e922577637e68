"""Settings of stored responses, which clients of the Responses API continue by their ids."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gateway.config.schema.units import MIB, Count, Seconds


class ResponsesConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the content of responses is kept in `store.url`, and for how long.

    keep_days:         a response is deleted this long after it was stored.
    max_bytes_per_key: of all responses of one API key; beyond it, the conversation that was
                       continued least recently is deleted.
    timeout_s:         an answer waits this long for the store, and then leaves unstored.
    """

    store: Literal["off", "on"] = "off"
    keep_days: Count = 30
    max_bytes_per_key: Annotated[int, Meta(ge=MIB, extra={"size": True})] = 1024 * MIB
    timeout_s: Seconds = 2.0
