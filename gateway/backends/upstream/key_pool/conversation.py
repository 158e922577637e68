"""What keeps the requests of one conversation at one key, whose account has its prompt cached."""

from hashlib import blake2b
from typing import Final

from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.schemas.messages import text_of
from strowger_gateway.schemas.requests import ChatRequest, Request

CHARACTERS: Final = 1024
"""Of each message; the shortest prompts that vendors cache have about as many tokens."""


def conversation_of(request: Request, call: Call) -> bytes:
    """Return a digest of how the chat begins, up to the first message of the user; b"" for others.

    Salted by the client's key, because conversations of two clients share no cache that matters.
    """
    if type(request) is not ChatRequest:
        return b""
    digest = blake2b(call.tenant.encode("utf-8", "replace"), digest_size=16)
    for message in request.messages:
        digest.update(
            f"\0{message.role}\0{text_of(message)[:CHARACTERS]}".encode("utf-8", "replace")
        )
        if message.role == "user":
            break
    return digest.digest()
