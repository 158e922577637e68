"""SGLang's OpenAI server: the dialect, and all further parameters that its runtime reads.

`response_format`, `regex` or `ebnf` request constrained answers. Audio is sent as `audio_url`,
because only servers of August 2026 and later read OpenAI's `input_audio`.
https://docs.sglang.io/basic_usage/openai_api_completions.html
https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/entrypoints/openai/protocol.py
https://github.com/sgl-project/sglang/pull/33606
"""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.adapters.base import Outbound, Range
from strowger_gateway.adapters.json_objects import read_object
from strowger_gateway.adapters.openai.encode import Body, encode_body, message, part
from strowger_gateway.adapters.openai.repairs import server_repairs
from strowger_gateway.adapters.openai.vendor_profiles import VendorProfile
from strowger_gateway.adapters.openai_compatible.tokenizing_server import (
    TokenizingServerAdapter,
)
from strowger_gateway.adapters.repairs.private_fields import private_fields
from strowger_gateway.adapters.repairs.roles import ONE_SYSTEM
from strowger_gateway.adapters.tasks import rerank
from strowger_gateway.adapters.tasks.score import score_by
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.messages import AudioPart, Message, Part
from strowger_gateway.schemas.requests import ChatRequest, Request

EXTRA = frozenset(
    {
        "cache_salt",
        "custom_logit_processor",
        "custom_params",
        "ebnf",
        "extra_key",
        "lora_path",
        "no_stop_trim",
        "regex",
        "return_cached_tokens_details",
        "return_hidden_states",
        "rid",
        "session_params",
        "skip_special_tokens",
        "stop_regex",
        "stream_options",
    }
)
CHAT_EXTRA = EXTRA | {
    "chat_template_kwargs",
    "continue_final_message",
    "reasoning",
    "return_meta_info",
    "return_prompt_token_ids",
    "return_token_ids",
    "separate_reasoning",
    "stream_reasoning",
}
COMPLETION_EXTRA = EXTRA | {"json_schema", "response_format", "return_token_ids"}
EMBEDDINGS_EXTRA = frozenset({"lora_path", "priority", "rid"})


COUNTED = frozenset(
    {
        "chat_template_kwargs",
        "continue_final_message",
        "messages",
        "model",
        "reasoning_effort",
        "tools",
    }
)
"""Fields of `POST /tokenize`, in servers that know conversations there."""


class SglangAdapter(TokenizingServerAdapter):
    """Higher priorities go first, the server's default."""

    name: ClassVar[str] = "sglang"
    profile: ClassVar[VendorProfile] = VendorProfile(
        name="sglang",
        tasks=(rerank.SGLANG, score_by(rerank.SGLANG)),
        marked=True,
        repairs=server_repairs(
            private_fields(
                "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/entrypoints/openai/protocol.py",
                "cache_salt",
                "extra_key",
            ),
            *ONE_SYSTEM,
        ),
    )
    counted_fields: ClassVar[frozenset[str]] = COUNTED
    cannot_count: ClassVar[frozenset[int]] = frozenset({400, 422})
    """Of earlier servers, which tokenize a text."""

    higher_first: ClassVar[bool] = True
    extra: ClassVar[Mapping[Task, frozenset[str]]] = {
        "chat": CHAT_EXTRA,
        "completion": COMPLETION_EXTRA,
        "embeddings": EMBEDDINGS_EXTRA,
    }
    ranges: ClassVar[Mapping[str, Range]] = {
        "max_tokens": Range(minimum=1),
        "repetition_penalty": Range(above=0, maximum=2),
    }
    translated: ClassVar[Mapping[str, str]] = {"messages.audio": "messages[].content[].audio_url"}

    def encode(self, request: Request, model: str) -> Outbound:
        if isinstance(request, ChatRequest):
            request = replace(request, messages=tuple(_with_audio(one) for one in request.messages))
        return super().encode(request, model)


def _with_audio(one: Message) -> Message:
    """Return the message with its audio where the server reads it."""
    if not isinstance(one.content, tuple):
        return one
    if not any(isinstance(piece, AudioPart) for piece in one.content):
        return one
    fields: Body = {**read_object(one.raw)} if isinstance(one.raw, Raw) else message(one)
    content = [_piece(piece) for piece in one.content]
    return replace(one, raw=Raw(encode_body({**fields, "content": content})))


def _piece(piece: Part) -> Raw | Body:
    if not isinstance(piece, AudioPart):
        return part(piece)
    kind = "mpeg" if piece.format == "mp3" else piece.format
    url: Body = {"url": f"data:audio/{kind};base64,{piece.data}"}
    return {"type": "audio_url", "audio_url": url}
