"""Names in `anthropic-beta` that a service does not know, and therefore refuses.

Claude Code and the SDKs name each feature of Anthropic's own API that they use, and new ones each
month. The other services that run Claude know some of them, and answer 400 to all others.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec
from msgspec import DecodeError, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import json_of, without_extra
from strowger_gateway.adapters.repairs.rule import Aim, Operator, Repair, Repaired, every_model
from strowger_gateway.schemas.content_facts import EXTRA
from strowger_gateway.schemas.messages import Message, OpaqueTool
from strowger_gateway.schemas.requests import ChatRequest, Request

BETA: Final = "anthropic-beta"
"""The header, which clients of other dialects send as a field. A path names one of its values after
a dot: `anthropic-beta.files-api-2025-04-14`."""

_NAMES: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_text = msgspec.json.Decoder(str).decode


class Betas(msgspec.Struct, frozen=True, kw_only=True):
    """What a service accepts.

    accepted: the names, by the model. needed: of those, the names that are sent only with a tool
    whose type begins so. renamed: names for the same under which the service knows it. field: the
    path of the service's own field for the header, whose rights apply to `withheld` names.
    """

    accepted: Callable[[str], Collection[str]]
    needed: Mapping[str, str] = {}
    renamed: Mapping[str, str] = {}
    field: str = ""
    withheld: Collection[str] = ()


def _silent(_: str) -> bool | None:
    return None


def betas(
    source: str,
    known: Betas,
    models: Callable[[str], bool] = every_model,
    said: Operator = _silent,
) -> Repair:
    """Return the rule for a service that refuses names which it does not know.

    models: those that read the header at all. said: an operator's `client_fields`, which can allow
    and deny each name.
    """

    def is_sent(name: str, request: ChatRequest, model: str) -> bool:
        word = said(f"{BETA}.{name}")
        if word is not None:
            return word
        if name not in known.accepted(model):
            return False
        if name in known.withheld and not said(known.field):
            return False
        kind = known.needed.get(name)
        return kind is None or any(
            isinstance(one, OpaqueTool) and one.type.startswith(kind) for one in request.tools or ()
        )

    def apply(request: Request, aim: Aim) -> Repaired | None:
        raw = request.extra.get(BETA)
        if not isinstance(request, ChatRequest) or raw is None:
            return None
        names = _read(raw)
        sent: list[str] = []
        left_out: list[str] = []
        for name in names:
            own = name if said(f"{BETA}.{name}") else known.renamed.get(name, name)
            if not is_sent(own, request, aim.model):
                left_out.append(f"{BETA}.{name}")
            elif own not in sent:
                sent.append(own)
        if sent == names or not names:
            return None
        made = without_extra(request, BETA)
        if sent:
            made = replace(made, extra={**made.extra, BETA: json_of(",".join(sent))})
        changed = () if left_out else (BETA,)
        return Repaired(request=made, changed=changed, left_out=tuple(left_out))

    return Repair(
        name="betas",
        about=f"leaves out names in `{BETA}` that the service refuses",
        source=source,
        facts=EXTRA,
        apply=apply,
        example=_EXAMPLE,
        loss="hint",
        models=models,
        within=lambda operator: betas(source, known, models, operator),
    )


_EXAMPLE: Final = ChatRequest(
    "m",
    (Message(role="user", content="Hello"),),
    extra={BETA: Raw(b'"an-unknown-beta-2020-01-01"')},
)


def _read(raw: Raw) -> list[str]:
    """Return the names; none if it is not a text, which the encoder refuses."""
    try:
        return _NAMES.findall(_text(raw))
    except (DecodeError, RecursionError):
        return []
