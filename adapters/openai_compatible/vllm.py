"""vLLM's OpenAI server: the dialect, and all further parameters that the engine reads.

`response_format`, vLLM's own `structured_outputs` or, before version 0.12, `guided_json`,
`guided_regex`, … request constrained answers; a version ignores the other version's names.
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
https://github.com/vllm-project/vllm/tree/main/vllm/entrypoints/openai
"""

from typing import ClassVar

from adapters.base import READABLE, Range, Supports
from adapters.client_fields.denied import withheld
from adapters.openai.vendor_profiles import VendorProfile
from adapters.openai_compatible.open_model_server import OpenModelServerAdapter
from schemas.fields import MESSAGES

SAMPLING = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "max_tokens",
        "min_tokens",
        "stop",
        "stop_token_ids",
        "bad_words",
        "ignore_eos",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "length_penalty",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "n",
        "priority",
    }
)
"""Without `best_of`, which newer versions ignore, and `beam_width` (`use_beam_search` and `n`)."""

CHAT = SAMPLING | {
    *MESSAGES,
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "reasoning_effort",
}
COMPLETION = SAMPLING | {"echo", "prompt.tokens", "prompt.batch"}
EMBEDDINGS = frozenset({"dimensions", "input.tokens"})

EXTRA = frozenset(
    {
        "add_special_tokens",
        "allowed_token_ids",
        "cache_salt",
        "ec_transfer_params",
        "guided_choice",
        "guided_decoding_backend",
        "guided_grammar",
        "guided_json",
        "guided_regex",
        "guided_whitespace_pattern",
        "include_stop_str_in_output",
        "kv_transfer_params",
        "logits_processors",
        "logprob_token_ids",
        "prompt_logprobs",
        "repetition_detection",
        "request_id",
        "return_token_ids",
        "return_tokens_as_token_ids",
        "session_id",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "stream_interval",
        "stream_options",
        "structural_tag",
        "structured_outputs",
        "thinking_token_budget",
        "truncate_prompt_tokens",
        "truncation_side",
        "use_beam_search",
        "vllm_xargs",
        "watermarking",
    }
)
CHAT_EXTRA = EXTRA | {
    "add_generation_prompt",
    "chat_template",
    "chat_template_kwargs",
    "continue_final_message",
    "documents",
    "echo",
    "include_reasoning",
    "media_io_kwargs",
    "mm_processor_kwargs",
    "return_prompt_text",
}
COMPLETION_EXTRA = EXTRA | {"prompt_embeds", "response_format"}
EMBEDDINGS_EXTRA = frozenset(
    {
        "add_special_tokens",
        "normalize",
        "priority",
        "request_id",
        "truncate_prompt_tokens",
        "use_activation",
    }
)

RANGES = {
    "temperature": Range(minimum=0),
    "top_p": Range(above=0, maximum=1),
    "top_k": Range(minimum=-1),
    "min_p": Range(minimum=0, maximum=1),
    "min_tokens": Range(minimum=0),
    "presence_penalty": Range(minimum=-2, maximum=2),
    "frequency_penalty": Range(minimum=-2, maximum=2),
    "repetition_penalty": Range(above=0),
    "n": Range(minimum=1),
    "seed": Range(minimum=-(2**63), maximum=2**63 - 1),
}

PRIORITY = {"priority": "priority (1 … 5 as -4 … 0)"}


class VllmAdapter(OpenModelServerAdapter):
    name: ClassVar[str] = "vllm"
    profile: ClassVar[VendorProfile] = VendorProfile(name="vllm", marked=True)

    def supported(self) -> Supports:
        return Supports(
            client_fields=withheld("vllm"),
            thoughts=READABLE,
            chat=CHAT,
            completion=COMPLETION,
            embeddings=EMBEDDINGS,
            extra_fields={
                "chat": CHAT_EXTRA,
                "completion": COMPLETION_EXTRA,
                "embeddings": EMBEDDINGS_EXTRA,
            },
            ranges=RANGES,
            translated={"chat": PRIORITY, "completion": PRIORITY},
        )
