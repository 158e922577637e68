"""The standard service tier under the name that a vendor gives it.

OpenAI calls it `default`, which OpenAI's clients send to every vendor; others refuse that name.
"""

from collections.abc import Mapping

import msgspec
from msgspec import DecodeError, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import json_of, without_extra
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import EXTRA
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, Request

TIER = "service_tier"

_text = msgspec.json.Decoder(str).decode


def service_tiers(source: str, names: Mapping[str, str]) -> Repair:
    """Return the rule for a vendor.

    names: of the standard tier at other vendors -> the vendor's; "" leaves it out, if it is what
    the vendor uses by default.
    """

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest) or TIER not in request.extra:
            return None
        try:
            sent = names.get(_text(request.extra[TIER]))
        except DecodeError:
            return None
        if sent is None:
            return None
        left = without_extra(request, TIER)
        if not sent:
            return Repaired(request=left, left_out=(TIER,))
        private = {**(request.private or {}), TIER: json_of(sent)}
        return Repaired(request=replace(left, private=private), changed=(TIER,))

    return Repair(
        name="service_tier",
        about="names the standard service tier as the vendor does",
        source=source,
        facts=EXTRA,
        apply=apply,
        example=ChatRequest(
            "m",
            (Message(role="user", content="Hello"),),
            extra={TIER: Raw(b'"default"')},
        ),
    )
