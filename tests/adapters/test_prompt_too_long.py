"""A prompt that is too long has one code and one wording, whatever the vendor's pattern."""

import json
import re

import pytest

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.prompt_too_long import PATTERNS, WORDS
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.schemas.errors import GatewayError, UpstreamRejected
from strowger_gateway.schemas.secret import Secret

Json = dict[str, object]

LITELLM = "this model's maximum context length is"
LANGCHAIN = "prompt is too long"
"""What their classifiers look for: litellm 1.109 in lower case, langchain-openai 1.7 as it is."""


def openai(message: str, code: object = None, type: str = "invalid_request_error") -> Json:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


RECORDED: dict[str, tuple[str, int, Json]] = {
    "openai": (
        "openai",
        400,
        openai(
            "This model's maximum context length is 8192 tokens. However, your messages resulted "
            "in 8545 tokens. Please reduce the length of the messages.",
            "context_length_exceeded",
        ),
    ),
    "openai, newer": (
        "openai",
        400,
        openai("Your input exceeds the context window of this model.", "context_length_exceeded"),
    ),
    "azure": (
        "azure",
        400,
        openai(
            "This model's maximum context length is 4096 tokens. However, your messages resulted "
            "in 4339 tokens.",
            "context_length_exceeded",
        ),
    ),
    "anthropic": (
        "anthropic",
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 219898 tokens > 200000 maximum",
            },
        },
    ),
    "anthropic with max_tokens": (
        "anthropic",
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "input length and `max_tokens` exceed context limit: 149674 + 64000 > "
                "204658, decrease input length or `max_tokens` and try again",
            },
        },
    ),
    "gemini": (
        "gemini",
        400,
        {
            "error": {
                "code": 400,
                "message": "The input token count (2845475) exceeds the maximum number of tokens "
                "allowed (1048576).",
                "status": "INVALID_ARGUMENT",
            }
        },
    ),
    "bedrock": ("bedrock", 400, {"message": "Input is too long for requested model."}),
    "bedrock's claude": (
        "bedrock",
        400,
        {"message": "prompt is too long: 210000 tokens > 200000 maximum"},
    ),
    "bedrock's model error": (
        "bedrock",
        424,
        {
            "__type": "com.amazon.coral#ModelErrorException",
            "message": "This model's maximum context length is 32768 tokens. Please reduce the "
            "length of the prompt",
        },
    ),
    "cohere": (
        "cohere",
        400,
        {
            "message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - "
            "received 4292. Try using a shorter prompt, or enabling prompt truncating."
        },
    ),
    "cohere, too large by": (
        "cohere",
        400,
        {"message": "too many tokens: size limit exceeded by 11326 tokens. Try shorter inputs"},
    ),
    "ollama": ("ollama", 400, {"error": "the input length exceeds the context length"}),
    "ollama, older": ("ollama", 500, {"error": "input length exceeds maximum context length"}),
    "openrouter": (
        "openrouter",
        400,
        openai(
            "This endpoint's maximum context length is 32768 tokens. However, you requested about "
            "42832 tokens (42832 of text input).",
            400,
        ),
    ),
    "deepseek": (
        "deepseek",
        400,
        openai(
            "This model's maximum context length is 65536 tokens. However, you requested 71275 "
            "tokens (71275 in the messages, 0 in the completion).",
            "invalid_request_error",
        ),
    ),
    "mistral": (
        "mistral",
        400,
        {
            "object": "error",
            "message": "Prompt contains 33186 tokens and 0 draft tokens, too large for model with "
            "32768 maximum context length",
            "type": "invalid_request_prompt",
            "param": None,
            "code": "3051",
        },
    ),
    "vllm": (
        "vllm",
        400,
        openai(
            "This model's maximum context length is 4096 tokens. However, your request has 5000 "
            "input tokens.",
            400,
            "BadRequestError",
        ),
    ),
    "vllm, before tokenizing": (
        "vllm",
        400,
        {
            "error": {
                "message": "You passed 894 input characters and requested 4096 output tokens. "
                "However, the model's context length is only 4096 tokens, resulting in a maximum "
                "input length of 0 tokens. (parameter=input_text, value=894)",
                "type": "BadRequestError",
                "param": "input_text",
                "code": 400,
            }
        },
    ),
    "sglang": (
        "sglang",
        400,
        {
            "object": "error",
            "message": "The input (5000 tokens) is longer than the model's context length (4096 "
            "tokens).",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    ),
    "sglang, in all": (
        "sglang",
        400,
        {
            "object": "error",
            "message": "Requested token count exceeds the model's maximum context length of 4096 "
            "tokens. You requested a total of 5000 tokens",
            "type": "BadRequestError",
        },
    ),
    "tgi": (
        "tgi",
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. "
            "Given: 4000 `inputs` tokens and 512 `max_new_tokens`",
            "error_type": "validation",
        },
    ),
    "tgi, inputs alone": (
        "tgi",
        422,
        {
            "error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 9",
            "error_type": "validation",
        },
    ),
    "mindie": (
        "mindie",
        424,
        {
            "error": "This model's maximum input ids length cannot be greater than 2559,the input "
            "ids length is 2757",
            "error_type": "Generation Error",
        },
    ),
    "triton": (
        "triton",
        500,
        {
            "error": "in ensemble 'ensemble', Encountered an error when fetching new request: "
            "Prompt length (5056) exceeds maximum input length (2048)."
        },
    ),
    "databricks": (
        "databricks",
        400,
        {
            "error_code": "BAD_REQUEST",
            "message": json.dumps(
                {
                    "external_model_provider": "anthropic",
                    "external_model_error": {
                        "type": "error",
                        "error": {
                            "type": "invalid_request_error",
                            "message": "prompt is too long: 210000 tokens > 200000 maximum",
                        },
                    },
                }
            ),
        },
    ),
    "llama-cpp": (
        "llama-cpp",
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
            }
        },
    ),
    "xai": (
        "xai",
        400,
        openai(
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens."
        ),
    ),
    "groq": (
        "groq",
        400,
        openai(
            "Please reduce the length of the messages or completion.", "context_length_exceeded"
        ),
    ),
    "moonshot": (
        "moonshot",
        400,
        openai("Invalid request: Your request exceeded model token limit: 262144 (requested: 9)"),
    ),
    "lm-studio": (
        "lm-studio",
        400,
        {
            "error": "Trying to keep the first 10136 tokens when context the overflows. However, "
            "the model is loaded with context length of only 7866 tokens, which is not enough."
        },
    ),
    "siliconflow": (
        "openai",
        400,
        {
            "code": 20015,
            "message": "length of prompt_tokens (65878) must be less than max_seq_len (65536).",
            "data": None,
        },
    ),
    "minimax": ("minimax", 400, openai("invalid params, context window exceeds limit (2013)")),
}
NOT_THAT: dict[str, tuple[str, int, Json]] = {
    "a rate limit": (
        "openai",
        429,
        openai("Request too large: prompt is too long for your tokens per minute", "rate_limit"),
    ),
    "a bound of the answer": ("openai", 400, openai("max_tokens (10000) cannot exceed 8192")),
    "a long name": ("openai", 400, openai("Invalid 'user': string too long. Max 64 characters")),
    "a vendor's word for another field": ("gemini", 400, openai("The name is too long")),
    "a key": ("openai", 401, openai("prompt is too long for this key")),
}


