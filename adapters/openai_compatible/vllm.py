"""vLLM's OpenAI server: the dialect, and all further parameters that the engine reads.

`response_format`, vLLM's own `structured_outputs` or, before version 0.12, `guided_json`,
`guided_regex`, … request constrained answers; a version ignores the other version's names.
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
https://github.com/vllm-project/vllm/tree/main/vllm/entrypoints/openai
"""

from collections.abc import Mapping
from typing import ClassVar

from strowger_gateway.adapters.base import Range
from strowger_gateway.adapters.openai.repairs import server_repairs
from strowger_gateway.adapters.openai.vendor_profiles import VendorProfile
from strowger_gateway.adapters.openai_compatible.tokenizing_server import (
    TokenizingServerAdapter,
)
from strowger_gateway.adapters.repairs.private_fields import private_fields
from strowger_gateway.adapters.repairs.roles import ONE_SYSTEM
from strowger_gateway.adapters.tasks import classify, pool, rerank, score
from strowger_gateway.schemas.fields import Task

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

COUNTED = frozenset(
    {
        "add_generation_prompt",
        "add_special_tokens",
        "chat_template",
        "chat_template_kwargs",
        "continue_final_message",
        "messages",
        "model",
        "tools",
    }
)
"""Fields of `POST /tokenize`.
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#tokenizer-api"""


class VllmAdapter(TokenizingServerAdapter):
    name: ClassVar[str] = "vllm"
    profile: ClassVar[VendorProfile] = VendorProfile(
        name="vllm",
        marked=True,
        tasks=(rerank.VLLM, score.VLLM, classify.VLLM, pool.VLLM),
        repairs=server_repairs(
            private_fields(
                "https://docs.vllm.ai/en/latest/features/automatic_prefix_caching.html",
                "cache_salt",
            ),
            *ONE_SYSTEM,
        ),
    )
    sampling: ClassVar[frozenset[str]] = frozenset({"bad_words", "length_penalty"})
    """Without `beam_width`, which is `use_beam_search` and `n` here."""
    extra: ClassVar[Mapping[Task, frozenset[str]]] = {
        "chat": CHAT_EXTRA,
        "completion": COMPLETION_EXTRA,
        "embeddings": EMBEDDINGS_EXTRA,
    }
    ranges: ClassVar[Mapping[str, Range]] = {
        "seed": Range(minimum=-(2**63), maximum=2**63 - 1),
    }
    continuing: ClassVar[Mapping[str, bool]] = {
        "continue_final_message": True,
        "add_generation_prompt": False,
    }
    counted_fields: ClassVar[frozenset[str]] = COUNTED
