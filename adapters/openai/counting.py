"""Servers of the dialect that count the tokens of a chat on a route of their own."""

from msgspec.structs import replace

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.adapters.openai.adapter import OpenAIAdapter
from strowger_gateway.adapters.token_count import counted
from strowger_gateway.schemas.requests import ChatRequest


class CountingOpenAIAdapter(OpenAIAdapter):
    """Of a row with `count_path`, which takes what the route for chats takes."""

    def encode_count(self, request: ChatRequest, model: str) -> Outbound:
        """See TokenCounter."""
        sent = self.encode(replace(request, stream=False), model)
        before = sent.target.removesuffix("/chat/completions")
        return replace(sent, target=f"{before}{self.vendor.count_path}")

    def counted(self, body: bytes) -> int:
        """See TokenCounter."""
        return counted(self.endpoint, body, "input_tokens")
