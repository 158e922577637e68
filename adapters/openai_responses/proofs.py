"""Encrypted reasoning as a proof: the id of its item, and what only its vendor reads.

The API rejects encrypted reasoning under the id of another item, so both travel together.
"""

from strowger_gateway.schemas.messages import Thought

_SEPARATOR = "."


def sealed(id: str, encrypted: str) -> str:
    """Return the proof; ids have no dot."""
    return f"{id}{_SEPARATOR}{encrypted}"


def opened(thought: Thought) -> tuple[str, str]:
    """Return the id, "" if it has none, and the encrypted reasoning."""
    id, separator, encrypted = (thought.data or thought.signature).partition(_SEPARATOR)
    return (id, encrypted) if separator else ("", id)
