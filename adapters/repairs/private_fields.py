"""Fields that would let a client reach what belongs to another, sent as a hash that cannot.

A key of a prompt's cache selects a cache in the operator's account, which every client shares.
Hashed together with the name of the client's key it selects one that only this client's requests
have: equal values give equal hashes, other clients other ones, so that the vendor's cache works.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import DecodeError, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, every_model
from strowger_gateway.schemas.content_facts import EXTRA
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, Request

DIGITS: Final = 32
"""Hexadecimal digits of a hash, 128 bits; vendors take at least 64 characters."""

LONGEST: Final = 4096
"""Characters of a value that is hashed; vendors refuse far shorter ones."""

_text = msgspec.json.Decoder(str).decode


def private_fields(source: str, *names: str, models: Callable[[str], bool] = every_model) -> Repair:
    """Return the rule for a vendor that has these fields.

    The operator's `client_fields` take precedence: an allowed field is sent as the client wrote it,
    a denied one not at all. source: where the vendor documents the fields.
    """

    def apply(request: Request, aim: Aim) -> Repaired | None:
        return _hashed(request, aim, names)

    return Repair(
        name="private_value",
        about=f"sends {' and '.join(f'`{one}`' for one in names)} hashed with the client's key",
        source=source,
        facts=EXTRA,
        apply=apply,
        example=ChatRequest(
            "m",
            (Message(role="user", content="Hello"),),
            extra={names[0]: Raw(b'"session-1"')},
        ),
        models=models,
        fields=names,
    )


def _hashed(request: Request, aim: Aim, names: tuple[str, ...]) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    found = {name: request.extra[name] for name in names if name in request.extra}
    hashes = {name: _hash(aim.tenant, value) for name, value in found.items()}
    sent = {name: value for name, value in hashes.items() if value is not None}
    if not sent:
        return None
    extra = {name: raw for name, raw in request.extra.items() if name not in sent}
    return Repaired(
        request=replace(request, extra=extra, private={**(request.private or {}), **sent}),
        changed=tuple(sent),
    )


def _hash(tenant: str, raw: Raw) -> str | None:
    """Return the hash; `None` for a value that is not a short text, which the vendor refuses."""
    try:
        value = _text(raw)
    except DecodeError:
        return None
    if not 0 < len(value) <= LONGEST:
        return None
    name = tenant.encode("utf-8", "surrogatepass")
    return sha256(b"%d:%b%b" % (len(name), name, value.encode())).hexdigest()[:DIGITS]
