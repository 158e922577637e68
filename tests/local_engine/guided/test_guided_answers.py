"""Guided decoding through the service, combined with all other sampling features."""

import asyncio
import re
from collections.abc import AsyncGenerator

import msgspec
import pytest
from msgspec import UNSET, Raw, UnsetType

from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.answers import Answer
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import ResponseFormat
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.guided.compiled_grammars import BACKEND, END
from tests.local_engine.services import ask, chat, config, serving

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def service(folder: Folder) -> AsyncGenerator[Service, None]:
    async with serving(config(folder("generic"), kv_cache=1 << 24)) as running:
        yield running


def matching(pattern: str, sampling: Sampling | UnsetType = UNSET) -> ChatRequest:
    raw = Raw(msgspec.json.encode({"type": "regex", "pattern": pattern}))
    request = chat("go on", Sampling(seed=1) if sampling is UNSET else sampling)
    return msgspec.structs.replace(request, response_format=ResponseFormat(type="opaque", raw=raw))


def texts_of(answer: Answer) -> list[str]:
    for choice in answer.choices:
        assert choice.finish is not None
        assert choice.finish.reason == "stop"
    return [choice.text or "" for choice in answer.choices]


def token(text: str) -> int:
    ids = BACKEND.encode(text).ids
    assert len(ids) == 1
    return ids[0]


async def test_a_seeded_answer_is_the_same_alone_and_in_a_batch(service: Service) -> None:
    patterns = [
        r"[a-m ]{5,40}!",
        r"(the|fox)( quick){3}\d{4,9}",
        r"[^a-z]{10,30}",
        r"[A-Za-z_]{20}",
    ]
    requests = [
        matching(pattern, Sampling(seed=seed, temperature=1.3, top_p=0.9))
        for seed, pattern in enumerate(patterns * 3)
    ]
    free = [chat("something else", Sampling(seed=9, max_tokens=30)) for _ in range(4)]

    alone = [texts_of(await ask(service, one)) for one in requests]
    batch = await asyncio.gather(*[ask(service, one) for one in [*requests, *free]])

    assert [texts_of(answer) for answer in batch[: len(requests)]] == alone
    for pattern, (text,) in zip(patterns * 3, alone, strict=True):
        assert re.fullmatch(pattern, text)


async def test_every_choice_has_a_grammar_of_its_own(service: Service) -> None:
    texts = texts_of(await ask(service, matching(r"[a-f]{3,12}\d", Sampling(seed=3, n=5))))

    assert len(set(texts)) > 1
    assert all(re.fullmatch(r"[a-f]{3,12}\d", text) for text in texts)


async def test_the_best_of_several_matches_too(service: Service) -> None:
    texts = texts_of(await ask(service, matching(r"[a-f]{3,5}", Sampling(seed=3, n=2, best_of=4))))

    assert len(texts) == 2
    assert all(re.fullmatch(r"[a-f]{3,5}", text) for text in texts)


async def test_beams_match_too(service: Service) -> None:
    sampling = Sampling(beam_width=3, n=3, max_tokens=40)

    texts = texts_of(await ask(service, matching(r"(fox|dog)[a-e]{2}", sampling)))

    assert len(set(texts)) == 3
    assert all(re.fullmatch(r"(fox|dog)[a-e]{2}", text) for text in texts)


async def test_an_answer_that_may_end_does_not_before_min_tokens(service: Service) -> None:
    eager = {END: 30.0, token("a"): 20.0}

    free = await ask(service, matching("a*", Sampling(seed=1, logit_bias=eager)))
    held = await ask(service, matching("a*", Sampling(seed=1, logit_bias=eager, min_tokens=6)))

    assert texts_of(free) == [""]
    assert texts_of(held) == ["aaaaaa"]


async def test_the_grammar_wins_where_all_it_permits_is_banned(service: Service) -> None:
    banned = Sampling(
        seed=1,
        bad_word_ids=((token("a"),), (token("b"),)),
        min_tokens=3,
        no_repeat_ngram_size=1,
        logit_bias={token("a"): -100.0, token("c"): 100.0},
    )

    answer = await ask(service, matching("ab(a|b)", banned))

    assert texts_of(answer)[0] in {"aba", "abb"}


async def test_a_ban_wins_where_the_grammar_permits_something_else(service: Service) -> None:
    banned = Sampling(seed=1, bad_word_ids=((token("X"),), (token("Y"),)))

    answer = await ask(service, matching("[XYZ]{4}", banned))

    assert texts_of(answer) == ["ZZZZ"]


