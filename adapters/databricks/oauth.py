"""Where a Databricks workspace gives out tokens, and how it says that one is not valid any more.

https://docs.databricks.com/en/dev-tools/auth/oauth-m2m.html
"""

import msgspec
from msgspec import Struct

from adapters.base import TokenEndpoint
from adapters.openai.wire import UNREADABLE


class _Refusal(Struct, frozen=True, kw_only=True):
    error_code: int | str = ""


_refusal = msgspec.json.Decoder(_Refusal)


def lapsed(status: int, body: bytes) -> bool:
    """A token that has expired is a 403 there, as a lack of permission is.

    It comes from the front door, which writes a number where a service writes
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
