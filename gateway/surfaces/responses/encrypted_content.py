"""`encrypted_content` of reasoning items: what a vendor wants back of its own reasoning.

Clients return reasoning items unchanged, but some leave out the readable text. So the field has
the text, its signature, or data that only the vendor reads. It begins with the format's name, and
only the vendor of that format receives it again. It is not a secret from the client, which has the
text anyway; data is as the vendor encrypted it.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from typing import Final

import msgspec
from msgspec import DecodeError, Struct

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.messages import GEMINI, OPENAI, Thought

_UNKNOWN: Final = "unknown"
_SEPARATOR: Final = ":"


class Sealed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """call: the id of the call that the signature belongs to; "" for reasoning."""

    text: str = ""
    signature: str = ""
    data: str = ""
    call: str = ""


_sealed: Final = msgspec.json.Decoder(Sealed)


def sealed(text: str, signature: str, data: str, format: str) -> str:
    """Return the field's value; "" for reasoning that its vendor reads without a proof."""
    if not (signature or data):
        return ""
    return _written(Sealed(text=text, signature=signature, data=data), format)


def sealed_call(signature: str, call_id: str) -> str:
    """Return the field's value for Gemini's signature of a call."""
    return _written(Sealed(signature=signature, call=call_id), GEMINI)


def opened(encrypted: str) -> tuple[Thought, str] | None:
    """Return the reasoning, and the id of the call that it only signs; "" for none.

    `None` for a value that the gateway did not write: OpenAI's own, which only OpenAI reads.
    """
    format, separator, payload = encrypted.rpartition(_SEPARATOR)
    found = _read(payload) if separator else None
    if found is None:
        return None
    thought = Thought(
        text=found.text,
        signature=found.signature,
        data=found.data,
        format="" if format == _UNKNOWN else format,
    )
    return thought, found.call


def openais(id: str, text: str, encrypted: str) -> Thought:
    """Return the reasoning of an item that OpenAI wrote, as OpenAI's adapter writes it.

    text: of its summary, which other vendors read. The API takes encrypted reasoning only with the
    id of its item, so both are one proof; ids have no dot.
    """
    proof = f"{id}.{encrypted}"
    if text:
        return Thought(text=text, signature=proof, format=OPENAI)
    return Thought(data=proof, format=OPENAI)


def _read(payload: str) -> Sealed | None:
    try:
        return _sealed.decode(urlsafe_b64decode(payload))
    except (ValueError, NotBase64, DecodeError, RecursionError):
        return None


def _written(value: Sealed, format: str) -> str:
    return f"{format or _UNKNOWN}{_SEPARATOR}{urlsafe_b64encode(encode(value)).decode()}"