def error_of(adapter: str, status: int, body: Json) -> GatewayError:
    url = "https://x.test/openai/v1?api-version=1" if adapter == "azure" else "https://x.test/v1"
    endpoint = Endpoint(name="up", base_url=url, key=Secret("k"))
    return Registry(()).build(adapter, endpoint).error(status, {}, json.dumps(body).encode())


@pytest.mark.parametrize("pattern", RECORDED)
def test_it_is_a_400_with_the_code_and_the_phrases_that_clients_look_for(pattern: str) -> None:
    error = error_of(*RECORDED[pattern])

    assert isinstance(error, UpstreamRejected)
    assert (error.status, error.code) == (400, "context_length_exceeded")
    assert LITELLM in error.message.lower()
    assert LANGCHAIN in error.message
    assert error.type == "invalid_request_error"


@pytest.mark.parametrize("pattern", RECORDED)
def test_the_vendors_message_and_numbers_stay(pattern: str) -> None:
    adapter, status, body = RECORDED[pattern]
    said = json.dumps(body)

    end = error_of(adapter, status, body).message.partition("is exceeded: ")[2]

    assert end
    assert end in said.replace("\\\\\\", "\\").replace('\\"', '"') or end[:40] in said


@pytest.mark.parametrize("other", NOT_THAT)
def test_no_other_failure_is_taken_for_it(other: str) -> None:
    error = error_of(*NOT_THAT[other])

    assert error.code != "context_length_exceeded"


def test_every_form_of_the_table_has_a_recording_and_a_source() -> None:
    said = [json.dumps(body) for _, _, body in RECORDED.values()]
    unseen = [
        pattern.vendor
        for pattern in PATTERNS
        if not any(re.search(pattern.pattern, one, re.IGNORECASE) for one in said)
    ]

    assert unseen == []
    assert all(pattern.source.startswith("https://") for pattern in PATTERNS)


def test_every_alternative_of_a_pattern_has_one_of_the_words_that_are_looked_for_first() -> None:
    outside_parentheses = r"\|(?![^(]*\))"
    alternatives = [one for form in PATTERNS for one in re.split(outside_parentheses, form.pattern)]

    assert len(alternatives) > len(PATTERNS)
    assert [one for one in alternatives if not any(word in one for word in WORDS)] == []
