"""Delay the answer to a wrong API key, if its address has sent many."""

from litestar.types import HTTPScope

from strowger_gateway.gateway.governance.access.auth import too_many_wrong_keys
from strowger_gateway.gateway.governance.access.client_address import ClientAddresses
from strowger_gateway.gateway.governance.access.wrong_keys import WrongKeyThrottle


async def delay_wrong_key(
    throttle: WrongKeyThrottle, scope: HTTPScope, clients: ClientAddresses
) -> None:
    """Return when the answer may be sent. Raises Throttled for an address with too many."""
    if retry_after := await throttle.delay_answer(scope, clients.of(scope)):
        raise too_many_wrong_keys(retry_after) from None
