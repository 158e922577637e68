"""Tables of LiteLLM's provider prefixes and our adapters.

Facts: LiteLLM's list of providers (`LlmProviders`) and its documentation of each provider,
https://docs.litellm.ai/docs/providers.
"""

import re
from typing import Final, NamedTuple


class AdapterChoice(NamedTuple):
    """adapter: ours. key: environment variable that LiteLLM reads if `api_key` is unset.

    vertex: the address is made of a project and a place.
    """

    adapter: str
    key: str = ""
    vertex: bool = False


VENDORS = {
    "anthropic": AdapterChoice("anthropic", "ANTHROPIC_API_KEY"),
    "azure": AdapterChoice("azure", "AZURE_API_KEY"),
    "bedrock": AdapterChoice("bedrock"),
    "cerebras": AdapterChoice("cerebras", "CEREBRAS_API_KEY"),
    "cohere": AdapterChoice("cohere", "COHERE_API_KEY"),
    "cohere_chat": AdapterChoice("cohere", "COHERE_API_KEY"),
    "custom_openai": AdapterChoice("openai", "OPENAI_API_KEY"),
    "dashscope": AdapterChoice("dashscope", "DASHSCOPE_API_KEY"),
    "databricks": AdapterChoice("databricks", "DATABRICKS_API_KEY"),
    "deepinfra": AdapterChoice("deepinfra", "DEEPINFRA_API_KEY"),
    "deepseek": AdapterChoice("deepseek", "DEEPSEEK_API_KEY"),
    "fireworks_ai": AdapterChoice("fireworks", "FIREWORKS_API_KEY"),
    "gemini": AdapterChoice("gemini", "GEMINI_API_KEY"),
    "github": AdapterChoice("github-models", "GITHUB_API_KEY"),
    "groq": AdapterChoice("groq", "GROQ_API_KEY"),
    "hosted_vllm": AdapterChoice("vllm"),
    "jina_ai": AdapterChoice("jina", "JINA_AI_API_KEY"),
    "lm_studio": AdapterChoice("lm-studio"),
    "minimax": AdapterChoice("minimax", "MINIMAX_API_KEY"),
    "mistral": AdapterChoice("mistral", "MISTRAL_API_KEY"),
    "moonshot": AdapterChoice("moonshot", "MOONSHOT_API_KEY"),
    "nebius": AdapterChoice("nebius", "NEBIUS_API_KEY"),
    "novita": AdapterChoice("novita", "NOVITA_API_KEY"),
    "nvidia_nim": AdapterChoice("nvidia-nim", "NVIDIA_NIM_API_KEY"),
    "ollama": AdapterChoice("ollama"),
    "ollama_chat": AdapterChoice("ollama"),
    "openai": AdapterChoice("openai", "OPENAI_API_KEY"),
    "openrouter": AdapterChoice("openrouter", "OPENROUTER_API_KEY"),
    "perplexity": AdapterChoice("perplexity", "PERPLEXITYAI_API_KEY"),
    "sambanova": AdapterChoice("sambanova", "SAMBANOVA_API_KEY"),
    "text-completion-openai": AdapterChoice("openai", "OPENAI_API_KEY"),
    "together_ai": AdapterChoice("together", "TOGETHERAI_API_KEY"),
    "vertex_ai": AdapterChoice("gemini", vertex=True),
    "volcengine": AdapterChoice("volcengine", "VOLCENGINE_API_KEY"),
    "voyage": AdapterChoice("voyage", "VOYAGE_API_KEY"),
    "xai": AdapterChoice("xai", "XAI_API_KEY"),
    "zai": AdapterChoice("zai", "ZAI_API_KEY"),
}

ADDRESSES = {"ollama": "http://localhost:11434"}
"""Addresses that LiteLLM uses without `api_base` and that our adapter has no default for."""

AWS = {
    "aws_region_name": "region",
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "aws_profile_name": "profile",
    "aws_role_name": "role_arn",
    "aws_external_id": "external_id",
}

PRICES = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cached_input",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
    "output_cost_per_reasoning_token": "reasoning",
    "input_cost_per_audio_token": "audio_input",
    "output_cost_per_audio_token": "audio_output",
}
"""US dollars per token there, per million tokens here."""

FACTS = {
    "max_input_tokens": "context",
    "max_output_tokens": "max_output",
    "supports_function_calling": "tools",
    "supports_reasoning": "reasoning",
    "supports_response_schema": "structured_output",
}

