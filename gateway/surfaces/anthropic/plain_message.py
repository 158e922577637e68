"""Write a plain answer to a conversation, in the bytes that `MessagesRenderer` would write."""

from strowger_gateway.gateway.surfaces.anthropic.render import usage_json
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import GenerateRequest


def plain_message(answer: PlainAnswer, request: GenerateRequest, request_id: str) -> bytes:
    """See PlainRenderer.

    Every value is encoded from what was decoded; nothing of the backend's bytes is in it.
    """
    reason, match, usage = b"max_tokens", b"null", answer.usage
    if answer.finish == "stop":
        reason = b"end_turn"
        if isinstance(answer.stop_match, str):
            reason, match = b"stop_sequence", encode(answer.stop_match)
    more = b""
    if answer.system_fingerprint is not None:
        more = b',"system_fingerprint":' + encode(answer.system_fingerprint)
    if answer.service_tier is not None:
        more += b',"service_tier":' + encode(answer.service_tier)
    if answer.annotated:
        more += b',"annotations":[]'
    if usage is None or usage.raw is not None:
        counts = usage_json(usage)
    else:
        counts = b'{"input_tokens":%d,"output_tokens":%d}' % (
            usage.prompt_tokens or 0,
            usage.completion_tokens or 0,
        )
    return (
        b'{"id":"msg_%b","type":"message","role":"assistant","model":%b,'
        b'"content":[{"type":"text","text":%b}],"stop_reason":"%b","stop_sequence":%b,'
        b'"usage":%b%b}'
        % (
            request_id.encode(),
            encode(answer.model or request.model),
            encode(answer.text),
            reason,
            match,
            counts,
            more,
        )
    )
