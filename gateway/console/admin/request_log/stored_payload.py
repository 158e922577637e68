"""Whether the store has the bodies of a request, for those who may read them."""

from functools import partial

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.governance.sessions.principal import Principal
from strowger_gateway.gateway.observability.payloads.part import PayloadsSide
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.payload_rows import PayloadRows, StoredPayload
from strowger_gateway.schemas.errors import Unavailable


def may_read(who: Principal) -> bool:
    """Return whether this role sees payloads, and which requests have one."""
    return who.may("admin")


async def payload_of(gateway: Gateway, request_id: str) -> StoredPayload | None:
    """Return the payload of a request; `None` without one, or while the store is away.

    Its caller records that it was read, if it shows the bodies.
    """
    rows, store = gateway.side(PayloadsSide).rows, gateway.store
    if rows is None or store is None:
        return None
    try:
        return await store.call(partial(_find, rows=rows, request_id=request_id))
    except Unavailable:
        return None


def _find(store: Store, rows: PayloadRows, request_id: str) -> StoredPayload | None:
    return rows.find(request_id)
