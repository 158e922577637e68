"""Signatures of reasoning, as blocks of this API carry them to the client and back.

Clients return `thinking` blocks unchanged. Claude's own signatures are sent as they are. Another
vendor's gets its format's name in front, so that only that vendor receives it again:
`google-gemini-v1:SIGNATURE`. Base64 has no colons.

Gemini also signs calls. Claude Code returns a `thinking` block only if it has text, so a call's
signature is on the thought before it, if that has no other: `google-gemini-v1:call:ID:SIGNATURE`.
Without such a thought it is in the call's id, which every client returns, in the letters of ids:
`ID__thought__SIGNATURE`, as LiteLLM writes it (https://github.com/BerriAI/litellm/pull/16895). An
id or a signature with other letters gets an empty `thinking` block. A vendor's own id that looks
like this, such as LiteLLM's, gets `__thought__` at its end, and returns to the vendor as it was.
"""

import re
from typing import Final

from strowger_gateway.schemas.messages import CLAUDE, GEMINI, Thought

_SEPARATOR: Final = ":"
_CALL: Final = "call"
_IN_ID: Final = "__thought__"
_ID: Final = re.compile("[a-zA-Z0-9_-]+")
_BASE64: Final = re.compile("(?:[a-zA-Z0-9+/]{4})*(?:[a-zA-Z0-9+/]{2}==|[a-zA-Z0-9+/]{3}=)?")
_TO_ID: Final = str.maketrans("+/", "-_", "=")
_FROM_ID: Final = str.maketrans("-_", "+/")
UNNAMED: Final = "unknown"


def written(proof: str, format: str) -> str:
    """Return a signature, or encrypted reasoning, as the client gets it."""
    if not proof or format in (CLAUDE, ""):
        return proof
    return f"{format}{_SEPARATOR}{proof}"


def written_for_call(signature: str, call_id: str) -> str:
    return _SEPARATOR.join((GEMINI, _CALL, call_id, signature))


def signed_id(call_id: str, signature: str) -> str:
    """Return the id of a call that has its signature in it; "" if an id cannot have it."""
    if _ID.fullmatch(call_id) is None or _BASE64.fullmatch(signature) is None:
        return ""
    return f"{call_id}{_IN_ID}{signature.translate(_TO_ID)}"


def unsigned_id(call_id: str) -> str:
    """Return the id of a call without a signature, of which `plain_id` takes nothing away."""
    return call_id if plain_id(call_id)[0] == call_id else call_id + _IN_ID


def plain_id(id: str) -> tuple[str, str]:
    """Return the call's own id, and the signature in it; "" for none."""
    if _IN_ID not in id:
        return id, ""
    call_id, _, written = id.rpartition(_IN_ID)
    if not written:
        return (call_id if _IN_ID in call_id else id), ""
    signature = written.rstrip("=").translate(_FROM_ID)
    signature += "=" * (-len(signature) % 4)
    valid = call_id and _BASE64.fullmatch(signature) is not None
    return (call_id, signature) if valid else (id, "")


def read(text: str, proof: str, data: str) -> Thought:
    """Return the reasoning that a block contains. Empty strings are absent."""
    format, _, rest = (proof or data).rpartition(_SEPARATOR)
    return Thought(
        text=text,
        signature=rest if proof else "",
        data=rest if data else "",
        format=format or (CLAUDE if rest else ""),
    )


def call_of(proof: str) -> tuple[str, str] | None:
    """Return the id and the signature of the call that the block signs; `None` for none."""
    prefix = f"{GEMINI}{_SEPARATOR}{_CALL}{_SEPARATOR}"
    if not proof.startswith(prefix):
        return None
    call_id, _, signature = proof[len(prefix) :].rpartition(_SEPARATOR)
    return call_id, signature
