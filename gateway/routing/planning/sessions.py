"""The conversation that a request belongs to, by the ids that agents and their SDKs send."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.schemas.requests import ChatRequest, Request

HEADERS: Final = (
    "x-session-id",
    "x-claude-code-session-id",
    "session-id",
    "session_id",
    "x-session-affinity",
    "x-opencode-session",
)
"""Headers with the id of a session: anyone's, coding tools of Claude's, codex, opencode."""

CACHE_KEY: Final = "prompt_cache_key"
"""Agents set it to the id of their session, because its requests share a prefix.
https://platform.openai.com/docs/guides/prompt-caching"""

METADATA: Final = ("session_id", "sessionId")
_MARK: Final = "_session_"


class _User(Struct):
    session_id: str = ""


_texts: msgspec.json.Decoder[str] = msgspec.json.Decoder(str)
_users: msgspec.json.Decoder[_User] = msgspec.json.Decoder(_User)


def session_in(request: Request, metadata: Mapping[str, str]) -> str:
    """Return the id of the conversation that the body names; "" if it names none.

    Looked for in `metadata`, in `prompt_cache_key`, and in the user of Claude's coding tools, which
    is `user_…_session_ID` or an object, as text, with `session_id`.
    """
    for name in METADATA:
        if found := metadata.get(name):
            return found
    if not isinstance(request, ChatRequest):
        return ""
    key = request.extra.get(CACHE_KEY)
    if key is not None and (found := _text(key)):
        return found
    user = request.user
    if not isinstance(user, str):
        return ""
    if user.startswith("{"):
        try:
            return _users.decode(user).session_id
        except (msgspec.DecodeError, RecursionError):
            return ""
    return user.rpartition(_MARK)[2] if _MARK in user else ""


def _text(raw: Raw) -> str:
    try:
        return _texts.decode(raw)
    except msgspec.DecodeError:
        return ""
