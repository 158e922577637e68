"""The name of an answer's JSON schema, which OpenAI requires, in its alphabet."""

import re
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import with_members
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import FORMAT
from strowger_gateway.schemas.messages import Message, ResponseFormat
from strowger_gateway.schemas.requests import ChatRequest, Request

NAME: Final = "answer"
LONGEST: Final = 64

_ALLOWED: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]+")
_fields: Final = msgspec.json.Decoder(dict[str, Raw])


def _named(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not isinstance(
        request.response_format, ResponseFormat
    ):
        return None
    form = request.response_format
    if form.type != "json_schema" or (form.name and _ALLOWED.fullmatch(form.name)):
        return None
    if not form.name and form.raw is UNSET:
        return None  # a client of another dialect, which has no names
    name = _sent(form.name or "")
    raw = form.raw
    if isinstance(raw, Raw):
        inner = with_members(_fields.decode(raw)["json_schema"], {"name": name})
        raw = with_members(raw, {"json_schema": inner})
    return Repaired(
        request=replace(request, response_format=replace(form, name=name, raw=raw)),
        changed=("response_format.json_schema.name",),
    )


def _sent(name: str) -> str:
    clean = _OTHER.sub("_", name).strip("_")
    if len(clean) > LONGEST:
        digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        clean = f"{clean[: LONGEST - 9]}_{digest}"
    return clean or NAME


SCHEMA_NAME: Final = Repair(
    name="schema_name",
    about="names an answer's schema that has no name, or one outside the alphabet",
    source="https://platform.openai.com/docs/api-reference/chat/create#chat-create-response_format",
    facts=FORMAT,
    apply=_named,
    example=ChatRequest(
        "m",
        (Message(role="user", content="Hello"),),
        response_format=ResponseFormat(
            type="json_schema", name="an answer", schema=Raw(b'{"type":"object","properties":{}}')
        ),
    ),
    light=True,
)
