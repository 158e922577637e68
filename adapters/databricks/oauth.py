"""A Databricks workspace's token endpoint, and how to recognise an expired token.

https://docs.databricks.com/en/dev-tools/auth/oauth-m2m.html
"""

import msgspec
from msgspec import Struct

from strowger_gateway.adapters.base import TokenEndpoint
from strowger_gateway.adapters.json_objects import UNREADABLE


class _Refusal(Struct, frozen=True, kw_only=True):
    error_code: int | str = ""


_refusal = msgspec.json.Decoder(_Refusal)


def lapsed(status: int, body: bytes) -> bool:
    """Return whether the token is expired: a 403, as for a missing permission.

    It comes from the workspace's proxy, which sends a number where a service sends
    `PERMISSION_DENIED`, or no envelope at all. https://github.com/n8n-io/n8n/pull/34325
    """
    if status == 401:
        return True
    try:
        code = _refusal.decode(body).error_code
    except UNREADABLE:
        return True
    return str(code).isdigit()


TOKENS = TokenEndpoint(path="/oidc/v1/token", scope="all-apis", lapsed=lapsed)
