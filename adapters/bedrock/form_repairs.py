"""Rules of what surrounds a request's text at Converse: labels of a request, and documents.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
"""

import re
from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.form_repairs.user_data import hashed
from strowger_gateway.adapters.repairs.rewriting import each_message, with_content
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import METADATA, ODD_USER, OPAQUE
from strowger_gateway.schemas.messages import Message, OpaquePart, TextPart
from strowger_gateway.schemas.requests import ChatRequest, Request

MOST: Final = 16
ATTACHED: Final = "Attached."

_VALUE: Final = re.compile(r"[a-zA-Z0-9\s:_@$#=/+,\-.]{0,256}")
_SOURCE: Final = "https://github.com/agentgateway/agentgateway/issues/1739"
_pairs: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_text: Final = msgspec.json.Decoder(str).decode
_encode: Final = msgspec.json.Encoder().encode


def _fits(text: str) -> bool:
    return _VALUE.fullmatch(text) is not None


def _fitting_user(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or request.user is UNSET or _fits(request.user):
        return None
    return Repaired(request=replace(request, user=hashed(request.user)), changed=("user",))


def _fitting_metadata(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not isinstance(request.metadata, Raw):
        return None
    try:
        pairs = _pairs(request.metadata)
    except (DecodeError, RecursionError):
        return None
    texts = {name: _as_text(raw) for name, raw in pairs.items()}
    kept = {name: text for name, text in texts.items() if name and _fits(name) and _fits(text)}
    kept = dict(list(kept.items())[: MOST - (request.user is not UNSET)])
    if len(kept) == len(pairs) and all(bytes(raw)[:1] == b'"' for raw in pairs.values()):
        return None
    left_out = ("metadata",) if len(kept) < len(pairs) else ()
    sent = Raw(_encode(kept)) if kept else UNSET
    changed = ("metadata",) if kept else ()
    return Repaired(request=replace(request, metadata=sent), changed=changed, left_out=left_out)


def _as_text(raw: Raw) -> str:
    text = bytes(raw)
    return _text(raw) if text[:1] == b'"' else text.decode("utf-8", "replace")


def _with_text(one: Message) -> Message:
    content = one.content
    if one.role != "user" or not isinstance(content, tuple):
        return one
    documents = any(isinstance(part, OpaquePart) and part.type == "file" for part in content)
    texts = any(isinstance(part, TextPart) and part.text.strip() for part in content)
    return with_content(one, (*content, TextPart(text=ATTACHED))) if documents > texts else one


def _told_documents(request: Request, _: Aim) -> Repaired | None:
    found = each_message(request, _with_text) if isinstance(request, ChatRequest) else None
    return None if found is None else Repaired(request=found, changed=("messages[].content",))


_HELLO: Final = (Message(role="user", content="Hello"),)
_FILE: Final = OpaquePart(
    type="file",
    raw=Raw(
        b'{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0=",'
        b'"filename":"a.pdf"}}'
    ),
)

FORM_REPAIRS: Final = (
    Repair(
        name="odd_user",
        about="sends a user's name as a hash if it has characters that labels may not have",
        source=_SOURCE,
        facts=ODD_USER,
        apply=_fitting_user,
        example=ChatRequest("m", _HELLO, user='{"session_id":"1"}'),
        light=True,
    ),
    Repair(
        name="odd_metadata",
        about=f"leaves out metadata beyond {MOST} labels or with characters they may not have",
        source=_SOURCE,
        facts=METADATA,
        apply=_fitting_metadata,
        example=ChatRequest("m", _HELLO, metadata=Raw(b'{"turn":5,"state":"{}"}')),
        loss="hint",
        light=True,
    ),
    Repair(
        name="document_text",
        about=f"adds the text {ATTACHED!r} to a message of documents alone",
        source="https://github.com/maximhq/bifrost/pull/5817",
        facts=OPAQUE,
        apply=_told_documents,
        example=ChatRequest("m", (Message(role="user", content=(_FILE,)),)),
    ),
)
"""In the order in which they run."""
