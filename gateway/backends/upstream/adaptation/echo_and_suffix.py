"""Add the text around a completion: its prompt before it, and a suffix after it.

https://platform.openai.com/docs/api-reference/completions (`echo`), and `suffix` with Databricks'
meaning: text appended to each answer, which the model never sees.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Protocol

import msgspec
from msgspec import UNSET

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.upstream.base import (
    Call,
    ChatPath,
    Upstream,
    WholeChat,
    whole_chat_of,
)
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.events import Event, Finished, TextDelta
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Prompt,
)

AROUND = frozenset({"echo", "append_suffix"})


class TokenDecoder(Protocol):
    def decode(self, ids: Sequence[int], *, special: bool = False) -> str: ...


class EchoAndSuffix:
    """An upstream that supports echo and suffix in completions. See Upstream."""

    def __init__(self, inner: Upstream, tokenizer: TokenDecoder | None = None) -> None:
        """tokenizer: decodes prompts of tokens; without one they cannot be echoed."""
        self.name = inner.name
        self._inner = inner
        self._tokenizer = tokenizer
        own = inner.supports.completion or frozenset()
        self._echoes = "echo" in own
        self._adds = "append_suffix" in own
        self.supports = extend_capabilities(inner.supports)

    def generate(self, request: GenerateRequest, call: Call) -> AsyncGenerator[list[Event], None]:
        """See Upstream.generate. Raises InvalidRequest for an echo that is not possible."""
        if not isinstance(request, CompletionRequest) or (
            request.echo is UNSET and request.append_suffix is UNSET
        ):
            return self._inner.generate(request, call)
        echo = request.echo is True and not self._echoes
        suffix = "" if self._adds else request.append_suffix or ""
        sent = msgspec.structs.replace(
            request,
            echo=request.echo if self._echoes else UNSET,
            append_suffix=request.append_suffix if self._adds else UNSET,
        )
        if not (echo or suffix):
            return self._inner.generate(sent, call)
        before = [self._written(prompt) if echo else "" for prompt in request.prompts]
        if echo and request.sampling.logprobs is True:
            raise InvalidRequest(
                f"echo: {self.name} returns no log probabilities of a prompt; omit echo or "
                "logprobs",
                param="echo",
            )
        return self._surrounded(sent, call, before, suffix)

    @property
    def whole_chat(self) -> WholeChat | None:
        """See PlainChats: chats pass unchanged."""
        return whole_chat_of(self._inner)

    @property
    def chats(self) -> ChatPath:
        """See Adapting."""
        return ChatPath(self._inner)

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        return await self._inner.embed(request, call)

    async def count_tokens(self, request: ChatRequest, call: Call) -> int:
        return await self._inner.count_tokens(request, call)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _surrounded(
        self, request: CompletionRequest, call: Call, before: list[str], suffix: str
    ) -> AsyncGenerator[list[Event], None]:
        each = request.sampling.n or 1
        begun: set[int] = set()

        def start(index: int) -> list[Event]:
            if index in begun:
                return []
            begun.add(index)
            text = before[min(index // each, len(before) - 1)]
            return [TextDelta(text=text, index=index)] if text else []

        async with aclosing(self._inner.generate(request, call)) as source:
            async for batch in source:
                events: list[Event] = []
                for event in batch:
                    if isinstance(event, TextDelta | Finished):
                        events += start(event.index)
                    if isinstance(event, Finished) and suffix:
                        events.append(TextDelta(text=suffix, index=event.index))
                    events.append(event)
                yield events

    def _written(self, prompt: Prompt) -> str:
        if isinstance(prompt, str):
            return prompt
        if self._tokenizer is None:
            raise InvalidRequest(
                f"echo: {self.name} cannot echo prompts of tokens; send text, or ask the operator "
                "to configure the provider's tokenizer",
                param="echo",
            )
        return self._tokenizer.decode(prompt)


def extend_capabilities(supports: Supports) -> Supports:
    """Return `supports` with echo and suffix for completions."""
    if supports.completion is None:
        return supports
    return msgspec.structs.replace(supports, completion=supports.completion | AROUND)


def with_echo_and_suffix(inner: Upstream, tokenizer: TokenDecoder | None = None) -> Upstream:
    """Wrap `inner`, or return it unchanged if it lacks nothing."""
    if extend_capabilities(inner.supports) == inner.supports:
        return inner
    return EchoAndSuffix(inner, tokenizer)
