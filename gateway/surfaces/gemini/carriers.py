"""`thoughtSignature`: Gemini's own as it is, and what other vendors want back of their reasoning.

Google signs a call, or a text, and its clients return the part unchanged; gemini-cli returns no
part that is a thought. So the reasoning before a call, or with a vendor's proof, is on the next
part that is none, with its text: base64 of a mark and JSON. It is not a secret from the client,
which has the text anyway; encrypted data is as the vendor encrypted it. Each thought has its
format's name, and only the vendor of that format receives it again.
https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import DecodeError, Struct

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.messages import Thought

_MARK: Final = b"strowger-thoughts-1:"
_BEGINS: Final = b64encode(_MARK[:18]).decode()
"""Of every carrier, in both alphabets of base64."""

SKIPPED: Final = "skip_thought_signature_validator"
"""Google's placeholder for a signature that a client does not have.
https://ai.google.dev/gemini-api/docs/thought-signatures#faqs"""

_TO_PLAIN: Final = str.maketrans("-_", "+/")


class Carried(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thought. The fields are those of `strowger_gateway.schemas.messages.Thought`."""

    text: str = ""
    signature: str = ""
    data: str = ""
    format: str = ""


_carried: Final = msgspec.json.Decoder(tuple[Carried, ...])


def carrier(thoughts: Sequence[Thought]) -> str:
    """Return a signature that carries the thoughts."""
    made = [
        Carried(text=one.text, signature=one.signature, data=one.data, format=one.format)
        for one in thoughts
    ]
    return b64encode(_MARK + encode(made)).decode()


def carried(signature: str) -> tuple[Thought, ...] | None:
    """Return the thoughts in a signature; `None` for a vendor's own signature."""
    if not signature.startswith(_BEGINS):
        return None
    plain = signature.rstrip("=").translate(_TO_PLAIN)
    try:
        data = b64decode(plain + "=" * (-len(plain) % 4), validate=True)
        found = _carried.decode(data.removeprefix(_MARK))
    except (NotBase64, ValueError, DecodeError, RecursionError):
        return None
    return tuple(
        Thought(text=one.text, signature=one.signature, data=one.data, format=one.format)
        for one in found
    )