async def test_a_complete_answer_ends_although_end_tokens_are_ignored(service: Service) -> None:
    answer = await ask(service, matching("the fox", Sampling(ignore_eos=True, max_tokens=50)))

    assert texts_of(answer) == ["the fox"]


async def test_the_clients_own_end_is_permitted_where_the_answer_may_end(
    service: Service,
) -> None:
    sampling = Sampling(end_id=4, seed=1, logit_bias={4: 40.0})

    answer = await ask(service, matching("ZX?Y?", sampling))

    assert texts_of(answer) == ["Z"]


async def test_a_stop_string_cuts_a_guided_answer(service: Service) -> None:
    answer = await ask(service, matching("a{5}b{5}c{5}", Sampling(stop=("abb",))))

    assert texts_of(answer) == ["aaaa"]


async def test_log_probabilities_are_of_the_tokens_that_were_permitted(service: Service) -> None:
    sampling = Sampling(seed=1, logprobs=True, top_logprobs=2)

    answer = await ask(service, matching("[xyz]{6}", sampling))

    tokens = [one.token for one in answer.choices[0].logprobs]
    assert "".join(tokens) == texts_of(answer)[0]


@pytest.mark.parametrize(
    ("wire", "pattern"),
    [
        ({"syntax": "lark", "definition": 'start: "a" WORD\nWORD: /[0-9]+x/'}, r"a\d+x"),
        ({"definition": "start: /go|on/"}, "go|on"),
        ({"syntax": "ebnf", "definition": 'root ::= "a" digit+ "x"\ndigit ::= [0-9]'}, r"a\d+x"),
    ],
)
async def test_a_grammar_of_the_clients_is_matched(
    service: Service, wire: dict[str, str], pattern: str
) -> None:
    raw = Raw(msgspec.json.encode({"type": "grammar", **wire}))
    request = chat("go on", Sampling(seed=2, logit_bias={token("x"): 3.0}))
    form = ResponseFormat(type="opaque", raw=raw)

    answer = await ask(service, msgspec.structs.replace(request, response_format=form))

    assert re.fullmatch(pattern, texts_of(answer)[0])


async def test_a_schema_that_is_not_strict_is_matched_as_far_as_it_can_be(
    service: Service,
) -> None:
    schema = b'{"type":"array","items":{"enum":[1,2]},"minItems":2,"maxItems":2,"uniqueItems":true}'
    form = ResponseFormat(type="json_schema", schema=Raw(schema))
    request = msgspec.structs.replace(chat("go on", Sampling(seed=2)), response_format=form)

    answer = await ask(service, request)

    assert msgspec.json.decode(texts_of(answer)[0], type=list[int]) in [
        [a, b] for a in (1, 2) for b in (1, 2)
    ]


PAIR: dict[str, object] = {
    "type": "object",
    "properties": {"a": {"enum": [1, 2]}, "b": {"type": "array", "items": {"enum": ["x"]}}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


def of_schema(schema: dict[str, object]) -> ChatRequest:
    form = ResponseFormat(type="json_schema", schema=Raw(msgspec.json.encode(schema)))
    blanks = {token(text): 30.0 for text in (" ", "\n")}
    request = chat("go on", Sampling(seed=1, max_tokens=200, logit_bias=blanks))
    return msgspec.structs.replace(request, response_format=form)


async def test_json_is_written_on_one_line_with_at_most_one_space_behind_a_mark(
    service: Service,
) -> None:
    """Although the client's bias prefers blanks wherever they are allowed."""
    (text,) = texts_of(await ask(service, of_schema(PAIR)))

    compact = msgspec.json.encode(msgspec.json.decode(text)).decode()
    assert re.sub(r"([,:]) ", r"\1", text) == compact


async def test_a_schema_may_allow_more_blanks_within_a_bound(service: Service) -> None:
    flexible = {**PAIR, "x-guidance": {"whitespace_flexible": True}}

    (text,) = texts_of(await ask(service, of_schema(flexible)))

    assert re.search(r"\s\s", text)
    assert not re.search(r"\s{21}", text)


async def test_an_unknown_option_is_rejected_with_the_schemas_name(
    service: Service,
) -> None:
    with pytest.raises(InvalidRequest, match="unknown field `blanks`") as caught:
        await ask(service, of_schema({**PAIR, "x-guidance": {"blanks": 1}}))

    assert caught.value.param == "response_format.json_schema.schema"
