"""An untrained model's answer matches any requested schema or pattern."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from random import Random
from typing import cast

import jsonschema
import msgspec
import pytest

from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.messages import ResponseFormat
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.guided.random_schemas import JSON, pattern, schema
from tests.local_engine.services import ask, chat, config, serving

pytestmark = pytest.mark.anyio

TOKENS = 3000


@pytest.fixture(scope="module")
async def service(folder: Folder) -> AsyncGenerator[Service, None]:
    async with serving(config(folder("generic"), kv_cache=1 << 26)) as running:
        yield running


def matching(format: ResponseFormat, seed: int) -> ChatRequest:
    """Even seeds are greedy, so that an answer does not depend on luck to end."""
    heat = 0.0 if seed % 2 == 0 else 1.0
    sampling = Sampling(temperature=heat, seed=seed, max_tokens=TOKENS)
    return msgspec.structs.replace(chat("go on", sampling), response_format=format)


async def answers(service: Service, formats: list[ResponseFormat]) -> list[str]:
    """All at once, as a batch."""
    pending = [ask(service, matching(form, seed)) for seed, form in enumerate(formats)]
    texts: list[str] = []
    for answer in await asyncio.gather(*pending):
        finish = answer.choices[0].finish
        assert finish is not None
        assert finish.reason == "stop"
        texts.append(answer.choices[0].text or "")
    return texts


async def check_schemas(service: Service, seeds: range) -> None:
    wanted = [schema(Random(seed)) for seed in seeds]
    raws = [msgspec.Raw(msgspec.json.encode(one)) for one in wanted]

    texts = await answers(
        service, [ResponseFormat(type="json_schema", schema=raw, strict=True) for raw in raws]
    )

    for one, text in zip(wanted, texts, strict=True):
        validator = jsonschema.Draft202012Validator(
            one, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
        )
        validator.validate(cast(JSON, json.loads(text)))  # pyright: ignore[reportUnknownMemberType]  # jsonschema


async def check_patterns(service: Service, seeds: range) -> None:
    wanted = [pattern(Random(seed), 3) for seed in seeds]

    texts = await answers(service, [_regex(one) for one in wanted])

    for one, text in zip(wanted, texts, strict=True):
        assert re.fullmatch(one, text), (one, text)


async def test_answers_match_fifty_random_schemas(service: Service) -> None:
    await check_schemas(service, range(50))


async def test_answers_match_fifty_random_patterns(service: Service) -> None:
    await check_patterns(service, range(50))


@pytest.mark.nightly
async def test_answers_match_five_hundred_random_schemas(service: Service) -> None:
    for first in range(0, 500, 50):
        await check_schemas(service, range(first, first + 50))


@pytest.mark.nightly
async def test_answers_match_five_hundred_random_patterns(service: Service) -> None:
    for first in range(0, 500, 50):
        await check_patterns(service, range(first, first + 50))


def _regex(pattern: str) -> ResponseFormat:
    raw = msgspec.json.encode({"type": "regex", "pattern": pattern})
    return ResponseFormat(type="opaque", raw=msgspec.Raw(raw))
