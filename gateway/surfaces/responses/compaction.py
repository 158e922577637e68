"""Compaction items: what a summary stands for, as clients keep it and as conversations unfold it.

`encrypted_content` begins with PREFIX, and a seal follows. In it are the summary and what stays of
the conversation around it. An item without the prefix is another server's, which only that reads.

What an item stands for goes before it: at an item whose `whole` is false, the user's messages and
instructions before it stay, and everything else goes; at any other, everything goes.
https://developers.openai.com/api/docs/guides/compaction
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import DecodeError, Meta, Raw, Struct

from strowger_gateway.gateway.surfaces.decoding import invalid_request
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.stored_items import Compacted
from strowger_gateway.schemas.requests import Compaction

PREFIX: Final = "strowger_compaction_"
PURPOSE: Final = "compaction"
"""Of its seals."""

TRIGGER: Final = "compaction_trigger"
KINDS: Final = frozenset({"compaction", "compaction_summary", "context_compaction"})
"""Types under which clients return the item: the second is its former name, the third codex's."""

STAYING: Final = frozenset({"user", "developer", "system"})
"""Roles of messages that stay before an item that does not stand for all."""

MANAGEMENT: Final = "context_management"
"""The field of a request that names a threshold."""

LEADING: Final = "(leading items)"
"""The field of an answer with items that come before the backend's own, as a JSON list; a name
that no server sends."""

SUMMARY: Final = (
    "The conversation up to here became too long, and was replaced by this summary. The user's "
    "messages are as they were written; the answers, calls and results are only here:\n\n"
)
"""Before the text of a summary, for the model that goes on."""


class _Managed(Struct, frozen=True, kw_only=True):
    type: str
    compact_threshold: Annotated[int, Meta(ge=1)] | None = None


class _Named(Struct, frozen=True, kw_only=True):
    type: str | None = None
    role: str | None = None
    encrypted_content: str | None = None


_compacted: Final = msgspec.json.Decoder(Compacted)
_managed: Final = msgspec.json.Decoder(list[_Managed])
_named: Final = msgspec.json.Decoder(_Named)
_raws: Final = msgspec.json.Decoder(list[Raw])
_ALLOWED: Final = {
    MANAGEMENT: "a list of objects",
    f"{MANAGEMENT}[].type": '"compaction"',
    f"{MANAGEMENT}[].compact_threshold": "an integer of 1 or more, or null",
}
_MARK: Final = PREFIX.encode()


def threshold_in(extra: Mapping[str, Raw]) -> Compaction | None:
    """Return what `context_management` asks for; `None` for what this gateway does not know.

    Raises InvalidRequest for a threshold that no number of tokens reaches.
    """
    raw = extra.get(MANAGEMENT)
    if raw is None or bytes(memoryview(raw)[:1]) != b"[":
        return None
    try:
        entries = _managed.decode(raw)
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, MANAGEMENT, _ALLOWED) from exc
    if not entries or any(one.type != "compaction" for one in entries):
        return None
    given = [one.compact_threshold for one in entries if one.compact_threshold is not None]
    return Compaction(threshold=min(given, default=0))


def unpacked(data: bytes) -> Compacted:
    """Read what `encode` has written of a Compacted, once its seal is open."""
    return _compacted.decode(data)


def sealed_in(raw: Raw) -> str:
    """Return the `encrypted_content` of an item of the gateway's own; "" for any other item."""
    if _MARK not in bytes(raw):
        return ""
    try:
        found = _named.decode(raw)
    except (DecodeError, RecursionError):
        return ""  # reported when the item is read
    encrypted = found.encrypted_content or ""
    return encrypted if found.type in KINDS and encrypted.startswith(PREFIX) else ""


def seals_in(items: bytes) -> list[str]:
    """Return the seals in a JSON list of items."""
    if _MARK not in items:
        return []
    return [seal for raw in _raws.decode(items) if (seal := sealed_in(raw))]


def summary_text(summary: str) -> str:
    """Return the summary as the message that a model reads."""
    return SUMMARY + summary


def message_item(role: str, text: str) -> Raw:
    """Return a message with nothing but a text."""
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text}]
    return Raw(encode({"type": "message", "role": role, "content": content}))


def compaction_item(id: str, encrypted: str) -> bytes:
    """id: of the answer, without a prefix."""
    item = {"id": f"cmp_{id}_0", "type": "compaction", "encrypted_content": encrypted}
    return encode(item)


def unfolded(items: Iterable[Raw], known: Mapping[str, Compacted | None]) -> list[Raw]:
    """Return the items with what compaction items stand for in their place.

    known: by `encrypted_content`; `None`: it does not open, so nothing is in its place.
    """
    made: list[tuple[Raw, bool]] = []  # and whether the message stays
    for raw in items:
        found = known.get(sealed_in(raw))
        if found is None:
            made.append((raw, stays(raw)))
            continue
        made = [] if found.whole else [one for one in made if one[1]]
        made += [(one, True) for one in found.before]
        made.append((message_item("user", summary_text(found.summary)), False))
        made += [(one, True) for one in found.after]
    return [raw for raw, _ in made]


def staying(items: Iterable[Raw], known: Mapping[str, Compacted | None]) -> list[Raw]:
    """Return the messages that stay when a summary replaces all these items."""
    kept: list[Raw] = []
    for raw in items:
        found = known.get(sealed_in(raw))
        if found is not None:
            kept = [*([] if found.whole else kept), *found.before, *found.after]
        elif stays(raw):
            kept.append(raw)
    return kept


def stays(raw: Raw) -> bool:
    """Return whether the item is a message of the user, or an instruction."""
    try:
        found = _named.decode(raw)
    except (DecodeError, RecursionError):
        return False
    return (found.type or "message") == "message" and found.role in STAYING


def leading_in(fields: Mapping[str, Raw]) -> Sequence[Raw]:
    """Return the items that come before the backend's own."""
    found = fields.get(LEADING)
    return () if found is None else _raws.decode(found)
