"""Servers that tokenize what their chat template makes of a conversation: `POST /tokenize`.

https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#tokenizer-api
https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/entrypoints/openai/serving_tokenize.py
"""

from typing import ClassVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.adapters.json_objects import read_object
from strowger_gateway.adapters.openai.encode import encode_body
from strowger_gateway.adapters.openai_compatible.open_model_server import OpenModelServerAdapter
from strowger_gateway.adapters.token_count import check_texts, counted
from strowger_gateway.schemas.requests import ChatRequest


class TokenizingServerAdapter(OpenModelServerAdapter):
    """counted_fields: of a chat, those that `POST /tokenize` takes."""

    counted_fields: ClassVar[frozenset[str]]

    def encode_count(self, request: ChatRequest, model: str) -> Outbound:
        """See TokenCounter. Raises Uncountable for pictures, of which it counts the mark alone."""
        check_texts(request)
        sent = self.encode(request, model)
        fields = read_object(sent.body)
        body = {name: raw for name, raw in fields.items() if name in self.counted_fields}
        path = urlsplit(self.endpoint.base_url).path.rstrip("/").removesuffix("/v1")
        return replace(sent, target=f"{path}/tokenize", body=encode_body({**body}), stream=False)

    def counted(self, body: bytes) -> int:
        """See TokenCounter."""
        return counted(self.endpoint, body, "count")
