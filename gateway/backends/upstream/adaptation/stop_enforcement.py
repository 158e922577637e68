"""Enforce stops that a backend does not support on its output.

The backend always streams, whatever the client asked for, and its connection is closed at the
match, so that it generates at most a few extra tokens.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from strowger_gateway.adapters.base import Range, Supports
from strowger_gateway.adapters.capabilities import offered
from strowger_gateway.gateway.backends.upstream.adaptation.stop_detection import (
    StopDetector,
    StopRules,
)
from strowger_gateway.gateway.backends.upstream.base import Call, ChatPath, Upstream
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.events import Event, Finished, TextDelta, Tokens, Usage
from strowger_gateway.schemas.fields import Task, task_of
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling

TEXT_STOPS = frozenset({"stop"})
TOKEN_STOPS = frozenset({"stop", "stop_token_ids", "stop_words", "end_id", "pad_id"})
"""pad_id is supported because answers are ragged: none of them is padded."""

ENFORCED: dict[Task, frozenset[str]] = {
    "chat": TEXT_STOPS,
    "completion": TEXT_STOPS,
    "tokens": TOKEN_STOPS,
}


class TokenLookup(Protocol):
    """The tokenizer's part: which id ends an answer, and which ids have no text."""

    end: int | None
    specials: frozenset[int]

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str: ...


class StopEnforcement:
    """An upstream that supports every stop. See Upstream."""

    def __init__(
        self, inner: Upstream, tokenizer: TokenLookup | None = None, *, spelt: bool = False
    ) -> None:
        """spelt: its answers' tokens are made from text, so none of them is special."""
        self.name = inner.name
        self._inner = inner
        self._tokenizer = tokenizer
        self._spelt = spelt
        self._lacking = unsupported_stops(inner.supports, filled=tokenizer is not None)
        self.supports = _widened(inner.supports, self._lacking)

    def generate(self, request: GenerateRequest, call: Call) -> AsyncGenerator[list[Event], None]:
        """See Upstream.generate. Raises InvalidRequest for stops that cannot be combined."""
        missing = self._lacking.get(task_of(request), frozenset())
        sampling = request.sampling
        requested = [name for name in missing if getattr(sampling, name) is not UNSET]
        if not requested:
            return self._inner.generate(request, call)
        rules, left = self._split(request, frozenset(requested))
        request = msgspec.structs.replace(request, sampling=left)
        if not (rules.strings or rules.tokens or rules.words or rules.ends):
            return self._inner.generate(request, call)
        self._check(request, rules)
        return self._enforced(request, call, rules)

    @property
    def chats(self) -> ChatPath:
        """See Adapting."""
        return ChatPath(self._inner, tuple(sorted(self._lacking.get("chat", ()))))

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        return await self._inner.embed(request, call)

    async def count_tokens(self, request: ChatRequest, call: Call) -> int:
        return await self._inner.count_tokens(request, call)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _enforced(
        self, request: GenerateRequest, call: Call, rules: StopRules
    ) -> AsyncGenerator[list[Event], None]:
        decode = self._tokenizer.decode if self._tokenizer else None
        source = self._inner.generate(streamed(request), call)
        async with aclosing(ended_at(source, request, rules, self.name, decode)) as batches:
            async for batch in batches:
                yield batch

    def _split(
        self, request: GenerateRequest, requested: frozenset[str]
    ) -> tuple[StopRules, Sampling]:
        """Return the rules to enforce here, and the sampling for the backend."""
        sampling = request.sampling
        fields = offered(self._inner.supports, task_of(request)) or frozenset()
        left = msgspec.structs.replace(sampling, **dict.fromkeys(requested, UNSET))
        tokens = frozenset(_given(sampling.stop_token_ids, "stop_token_ids" in requested))
        ends: frozenset[int] = frozenset()
        end = sampling.end_id
        own = self._tokenizer.end if self._tokenizer else None
        if "end_id" in requested and end is not UNSET and end != own:
            if "ignore_eos" in fields:
                left = msgspec.structs.replace(left, ignore_eos=True)
            if end >= 0 and "stop_token_ids" in fields:
                more = (*_given(left.stop_token_ids, True), end)
                left = msgspec.structs.replace(left, stop_token_ids=more)
            elif end >= 0:
                ends = frozenset({end})
        rules = StopRules(
            strings=tuple(one for one in _given(sampling.stop, "stop" in requested) if one),
            tokens=tokens,
            words=tuple(
                one for one in _given(sampling.stop_words, "stop_words" in requested) if one
            ),
            ends=ends,
            min_tokens=sampling.min_tokens or 0,
            seed=sampling.seed or None,
        )
        return rules, left

    def _check(self, request: GenerateRequest, rules: StopRules) -> None:
        backend = self.name
        if not isinstance(request, TokenRequest) and rules.min_tokens:
            raise InvalidRequest(
                f"stop: {backend} returns no tokens, so stop strings cannot respect min_tokens; "
                "omit one of the two",
                param="stop",
            )
        if isinstance(request, CompletionRequest):
            for field in ("echo", "append_suffix"):
                if getattr(request, field) not in (UNSET, False, ""):
                    raise InvalidRequest(
                        f"{field}: {backend} puts it into the text that the gateway searches for "
                        "stop strings; omit one of the two",
                        param=field,
                    )
        specials = self._tokenizer.specials if self._spelt and self._tokenizer else frozenset[int]()
        named = {
            "end_id": rules.ends,
            "stop_token_ids": rules.tokens,
            "stop_words": frozenset(id for word in rules.words for id in word),
        }
        for field, ids in named.items():
            for id in ids & specials:
                raise InvalidRequest(
                    f"{field}: {backend} answers with text, in which token {id} never appears",
                    param=field,
                )


