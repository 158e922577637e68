"""Content parts outside OpenAI's dialect: sending them to the client, and reading them back.

A client gets them as `content_parts` of the message. A text part with more than its text
(citations) is in both `content_parts` and `content`, so it is dropped when the message is sent
back.
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.json_objects import UNREADABLE, read_list

CONTENT_PARTS: Final = "content_parts"
TEXTS: Final = frozenset({"output_text", "refusal", "text"})
"""Types of parts whose text is in the message's `content` or `refusal`."""


class _Kind(Struct, frozen=True, kw_only=True):
    type: str = "text"


_kind = msgspec.json.Decoder(_Kind)


def sent_back(parts: object) -> list[tuple[str, Raw]]:
    """Return the parts with their types; [] if none are readable."""
    if not isinstance(parts, Raw):
        return []
    try:
        kinds = [(_kind.decode(one).type, one) for one in read_list(parts)]
    except UNREADABLE:
        return []
    return [(kind, one) for kind, one in kinds if kind not in TEXTS]
