"""All examples as requests, each beside the name of the rule that refuses it."""

import json
from collections.abc import Iterator

from tests.oracle.examples import anthropic, bedrock, chat, gemini, others
from tests.oracle.reading import Json
from tests.oracle.sent import Api, Sent

HEAD = {"anthropic-version": "2023-06-01"}
PATHS: dict[Api, str] = {
    "anthropic-messages": "/v1/messages",
    "bedrock-converse": "/model/m/converse",
    "gemini-generate": "/v1beta/models/m:generateContent",
    "openai-chat": "/v1/chat/completions",
}
MODEL_IN_PATH = ("bedrock-converse", "gemini-generate")
CHAT_VENDORS = ("openai", "azure", "mistral", "vllm", "llama-cpp", "deepseek", "xai", "compatible")


def sent(api: Api, vendor: str, *bodies: Json) -> Sent:
    """bodies: later ones replace members of earlier ones, and remove those that are None."""
    merged = {name: value for body in bodies for name, value in body.items()}
    removed = {name for name, value in bodies[-1].items() if value is None}
    merged = {name: value for name, value in merged.items() if name not in removed}
    model = str(merged.pop("model") if api in MODEL_IN_PATH else merged.get("model", ""))
    raw = json.dumps(merged).encode()
    path = PATHS.get(api, "/")
    return Sent(
        api=api, vendor=vendor, path=path, headers=HEAD, model=model, body=json.loads(raw), raw=raw
    )


def _refused() -> Iterator[tuple[str, Sent]]:
    for name, body in anthropic.REFUSED.items():
        yield name, sent("anthropic-messages", "anthropic", anthropic.ALLOWED, body)
    for name, body in bedrock.REFUSED.items():
        yield name, sent("bedrock-converse", "bedrock", bedrock.ALLOWED, body)
    for name, body in gemini.REFUSED.items():
        yield name, sent("gemini-generate", "gemini", gemini.ALLOWED, body)
    for name, (vendor, body) in chat.REFUSED.items():
        yield name, sent("openai-chat", vendor, chat.ALLOWED, body)
    for name, (api, body) in others.REFUSED.items():
        vendor = "openai" if api == "openai-embeddings" else api
        yield name, sent(api, vendor, others.ALLOWED[api], body)


def _allowed() -> Iterator[tuple[str, Sent]]:
    yield "anthropic", sent("anthropic-messages", "anthropic", anthropic.ALLOWED)
    yield "bedrock", sent("bedrock-converse", "bedrock", bedrock.ALLOWED)
    yield "gemini", sent("gemini-generate", "gemini", gemini.ALLOWED)
    for vendor in CHAT_VENDORS:
        yield vendor, sent("openai-chat", vendor, chat.ALLOWED)
    for api, body in others.ALLOWED.items():
        yield api, sent(api, "openai" if api == "openai-embeddings" else api, body)


REFUSED = dict(_refused())
ALLOWED = list(_allowed())
