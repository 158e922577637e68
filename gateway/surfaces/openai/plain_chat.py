"""Write a plain answer to a chat, in the bytes that `ChatRenderer` would write."""

from strowger_gateway.gateway.surfaces.openai.envelope import created_at, encode
from strowger_gateway.gateway.surfaces.openai.usage import usage_json
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import GenerateRequest


def plain_chat(answer: PlainAnswer, request: GenerateRequest, request_id: str) -> bytes:
    """See PlainRenderer.

    Every value is encoded from what was decoded; nothing of the backend's bytes is in it.
    """
    usage, stop_match = answer.usage, answer.stop_match
    more = b""
    if usage is not None:
        if usage.raw is None:
            more = b',"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}' % (
                usage.prompt_tokens,
                usage.completion_tokens,
                usage.total_tokens,
            )
        else:
            more = b',"usage":' + usage_json(usage)
    if answer.system_fingerprint is not None:
        more += b',"system_fingerprint":' + encode(answer.system_fingerprint)
    if answer.service_tier is not None:
        more += b',"service_tier":' + encode(answer.service_tier)
    return (
        b'{"id":"chatcmpl-%b","object":"chat.completion","created":%d,"model":%b,"choices":['
        b'{"index":0,"message":{"role":"assistant","content":%b,"refusal":null%b},"logprobs":null,'
        b'"finish_reason":"%b"%b%b}]%b}'
        % (
            request_id.encode(),
            created_at(request_id),
            encode(answer.model or request.model),
            encode(answer.text),
            b',"annotations":[]' if answer.annotated else b"",
            answer.finish.encode(),
            b"" if stop_match is None else b',"stop_reason":' + encode(stop_match),
            b"" if answer.seed is None else b',"seed":%d' % answer.seed,
            more,
        )
    )
