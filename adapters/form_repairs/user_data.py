"""Names of users and metadata beyond the lengths that a vendor takes.

Claude's coding tool names its user in JSON of 200 characters, and agents keep their state in
metadata. Both only label the request at the vendor.
"""

import re
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import METADATA, ODD_USER
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, Request

MOST, LONGEST_KEY, LONGEST_VALUE = 16, 64, 512
"""Of OpenAI's metadata: entries, and characters."""

_pairs: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_text: Final = msgspec.json.Decoder(str).decode
_encode: Final = msgspec.json.Encoder().encode
_STRING: Final = b'"'


def hashed(user: str) -> str:
    """Return a name of 64 characters; equal names become equal ones."""
    return sha256(user.encode("utf-8", "surrogatepass")).hexdigest()


def user_limit(source: str, most: int) -> Repair:
    """Return the rule for a vendor that takes a name of so many characters, at least 64.

    Equal names are sent as equal hashes.
    """

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest) or request.user is UNSET:
            return None
        if len(request.user) <= most:
            return None
        return Repaired(request=replace(request, user=hashed(request.user)), changed=("user",))

    return Repair(
        name="long_user",
        about=f"sends a user's name of more than {most} characters as a hash",
        source=source,
        facts=ODD_USER,
        apply=apply,
        example=ChatRequest("m", (Message(role="user", content="Hello"),), user="u" * 1000),
        light=True,
    )


def private_user(source: str) -> Repair:
    """Return the rule for a vendor that refuses names which say who the user is."""
    return Repair(
        name="private_user",
        about="sends a user's mail address or telephone number as a hash",
        source=source,
        facts=ODD_USER,
        apply=_hidden,
        example=ChatRequest("m", (Message(role="user", content="Hello"),), user="a@example.org"),
        light=True,
    )


def _hidden(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or request.user is UNSET:
        return None
    if _PRIVATE.search(request.user) is None:
        return None
    return Repaired(request=replace(request, user=hashed(request.user)), changed=("user",))


_PRIVATE: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+|\+\d[\d\s().-]{6,}")


def _within(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not isinstance(request.metadata, Raw):
        return None
    try:
        pairs = _pairs(request.metadata)
    except (DecodeError, RecursionError):
        return None
    texts = {name: _as_text(raw) for name, raw in pairs.items() if bytes(raw) != b"null"}
    kept = {
        name: raw
        for name, raw in texts.items()
        if len(name) <= LONGEST_KEY and len(_text(raw)) <= LONGEST_VALUE
    }
    kept = dict(list(kept.items())[:MOST])
    if kept == pairs:
        return None
    left_out = ("metadata",) if len(kept) < len(pairs) else ()
    sent = Raw(_encode(kept)) if kept else UNSET
    changed = ("metadata",) if kept else ()
    return Repaired(request=replace(request, metadata=sent), changed=changed, left_out=left_out)


def _as_text(raw: Raw) -> Raw:
    if bytes(memoryview(raw)[:1]) == _STRING:
        return raw
    return Raw(_encode(bytes(raw).decode("utf-8", "replace")))


def metadata_limits(source: str) -> Repair:
    """Return the rule for a vendor with OpenAI's limits."""
    return Repair(
        name="metadata_limit",
        about=f"leaves out metadata beyond {MOST} entries, or too long, and sends values as texts",
        source=source,
        facts=METADATA,
        apply=_within,
        example=ChatRequest(
            "m",
            (Message(role="user", content="Hello"),),
            metadata=Raw(_encode({"turn": 5, "state": "x" * 600})),
        ),
        loss="hint",
        light=True,
    )
