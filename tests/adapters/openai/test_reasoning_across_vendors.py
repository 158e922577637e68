"""Reasoning is sent to other vendors as text, and its proof only to the vendor that made it."""

import json
from typing import cast

import pytest

from strowger_gateway.adapters.anthropic.adapter import AnthropicAdapter
from strowger_gateway.adapters.base import Adapter
from strowger_gateway.adapters.bedrock.adapter import BedrockAdapter
from strowger_gateway.adapters.capabilities import omitted_content
from strowger_gateway.adapters.gemini.adapter import GeminiAdapter
from strowger_gateway.adapters.openai.adapter import OpenAIAdapter
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.adapters.testing import contract_endpoint
from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.openai.surface import CHAT
from strowger_gateway.schemas.messages import CLAUDE, GEMINI
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling

URL = "https://vendor.test"
BEDROCK_URL = "https://bedrock-runtime.eu-west-1.amazonaws.com"


def conversation(**answer: object) -> ChatRequest:
    """Return a client's second turn: the first answer as it was received, and a question."""
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "yes", **answer},
        {"role": "user", "content": "and?"},
    ]
    body = json.dumps({"model": "m", "messages": messages, "max_tokens": 99}).encode()
    request = CHAT.parse(Inbound(body=body, max_choices=1))
    assert isinstance(request, ChatRequest)
    return request


def thought(vendor: str) -> ChatRequest:
    detail = {
        "type": "reasoning.text",
        "text": "Hm.",
        "signature": "c2lnbmVk",
        "format": vendor,
        "index": 0,
    }
    return conversation(
        reasoning="Hm.",
        reasoning_content="Hm.",
        reasoning_signature="c2lnbmVk",
        reasoning_details=[detail],
    )


ANTHROPIC = AnthropicAdapter(contract_endpoint(URL))
BEDROCK = BedrockAdapter(contract_endpoint(BEDROCK_URL))
GOOGLE = GeminiAdapter(contract_endpoint(URL))


@pytest.mark.parametrize("adapter", [ANTHROPIC, BEDROCK], ids=["anthropic", "bedrock"])
def test_claude_gets_its_own_proofs_back_from_either_service(adapter: Adapter) -> None:
    body = adapter.encode(thought(CLAUDE), "anthropic.claude").body

    assert b"c2lnbmVk" in body
    assert not omitted_content(thought(CLAUDE), adapter.supports)


@pytest.mark.parametrize("adapter", [ANTHROPIC, BEDROCK], ids=["anthropic", "bedrock"])
def test_claude_does_not_get_geminis_reasoning_and_the_client_sees_that(adapter: Adapter) -> None:
    body = adapter.encode(thought(GEMINI), "anthropic.claude").body

    assert b"c2lnbmVk" not in body
    assert b"Hm." not in body
    assert omitted_content(thought(GEMINI), adapter.supports) == ("messages.reasoning",)


def test_gemini_reads_claudes_reasoning_without_its_proof() -> None:
    body = GOOGLE.encode(thought(CLAUDE), "gemini-3-pro").body

    assert b"c2lnbmVk" not in body
    assert b"Hm." in body


def test_a_proof_without_a_format_goes_to_claude_and_not_to_gemini() -> None:
    request = conversation(reasoning="Hm.", reasoning_signature="c2lnbmVk")

    assert b"c2lnbmVk" in ANTHROPIC.encode(request, "m").body
    assert b"c2lnbmVk" in BEDROCK.encode(request, "m").body
    assert b"c2lnbmVk" not in GOOGLE.encode(request, "m").body
    assert b"Hm." in GOOGLE.encode(request, "m").body


def answer_sent(name: str, request: ChatRequest) -> dict[str, object]:
    adapter = Registry().build(name, contract_endpoint(URL))
    body = json.loads(adapter.encode(request, "m").body)
    return cast("dict[str, object]", body["messages"][1])


@pytest.mark.parametrize(
    ("name", "field"),
    [("groq", "reasoning"), ("cerebras", "reasoning"), ("deepseek", "reasoning_content")],
)
def test_a_vendor_gets_thinking_under_the_one_name_that_it_takes(name: str, field: str) -> None:
    sent = answer_sent(name, thought(CLAUDE))

    assert sent == {"role": "assistant", "content": "yes", field: "Hm."}


def test_thinking_under_another_name_is_sent_under_the_vendors() -> None:
    sent = answer_sent("groq", conversation(reasoning_content="Hm."))

    assert sent == {"role": "assistant", "content": "yes", "reasoning": "Hm."}


def test_openai_gets_no_field_that_its_reference_does_not_have() -> None:
    official = OpenAIAdapter(contract_endpoint("https://api.openai.com/v1"))

    body = json.loads(official.encode(thought(CLAUDE), "gpt").body)

    assert body["messages"][1] == {"role": "assistant", "content": "yes"}
    assert omitted_content(thought(CLAUDE), official.supports) == ("messages.reasoning",)


def test_a_server_of_which_nothing_is_known_gets_what_the_client_wrote() -> None:
    sent = answer_sent("openai", thought(CLAUDE))

    assert {"reasoning", "reasoning_content", "reasoning_details"} <= sent.keys()


def test_a_request_without_reasoning_is_sent_unchanged() -> None:
    request = ChatRequest(model="m", messages=conversation().messages, sampling=Sampling())

    assert answer_sent("groq", request) == {"role": "assistant", "content": "yes"}
