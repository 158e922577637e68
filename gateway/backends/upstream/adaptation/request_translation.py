"""Translate requests into a form that the backend accepts, with its tokenizer.

Every input becomes token ids first. A backend for tokens gets the ids; one for text gets a text
that its tokenizer reads as exactly these ids, or else the request is rejected.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

import msgspec
from msgspec import UNSET, Struct

from strowger_gateway.adapters.base import Supports
from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.gateway.backends.upstream.adaptation.answer_translation import (
    TextToTokens,
    TokensToText,
)
from strowger_gateway.gateway.backends.upstream.adaptation.capabilities import (
    INPUT_IDS,
    PROMPT_IDS,
    extend_capabilities,
    translation_paths,
)
from strowger_gateway.gateway.backends.upstream.adaptation.tokenizer import (
    TextTokenizer,
    aside,
    check_length,
    reading,
)
from strowger_gateway.gateway.backends.upstream.base import Call, Upstream
from strowger_gateway.gateway.backends.upstream.own_limits import own_wait
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.local_engine.child_process.text_encoder import Offload
from strowger_gateway.local_engine.requests.request_limits import length
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import InvalidRequest, Uncountable
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.messages import Message, TextPart, text_of
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Prompt,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling

COMPLETION_TOKENS = 16
"""The OpenAI dialect's default for completions, which the generating side applies."""

_NOTHING = Supports(completion=frozenset())


class _Read(Struct, frozen=True, kw_only=True):
    """A prompt as tokens. text: the original text, "" if it came as tokens."""

    ids: tuple[int, ...]
    text: str = ""


