"""Fields that clients may not send to servers of open models: those run in the operator's network,
close to systems that outsiders must not reach, and one process serves all clients."""

from collections.abc import Mapping

from strowger_gateway.adapters.client_fields.patterns import Withheld
from strowger_gateway.adapters.client_fields.reasons import CACHE, CODE, HOST, MODEL, STORED, rows

VLLM = "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html"
VLLM_TEMPLATE = "https://nvd.nist.gov/vuln/detail/CVE-2025-62426"
VLLM_PATTERN = "https://nvd.nist.gov/vuln/detail/CVE-2025-48943"
VLLM_EMBEDS = "https://nvd.nist.gov/vuln/detail/CVE-2025-62164"
VLLM_SALT = "https://docs.vllm.ai/en/latest/design/prefix_caching.html"
SGLANG = "https://docs.sglang.ai/basic_usage/sampling_params.html"
TGI = "https://huggingface.co/docs/text-generation-inference/conceptual/lora"
LLAMA_CPP = "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md"
LMDEPLOY = "https://github.com/InternLM/lmdeploy/blob/main/lmdeploy/serve/openai/protocol.py"
MINDIE = "https://www.hiascend.com/document/detail/zh/mindie/20RC2/mindieservice/servicedev/mindie_service0078.html"

TEMPLATE = "it is a template that the server executes to build prompts; see the advisory"
PATTERN = "some versions of the server crash on a pattern that does not compile"
OVERTAKES = "it lets one client overtake all others"

MEDIA = rows(
    HOST,
    VLLM,
    "messages[].content[].video_url",
    "messages[].content[].audio_url",
    "messages[].content[].file_url",
    address=True,
)
"""Images are controlled by `messages.remote_image`, which an adapter supports or not."""

FILES = rows(
    "this server stores no files that an id could open",
    VLLM,
    "messages[].content[].file.file_id",
    "messages[].content[].file_id",
)

_TEMPLATE_KWARGS = rows(
    TEMPLATE,
    VLLM_TEMPLATE,
    "chat_template",
    "chat_template_kwargs.chat_template",
    "chat_template_kwargs.tokenize",
    "chat_template_kwargs.tokenizer*",
    "chat_template_kwargs.padding",
    "chat_template_kwargs.max_length",
    "chat_template_kwargs.return_*",
)

ENGINES: Mapping[str, tuple[Withheld, ...]] = {
    "vllm": (
        *_TEMPLATE_KWARGS,
        *rows(HOST, VLLM, "kv_transfer_params", "ec_transfer_params"),
        *rows(
            CODE,
            VLLM,
            "logits_processors",
            "vllm_xargs",
            "mm_processor_kwargs",
            "media_io_kwargs",
            "guided_decoding_backend",
            "guided_whitespace_pattern",
        ),
        *rows(
            PATTERN,
            VLLM_PATTERN,
            "guided_regex",
            "guided_grammar",
            "structured_outputs.regex",
            "structured_outputs.grammar",
        ),
        *rows(CODE, VLLM_EMBEDS, "prompt_embeds"),
        *rows(CACHE, VLLM_SALT, "cache_salt"),
        *rows(CACHE, VLLM, "request_id", "session_id", optional=True),
        *rows(OVERTAKES, VLLM, "priority"),
        *FILES,
        *MEDIA,
    ),
    "sglang": (
        *_TEMPLATE_KWARGS,
        *rows(MODEL, SGLANG, "lora_path"),
        *rows(CODE, SGLANG, "custom_logit_processor", "custom_params", "return_hidden_states"),
        *rows(HOST, SGLANG, "bootstrap_*"),
        *rows(STORED, SGLANG, "session_params"),
        *rows(CACHE, SGLANG, "cache_salt", "extra_key"),
        *rows(CACHE, SGLANG, "rid", optional=True),
        *rows(OVERTAKES, SGLANG, "priority"),
        *FILES,
        *MEDIA,
    ),
    "tgi": rows(MODEL, TGI, "adapter_id"),
    "mindie": rows(TEMPLATE, MINDIE, "chat_template"),
    "llama-cpp": (
        *rows(CACHE, LLAMA_CPP, "id_slot"),
        *rows(MODEL, LLAMA_CPP, "lora"),
        *rows(CODE, LLAMA_CPP, "speculative*", "chat_template"),
        *MEDIA,
    ),
    "lmdeploy": (
        *rows(STORED, LMDEPLOY, "session_id"),
        *rows(HOST, LMDEPLOY, "migration_request"),
        *rows(CODE, LMDEPLOY, "mm_processor_kwargs", "media_io_kwargs", "preserve_cache"),
        *MEDIA,
    ),
    "triton-openai": rows(
        CODE,
        "https://github.com/triton-inference-server/server/tree/main/python/openai",
        "logits_processors",
        "chat_template",
    ),
}
