"""Validate the Host field and the request target.

https://www.rfc-editor.org/rfc/rfc9112#section-3.2
"""

import re
from functools import lru_cache
from typing import Final

_PORT: Final = rb"(?::[0-9]{0,5})?"
_NAME: Final = rb"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2}){0,255}"
_LITERAL: Final = rb"\[(?:[0-9A-Fa-f:.]{2,45}|v[0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]{1,64})\]"
_HOST: Final = re.compile(rb"(?:%b|%b)%b" % (_LITERAL, _NAME, _PORT))
_ABSOLUTE: Final = re.compile(rb"https?://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)


@lru_cache(maxsize=256)
def well_formed(host: bytes) -> bool:
    """Return whether this is a valid Host: a name or address, optionally a port; may be empty."""
    return _HOST.fullmatch(host) is not None


def authority_of(target: bytes) -> tuple[bytes, bytes] | None:
    """Return the authority and the origin-form of a target in absolute-form.

    Return `None` for a target in any other form. The origin-form always has a path.
    """
    match = _ABSOLUTE.fullmatch(target)
    if match is None:
        return None
    rest: bytes = match[2].partition(b"#")[0]
    return match[1], rest if rest.startswith(b"/") else b"/" + rest