def streamed(request: GenerateRequest) -> GenerateRequest:
    """Return the request as a stream, which can be closed when the answer has ended."""
    return msgspec.structs.replace(request, stream=True)


async def ended_at(
    source: AsyncGenerator[list[Event], None],
    request: GenerateRequest,
    rules: StopRules,
    upstream: str,
    decode: Callable[[Sequence[int]], str] | None = None,
) -> AsyncGenerator[list[Event], None]:
    """Yield the answer to the request up to where the rules end it, then close the source.

    upstream: its name, for errors. decode: ids to text, to name a sequence that matched.
    """
    prompts = len(request.prompts) if isinstance(request, CompletionRequest) else 1
    choices = prompts * (request.sampling.n or 1)
    stoppers = [StopDetector(rules, index, upstream, decode) for index in range(choices)]
    async with aclosing(source) as batches:
        async for batch in batches:
            events = [one for event in batch for one in _through(event, stoppers)]
            if all(one.ended for one in stoppers) and any(one.cut for one in stoppers):
                if not any(isinstance(event, Usage) for event in batch):
                    events += _usage(request, stoppers)
                yield events
                return
            if events:
                yield events


def unsupported_stops(supports: Supports, *, filled: bool) -> dict[Task, frozenset[str]]:
    """Return the stops that the backend does not support, for each available task.

    filled: a tokenizer adds text to tokens. Without text, no stop string can match.
    """
    found: dict[Task, frozenset[str]] = {}
    for task, stops in ENFORCED.items():
        fields = offered(supports, task)
        if fields is not None:
            found[task] = stops - fields
    if "tokens" in found and not (filled or supports.text_of_tokens):
        found["tokens"] -= TEXT_STOPS
    return found


def with_stop_enforcement(
    inner: Upstream, tokenizer: TokenLookup | None = None, *, spelt: bool = False
) -> Upstream:
    """Wrap `inner`, or return it unchanged if it lacks nothing."""
    if not any(unsupported_stops(inner.supports, filled=tokenizer is not None).values()):
        return inner
    return StopEnforcement(inner, tokenizer, spelt=spelt)


def _widened(supports: Supports, missing: dict[Task, frozenset[str]]) -> Supports:
    wide = {
        task: (offered(supports, task) or frozenset()) | fields for task, fields in missing.items()
    }
    ranges = dict(supports.ranges)
    tokens = supports.tokens or frozenset()
    if "end_id" in missing.get("tokens", frozenset()) and "ignore_eos" not in tokens:
        ranges["end_id"] = Range(minimum=0)
    return msgspec.structs.replace(supports, **wide, ranges=ranges)


def _through(event: Event, stoppers: list[StopDetector]) -> list[Event]:
    index: int | None = getattr(event, "index", None)
    if index is None or not 0 <= index < len(stoppers):
        return [event]
    stopper = stoppers[index]
    if stopper.ended:
        return []
    if isinstance(event, TextDelta | Tokens):
        return stopper.feed(event)
    return stopper.finish(event) if isinstance(event, Finished) else [event]


def _usage(request: GenerateRequest, stoppers: list[StopDetector]) -> list[Event]:
    """Return the usage that the backend would have reported; only ids can be counted."""
    if not isinstance(request, TokenRequest):
        return []
    prompt, generated = len(request.tokens), sum(stopper.count for stopper in stoppers)
    return [
        Usage(
            prompt_tokens=prompt,
            completion_tokens=generated,
            total_tokens=prompt + generated,
        )
    ]


_Values = TypeVar("_Values", bound=tuple[object, ...])


def _given(values: _Values | UnsetType, requested: bool) -> _Values | tuple[()]:
    return () if values is UNSET or not requested else values