class RequestTranslation:
    """An upstream that also accepts what its tokenizer can translate. See Upstream."""

    def __init__(self, inner: Upstream, tokenizer: TextTokenizer) -> None:
        self.name = inner.name
        self._inner = inner
        self._tokenizer = tokenizer
        self._own = inner.supports
        template = tokenizer.chat is not None
        self.ways = translation_paths(self._own, template=template, faithful=tokenizer.faithful)
        self.supports = extend_capabilities(self._own, self.ways, template=template)
        self._takes_ids = PROMPT_IDS in (self._own.completion or ())

    def generate(self, request: GenerateRequest, call: Call) -> AsyncGenerator[list[Event], None]:
        """See Upstream.generate. Raises InvalidRequest if no translation is exact."""
        match request:
            case TokenRequest() if self.ways.tokens != "own":
                return self._tokens(request, call)
            case ChatRequest() if self.ways.chat != "own":
                return self._chat(request, call)
            case CompletionRequest() if self.ways.completion != "own":
                return self._completion(request, call)
            case CompletionRequest() if request.template or self._has_foreign_ids(request):
                return self._prompts(request, call)
            case _:
                return self._inner.generate(request, call)

    @property
    def wrapped(self) -> Upstream:
        """See Wrapping."""
        return self._inner

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        """See Upstream. Inputs of ids become text if the backend accepts only text."""
        if INPUT_IDS not in (self._own.embeddings or ()):
            inputs = [
                prompt
                if isinstance(prompt, str)
                else await self._written(prompt, f"input[{place}]")
                for place, prompt in enumerate(request.inputs)
            ]
            request = msgspec.structs.replace(request, inputs=tuple(inputs))
        return await self._inner.embed(request, call)

    async def count_tokens(self, request: ChatRequest, call: Call) -> int:
        """See Upstream. The template renders neither tools nor images, so it cannot count them."""
        if self._tokenizer.chat is None:
            return await self._inner.count_tokens(request, call)
        texts = all(
            isinstance(part, TextPart)
            for one in request.messages
            if isinstance(one.content, tuple)
            for part in one.content
        )
        if request.tools or not texts or any(one.tool_calls for one in request.messages):
            raise Uncountable(
                f"{self.name}: its tokenizer (providers[].tokenizer) counts text, but not tools, "
                "images and documents"
            )
        return len((await self._rendered(request.messages, call.tenant)).ids)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _tokens(self, request: TokenRequest, call: Call) -> AsyncGenerator[list[Event], None]:
        """Send a token request as a completion, and translate its answer to tokens."""
        started = now()
        if request.sampling.logprobs is True:
            await asyncio.to_thread(self._tokenizer.index)
        prompt = await self._sendable(_Read(ids=request.tokens), "tokens")
        sent = CompletionRequest(
            model=request.model,
            prompts=(prompt,),
            sampling=request.sampling,
            stream=request.stream,
            priority=request.priority,
            timeout_s=request.timeout_s,
            extra=request.extra,
        )
        answer = TextToTokens(
            self._tokenizer, request.tokens, self.name, started, whole=not request.stream
        )
        async with aclosing(self._inner.generate(sent, call)) as source:
            async for batch in source:
                work = partial(answer.turn, batch, now())
                if events := await aside(_characters(batch), work):
                    yield events
        if counted := answer.close():
            yield counted

    async def _chat(self, request: ChatRequest, call: Call) -> AsyncGenerator[list[Event], None]:
        """Send a conversation as the prompt that the model's template renders."""
        messages, begun = request.messages, ""
        if request.begun:
            messages, begun = messages[:-1], text_of(messages[-1])
        with own_wait(call.sending):
            read = await self._rendered(messages, call.tenant, begun)
        check_length(len(read.ids), call.longest_prompt)
        if self.ways.chat == "tokens":
            source = self._continued(
                self._as_tokens(request, read.ids), call, TokensToText(read.ids)
            )
        else:
            sent = CompletionRequest(
                model=request.model,
                prompts=(await self._sendable(read, "messages"),),
                sampling=request.sampling,
                stream=request.stream,
                include_usage=request.include_usage,
                user=request.user,
                priority=request.priority,
                timeout_s=request.timeout_s,
                extra=request.extra,
            )
            source = self._inner.generate(sent, call)
        async with aclosing(source):
            async for batch in source:
                yield batch

    async def _completion(
        self, request: CompletionRequest, call: Call
    ) -> AsyncGenerator[list[Event], None]:
        """Send one prompt as a token request; several come one by one (see fan_out)."""
        with own_wait(call.sending):
            read = await self._prompt(
                request.prompts[0], "prompt", template=request.template, tenant=call.tenant
            )
        self._check_prompt(read, request, call)
        if request.sampling.max_tokens is UNSET:
            sampling = msgspec.structs.replace(request.sampling, max_tokens=COMPLETION_TOKENS)
            request = msgspec.structs.replace(request, sampling=sampling)
        sent = self._as_tokens(request, read.ids)
        source = self._continued(sent, call, TokensToText(read.ids))
        async with aclosing(source):
            async for batch in source:
                yield batch

    async def _prompts(
        self, request: CompletionRequest, call: Call
    ) -> AsyncGenerator[list[Event], None]:
        """Send a completion to a completion backend without templates or token prompts."""
        prompts: list[Prompt] = []
        for place, prompt in enumerate(request.prompts):
            field = f"prompt[{place}]" if request.batch else "prompt"
            if isinstance(prompt, str) and not request.template:
                prompts.append(prompt)
                continue
            with own_wait(call.sending):
                read = await self._prompt(
                    prompt, field, template=request.template, tenant=call.tenant
                )
            self._check_prompt(read, request, call)
            if len(request.prompts) == 1 and not self._takes_ids:
                sent = self._as_tokens(request, read.ids)
                if self._fits(request, sent):
                    source = self._continued(sent, call, TokensToText(read.ids))
                    break
            prompts.append(await self._sendable(read, field))
        else:
            sent = msgspec.structs.replace(request, prompts=tuple(prompts), template=False)
            source = self._inner.generate(sent, call)
        async with aclosing(source):
            async for batch in source:
                yield batch

    async def _continued(
        self, request: TokenRequest, call: Call, answer: TokensToText
    ) -> AsyncGenerator[list[Event], None]:
        async with aclosing(self._inner.generate(request, call)) as source:
            async for batch in source:
                if events := answer.turn(batch):
                    yield events

    @staticmethod
    def _check_prompt(read: _Read, request: CompletionRequest, call: Call) -> None:
        """Raise InvalidRequest if the prompt exceeds the model and the vendor may not cut it."""
        if request.error_behavior != "truncate":
            check_length(len(read.ids), call.longest_prompt)

    def _has_foreign_ids(self, request: CompletionRequest) -> bool:
        """Return whether prompts are ids and the backend accepts only text."""
        return not self._takes_ids and any(not isinstance(one, str) for one in request.prompts)

    def _fits(self, request: CompletionRequest, sent: TokenRequest) -> bool:
        """Return whether the backend's own token interface supports all the completion's fields."""
        if self._own.tokens is None:
            return False
        rest = msgspec.structs.replace(
            request, prompts=("",), template=False, priority=UNSET, sampling=Sampling()
        )
        return not unsupported(rest, _NOTHING) and not unsupported(sent, self._own)

    def _as_tokens(
        self, request: ChatRequest | CompletionRequest, ids: tuple[int, ...]
    ) -> TokenRequest:
        """Build a token request; it ends at the model's end token, if the backend needs it set."""
        sampling = request.sampling
        end = self._tokenizer.end
        decided = sampling.end_id is not UNSET or sampling.ignore_eos is True
        if end is not None and not decided and "end_id" in (self._own.tokens or ()):
            sampling = msgspec.structs.replace(sampling, end_id=end)
        return TokenRequest(
            model=request.model,
            tokens=ids,
            sampling=sampling,
            stream=request.stream,
            details=True,
            priority=request.priority,
            timeout_s=request.timeout_s,
            extra=request.extra,
        )

    async def _prompt(self, prompt: Prompt, field: str, *, template: bool, tenant: str) -> _Read:
        if template:
            if not isinstance(prompt, str):
                raise InvalidRequest(
                    f"{field}: tokens cannot be put into a chat template; send text, or set "
                    "use_raw_prompt",
                    param=field,
                )
            return await self._rendered((Message(role="user", content=prompt),), tenant)
        if not isinstance(prompt, str):
            return _Read(ids=prompt)
        ids = await reading(
            len(prompt), lambda offload: self._tokenizer.read(prompt, offload=offload), tenant
        )
        if not ids:
            raise InvalidRequest(f"{field} must not be empty", param=field)
        return _Read(ids=ids, text=prompt)

    async def _rendered(self, messages: tuple[Message, ...], tenant: str, begun: str = "") -> _Read:
        """begun: the beginning of the answer, behind the rendered conversation."""
        chat = self._tokenizer.chat
        if chat is None:
            raise InvalidRequest(f"messages: {self.name} has no chat template", param="messages")

        def read(offload: Offload | None) -> _Read:
            rendered = chat.rendered(messages, self._tokenizer.controls, begun)
            ids = self._tokenizer.read(rendered, special=False, offload=offload)
            return _Read(ids=ids, text=rendered.text)

        return await reading(sum(map(length, messages)) + len(begun), read, tenant)

    async def _sendable(self, read: _Read, field: str) -> Prompt:
        """Return the prompt in the form that a completion backend accepts."""
        if self._takes_ids:
            return read.ids
        return await self._written(read.ids, field, known=read.text)

    async def _written(self, ids: tuple[int, ...], field: str, *, known: str = "") -> str:
        """Raise InvalidRequest that names the field."""
        try:
            return await aside(len(ids), lambda: self._tokenizer.written_as(ids, known=known))
        except InvalidRequest as exc:
            raise InvalidRequest(f"{field}: {exc.message}", param=field, code=exc.code) from exc


def _characters(batch: list[Event]) -> int:
    return sum(len(getattr(event, "text", "")) for event in batch)
