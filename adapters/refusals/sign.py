"""One sign by which a vendor's refusal is recognised."""

from typing import Literal

from msgspec import Struct

from strowger_gateway.schemas.errors import RefusalCause

About = RefusalCause | Literal["load"]
"""`load`: not a refusal but a rate limit, although its code is that of an exhausted quota."""


class RefusalSign(Struct, frozen=True, kw_only=True):
    """One way in which vendors refuse.

    statuses: at which it holds; all if there are none. An error inside a 200 has no status, so it
              may have any sign.
    words:    one of them is the error's code or type; in lower case.
    text:     matches the beginning of the message, ignoring case. With `words` both must hold.
    sources:  where it was seen.
    """

    vendor: str
    about: About
    sources: tuple[str, ...]
    statuses: frozenset[int] = frozenset()
    words: frozenset[str] = frozenset()
    text: str = ""
