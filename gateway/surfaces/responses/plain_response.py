"""Write a plain answer as a response, in the bytes that `ResponsesRenderer` would write."""

from collections.abc import Callable

from msgspec import Raw

from strowger_gateway.gateway.surfaces.openai.envelope import created_at, encode
from strowger_gateway.gateway.surfaces.responses import items
from strowger_gateway.gateway.surfaces.responses.resource import ResourceWriter, ResponseOutcome
from strowger_gateway.gateway.surfaces.responses.usage import usage_json
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import ChatRequest

CUT: bytes = b'{"reason":"max_output_tokens"}'
"""Why an answer that a limit ended is incomplete."""


def plain_response(
    answer: PlainAnswer, request: ChatRequest, request_id: str, clock: Callable[[], float]
) -> bytes:
    """See PlainRenderer. The request's answer is not stored. clock: returns Unix seconds."""
    created = created_at(request_id)
    writer = ResourceWriter(request, id=f"resp_{request_id}", created=created)
    return writer.write(plain_outcome(answer, request, request_id, clock))


def plain_outcome(
    answer: PlainAnswer,
    request: ChatRequest,
    request_id: str,
    clock: Callable[[], float],
    *,
    stored: bool = False,
) -> ResponseOutcome:
    """Return what became of the answer.

    Every value is encoded from what was decoded; nothing of the backend's bytes is in it.
    """
    ended = answer.finish == "stop"
    status = items.COMPLETED if ended else items.INCOMPLETE
    parts = (items.text_part(encode(answer.text)),)
    extra: dict[str, Raw] = {}
    if answer.system_fingerprint is not None:
        extra["system_fingerprint"] = Raw(encode(answer.system_fingerprint))
    if answer.service_tier is not None:
        extra["service_tier"] = Raw(encode(answer.service_tier))
    if answer.annotated:
        extra["annotations"] = Raw(b"[]")
    return ResponseOutcome(
        status=status,
        stored=stored,
        model=answer.model or request.model,
        output=b"[%b]" % items.message(b"msg_%b_0" % request_id.encode(), parts, status),
        completed_at=int(clock()) if ended else None,
        incomplete=b"null" if ended else CUT,
        usage=usage_json(answer.usage),
        extra=extra,
    )
