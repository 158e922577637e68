"""The key in the query of a URL, where clients of Google's APIs may send it.

Nothing logs or records a query. On all other paths a key in it is not looked for, so that no client
gets used to it. https://cloud.google.com/docs/authentication/api-keys-use
"""

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from litestar.types import Scope

_GOOGLES: Final = re.compile(
    r"/+(?:(?:ai-gateway/+)?gemini/+|v1/+)?v1(beta1?|alpha)/.*"
    r"|/+v1/+(projects|publishers|tunedModels)/.*|/+(v1/+)?models(/.*)?",
    re.DOTALL,
)


def key_in_query(scope: "Scope") -> bytes:
    """Return the key of `?key=` on a path of Google's APIs; b"" for none."""
    query = scope["query_string"]
    if not query or b"key=" not in query or _GOOGLES.fullmatch(scope["path"]) is None:
        return b""
    found = parse_qs(query.decode("latin-1")).get("key", [""])
    return found[0].encode("latin-1", "replace")
