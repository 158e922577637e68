"""Add the text to token answers of backends that send only ids, one event per token."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from strowger_gateway.gateway.backends.upstream.adaptation.tokenizer import TextTokenizer
from strowger_gateway.gateway.backends.upstream.base import Call, Upstream
from strowger_gateway.local_engine.text.detokenizer import Detokenizer
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.events import Event, Finished, TokenLogprob, Tokens
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
    TokenRequest,
)


class Detokenizing:
    """An upstream whose token answers have text and, as far as certain, one event per token.

    Text that a backend sends itself (`supports.text_of_tokens`) stays as it is. See Upstream.
    """

    def __init__(self, inner: Upstream, tokenizer: TextTokenizer) -> None:
        self.name = inner.name
        self._inner = inner
        self._tokenizer = tokenizer
        self._silent = not inner.supports.text_of_tokens
        self.supports = msgspec.structs.replace(inner.supports, text_of_tokens=True)

    def generate(self, request: GenerateRequest, call: Call) -> AsyncGenerator[list[Event], None]:
        """See Upstream.generate."""
        if not isinstance(request, TokenRequest):
            return self._inner.generate(request, call)
        return self._filled(request, call)

    @property
    def wrapped(self) -> Upstream:
        """See Wrapping."""
        return self._inner

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        return await self._inner.embed(request, call)

    async def count_tokens(self, request: ChatRequest, call: Call) -> int:
        return await self._inner.count_tokens(request, call)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _filled(self, request: TokenRequest, call: Call) -> AsyncGenerator[list[Event], None]:
        choices: dict[int, ChoiceDetokenizer] = {}
        async with aclosing(self._inner.generate(request, call)) as source:
            async for batch in source:
                events: list[Event] = []
                for event in batch:
                    if not isinstance(event, Tokens | Finished):
                        events.append(event)
                        continue
                    if event.index not in choices:
                        choices[event.index] = ChoiceDetokenizer(
                            self._tokenizer, request.tokens, silent=self._silent
                        )
                    events += choices[event.index].feed(event)
                yield events


class ChoiceDetokenizer:
    """Detokenize one choice of an answer."""

    def __init__(self, tokenizer: TextTokenizer, prompt: Sequence[int], *, silent: bool) -> None:
        """silent: the backend sends no text."""
        self._tokenizer = tokenizer
        self._text = Detokenizer(tokenizer, prompt)
        self._silent = silent

    def feed(self, event: Tokens | Finished) -> list[Event]:
        if isinstance(event, Finished):
            rest = self._text.close() if self._silent else ""
            return [Tokens(ids=(), text=rest, index=event.index), event] if rest else [event]
        pieces = [self._text.feed(id) for id in event.ids]
        text = "".join(pieces)
        logprobs = self._named(event)
        if self._silent or text == event.text:
            return self._one_by_one(event, pieces, logprobs)
        return [msgspec.structs.replace(event, logprobs=logprobs)]

    def _one_by_one(
        self, event: Tokens, pieces: list[str], logprobs: tuple[TokenLogprob, ...]
    ) -> list[Event]:
        if len(event.ids) <= 1 or len(logprobs) not in (0, len(event.ids)):
            return [msgspec.structs.replace(event, text="".join(pieces), logprobs=logprobs)]
        return [
            Tokens(
                ids=(id,),
                text=pieces[place],
                index=event.index,
                logprobs=logprobs[place : place + 1],
                elapsed_ms=0.0 if place else event.elapsed_ms,
            )
            for place, id in enumerate(event.ids)
        ]

    def _named(self, event: Tokens) -> tuple[TokenLogprob, ...]:
        """Return log probabilities with the token texts that the backend omitted."""
        if len(event.logprobs) != len(event.ids):
            return event.logprobs
        return tuple(
            self._name(one if one.id >= 0 else msgspec.structs.replace(one, id=id))
            for one, id in zip(event.logprobs, event.ids, strict=True)
        )

    def _name(self, one: TokenLogprob) -> TokenLogprob:
        if not one.token and one.id >= 0:
            text, raw = self._tokenizer.name(one.id)
            one = msgspec.structs.replace(one, token=text, bytes=raw)
        if one.top:
            one = msgspec.structs.replace(one, top=tuple(self._name(other) for other in one.top))
        return one
