"""Signatures of reasoning, as blocks of this API carry them to the client and back.

Clients return `thinking` blocks unchanged. Claude's own signatures are sent as they are. Another
vendor's gets its format's name in front, so that only that vendor receives it again:
`google-gemini-v1:SIGNATURE`. Gemini also signs calls; such a signature is in an empty `thinking`
block before the call: `google-gemini-v1:call:ID:SIGNATURE`. Base64 has no colons.
"""

from typing import Final

from schemas.messages import CLAUDE, GEMINI, Thought

_SEPARATOR: Final = ":"
_CALL: Final = "call"
UNNAMED: Final = "unknown"


def written(proof: str, format: str) -> str:
    """Return a signature, or encrypted reasoning, as the client gets it."""
    if not proof or format in (CLAUDE, ""):
        return proof
    return f"{format}{_SEPARATOR}{proof}"


def written_for_call(signature: str, call_id: str) -> str:
    return _SEPARATOR.join((GEMINI, _CALL, call_id, signature))


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
