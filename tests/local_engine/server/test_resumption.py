"""An answer that breaks off anywhere is resumed with the tokens that would have followed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
import pytest
from msgspec import Raw, Struct

from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.events import Event, Started, Usage
from strowger_gateway.schemas.messages import FunctionTool, Message, ResponseFormat, ToolChoice
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    GenerateRequest,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.services import MODEL, chat, completion, config, serving

pytestmark = pytest.mark.anyio

SEEDED = Sampling(temperature=1.2, top_p=0.95, seed=5, max_tokens=24, ignore_eos=True)
TOOL = FunctionTool(
    name="weather",
    parameters=Raw(
        b'{"type":"object","properties":{"city":{"type":"string","maxLength":9},'
        b'"days":{"type":"integer"}},"required":["city","days"]}'
    ),
)
SCHEMA = ResponseFormat(
    type="json_schema",
    name="x",
    schema=Raw(
        b'{"type":"object","properties":{"name":{"type":"string","maxLength":12}},'
        b'"required":["name"],"additionalProperties":false}'
    ),
)


def changed(request: ChatRequest, **changes: object) -> ChatRequest:
    return msgspec.structs.replace(request, **changes)


def sampled(**changes: object) -> Sampling:
    return msgspec.structs.replace(SEEDED, **changes)


REQUESTS: dict[str, tuple[str, GenerateRequest]] = {
    "greedy": ("llama", chat("the lazy dog", Sampling(temperature=0, max_tokens=16, seed=1))),
    "sampled": ("llama", chat("the lazy dog", SEEDED)),
    "a completion": ("llama", completion("the lazy dog", SEEDED)),
    "tokens": (
        "llama",
        TokenRequest(model=MODEL, tokens=(5, 6, 7), sampling=SEEDED, text=True, details=True),
    ),
    "penalties": (
        "llama",
        chat(
            "the lazy dog",
            sampled(
                presence_penalty=0.7,
                frequency_penalty=0.9,
                repetition_penalty=1.2,
                no_repeat_ngram_size=2,
            ),
        ),
    ),
    "stop strings that are held back": (
        "llama",
        chat("the lazy dog", sampled(stop=("e q", "th", " the", "og"), max_tokens=40)),
    ),
    "bad words": ("llama", chat("fox", sampled(bad_words=("the quick", "dog")))),
    "a schema": (
        "generic",
        changed(chat("go on", sampled(max_tokens=60)), response_format=SCHEMA),
    ),
    "a call": (
        "hermes",
        changed(
            chat("go on", sampled(max_tokens=120, ignore_eos=False)),
            tools=(TOOL,),
            tool_choice=ToolChoice(mode="required"),
        ),
    ),
    "reasoning": ("opened", chat("go on", sampled(max_tokens=40))),
}


class Batch(Struct, frozen=True, kw_only=True):
    """drawn: tokens up to its end."""

    events: list[Event]
    drawn: tuple[int, ...]


async def answer(
    service: Service, request: GenerateRequest, replayed: tuple[int, ...] = ()
) -> list[Batch]:
    drawn = list(replayed)
    found: list[Batch] = []
    async with aclosing(service.generate(request, model=MODEL, drawn=drawn)) as batches:
        found += [Batch(events=batch, drawn=tuple(drawn)) async for batch in batches]
    return found


async def in_pieces(service: Service, request: GenerateRequest) -> list[Batch]:
    """An answer in more than five batches.

    A batch has all that was drawn since the last one, so on a busy machine few may hold it all.
    """
    for _ in range(50):
        if len(found := await answer(service, request)) > 5:
            return found
    pytest.fail("no answer of 50 came in more than five batches")


def whole(*parts: list[Batch]) -> tuple[object, ...]:
    """All that a client sees of an answer, but for the random ids of calls."""
    fold = Fold()
    first = parts[0][0].events[0]
    later = [event for part in parts for batch in part for event in batch.events]
    fold.add([first, *(one for one in later if not isinstance(one, Started | Usage))])
    (choice,) = fold.answer().choices
    calls = tuple((call.name, call.arguments) for call in choice.tool_calls)
    return choice.text, choice.reasoning, calls, choice.token_ids, choice.finish


def usage_of(batches: list[Batch]) -> Usage:
    return [one for batch in batches for one in batch.events if isinstance(one, Usage)][-1]


@pytest.fixture(scope="module", params=["llama", "generic", "hermes", "opened"])
async def service(
    request: pytest.FixtureRequest, folder: Folder
) -> AsyncGenerator[tuple[str, Service], None]:
    async with serving(config(folder(request.param), kv_cache=1 << 24)) as running:
        yield request.param, running


async def test_the_same_tokens_follow_wherever_it_broke_off(
    service: tuple[str, Service],
) -> None:
    talker, engine = service
    for name, (folder, request) in REQUESTS.items():
        if folder != talker:
            continue
        uncut = await in_pieces(engine, request)
        expected = whole(uncut)
        beginnings = [uncut[: place + 1] for place in range(1, len(uncut) - 1)]
        beginnings = [before for before in beginnings if before[-1].drawn]

        ends = await asyncio.gather(
            *(answer(engine, request, before[-1].drawn) for before in beginnings)
        )

        for before, after in zip(beginnings, ends, strict=True):
            assert whole(before, after) == expected, (name, len(before))
            assert after[-1].drawn == uncut[-1].drawn
            first, second, total = usage_of(before), usage_of(after), usage_of(uncut)
            assert first.completion_tokens is not None
            assert second.completion_tokens is not None
            assert first.completion_tokens + second.completion_tokens == total.completion_tokens
            assert second.prompt_tokens == (first.prompt_tokens or 0) + first.completion_tokens


@pytest.mark.parametrize(
    "request_",
    [
        completion("fox", sampled(n=2)),
        completion("fox", sampled(logprobs=True)),
        CompletionRequest(model=MODEL, prompts=("fox", "dog"), batch=True, sampling=SEEDED),
        completion("fox", Sampling(beam_width=2, max_tokens=8)),
        completion("fox", sampled(max_tokens=2)),
    ],
    ids=["choices", "logprobs", "prompts", "beams", "nothing left"],
)
async def test_what_is_not_in_the_tokens_is_not_resumed(
    service: tuple[str, Service], request_: GenerateRequest
) -> None:
    with pytest.raises(InvalidRequest):
        await answer(service[1], request_, (5, 6))


async def test_a_request_that_nobody_resumes_collects_nothing(
    service: tuple[str, Service],
) -> None:
    request = chat("the lazy dog", SEEDED)
    messages = [Message(role="user", content="the lazy dog")]
    assert list(request.messages) == messages
    async with aclosing(service[1].generate(request, model=MODEL)) as batches:
        plain = [event async for batch in batches for event in batch]

    resumable = [event for batch in await answer(service[1], request) for event in batch.events]

    kinds = (Started, Usage)
    assert [one for one in plain if not isinstance(one, kinds)] == [
        one for one in resumable if not isinstance(one, kinds)
    ]