OTHER_TASKS = ("embedding", "moderation", "rerank")
"""Values of `model_info.mode` of models that do not converse: no chat falls back to them."""

UNSERVED = {
    "audio_speech": "speech",
    "audio_transcription": "transcription",
    "image_edit": "image editing",
    "image_generation": "image generation",
    "ocr": "OCR",
    "realtime": "realtime sessions",
    "search": "searching",
    "video_generation": "video generation",
}
"""What the gateway does not serve, by `model_info.mode`."""
_UNSERVED_NAMES = {
    "dall-e": "image generation",
    "gpt-image": "image generation",
    "gpt-realtime": "realtime sessions",
    "tts-": "speech",
    "whisper": "transcription",
}
"""The same by the beginning of the vendor's name, for entries without a mode."""

_GOOGLE: Final = ("gemini", "text-embedding", "text-multilingual-embedding", "*")
"""Beginnings of the names of Google's models that the adapter serves."""

_REGION_OF_NAME: Final = re.compile(r"([a-z]{2,}(?:-[a-z]+)+-[0-9])/(.+)")
_REGION_OF_ARN: Final = re.compile(r"arn:aws[a-z-]*:bedrock:([a-z0-9-]+):")

NOT_SECRET = frozenset(
    {"anthropic-beta", "anthropic-version", "http-referer", "openai-organization", "x-title"}
)
"""Headers without credentials, in lower case."""

STRATEGIES = {
    "simple-shuffle": "weighted",
    "least-busy": "least_busy",
    "latency-based-routing": "lowest_latency",
    "cost-based-routing": "lowest_cost",
}

PERIODS = {
    **dict.fromkeys(("24h", "1d", "86400s"), "day"),
    **dict.fromkeys(("7d", "1w", "168h"), "week"),
    **dict.fromkeys(("30d", "1mo"), "month"),
}
"""`budget_duration`; its periods begin with the budget, ours with the calendar."""


def vendor_of(model: str, named: str = "") -> tuple[AdapterChoice, str] | None:
    """Return the vendor and its own name of the model, `None` if there is no adapter.

    named: `custom_llm_provider`. A name without prefix belongs to the vendor that publishes it.
    """
    prefix, slash, rest = model.partition("/")
    if named:
        rest = rest if slash and prefix == named else model
        prefix = named
    elif not slash:
        rest = model
        prefix = _publisher(model)
    vendor = VENDORS.get(prefix)
    if vendor is None or not rest:
        return None
    if prefix == "vertex_ai":
        return _of_vertex(vendor, rest)
    if prefix == "bedrock":
        rest = rest.removeprefix("converse/").removeprefix("invoke/")
    if prefix == "azure" and rest.startswith("responses/"):
        return AdapterChoice("azure-responses", vendor.key), rest.removeprefix("responses/")
    if prefix == "azure":
        rest = rest.removeprefix("o_series/").removeprefix("gpt5_series/")
    if prefix == "openai" and rest.startswith("responses/"):
        return AdapterChoice("openai-responses", vendor.key), rest.removeprefix("responses/")
    return vendor, rest


def _of_vertex(vendor: AdapterChoice, model: str) -> tuple[AdapterChoice, str] | None:
    """Return the adapter of a publisher on Vertex AI: Google and Anthropic have one."""
    if model.startswith("claude"):
        return AdapterChoice("vertex-anthropic", vertex=True), model
    return (vendor, model) if model.startswith(_GOOGLE) else None


def bedrock_region(model: str) -> tuple[str, str]:
    """Return the region in a model's name, "" for none, and the name without it."""
    arn = _REGION_OF_ARN.match(model)
    if arn is not None:
        return arn[1], model
    found = _REGION_OF_NAME.fullmatch(model)
    return ("", model) if found is None else (found[1], found[2])


def _publisher(model: str) -> str:
    if model.startswith(
        ("gpt-", "chatgpt-", "o1", "o3", "o4", "text-embedding-3", "text-embedding-ada")
    ):
        return "openai"
    return "anthropic" if model.startswith("claude-") else ""


def unserved(model: str, mode: object) -> str:
    """Return what the model is for if the gateway does not serve that, else ""."""
    if isinstance(mode, str) and mode:
        return UNSERVED.get(mode, "")
    own = model.rpartition("/")[2]
    return next((task for name, task in _UNSERVED_NAMES.items() if own.startswith(name)), "")
