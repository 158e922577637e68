"""Answers from the cache, over the wire: on every surface, whole and as streams."""

import json
import re
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.gateway.content.cache.asking import ASKS, CHAT, Json, ask, shown, text_of
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Behaviour, Received, answers, delta_body, provider

pytestmark = pytest.mark.anyio

CACHE = "cache: {}\n"
SURFACES: list[tuple[str, Json, bool]] = [
    ("/v1/chat/completions", CHAT, True),
    ("/v1/completions", {"model": "chat", "prompt": "hi"}, True),
    ("/v1/messages", {**CHAT, "max_tokens": 20}, True),
    ("/v1/responses", {"model": "chat", "input": "hi"}, True),
    ("/serving-endpoints/chat/invocations", {"messages": CHAT["messages"]}, True),
    ("/v2/models/chat/generate", {"text_input": "hi", "max_tokens": 20}, False),
    ("/v1/embeddings", {"model": "chat", "input": "hi"}, False),
    ("/v1/embeddings", {"model": "chat", "input": ["a", "b"], "encoding_format": "base64"}, False),
]
_CHANGING = re.compile(
    r'"(?:created|created_at|completed_at)":\s*\d+|"(?:id|item_id|response_id)":\s*"[^"]*"'
)


def constant(answer: httpx.Response) -> str:
    """The body without the ids and times, which every answer has of its own."""
    return _CHANGING.sub("", answer.text)


def says(*pieces: str, finish: str = "stop") -> Behaviour:
    """Answers with these pieces of a text."""

    async def behave(request: Received, answer: Answer) -> None:
        if not request.json.get("stream"):
            await answer.chat("".join(pieces), finish)
            return
        await answer.begin_stream()
        for piece in pieces:
            await answer.text(piece)
        await answer.end_stream(finish)

    return behave


async def test_every_surface_gets_the_same_answer_again_without_a_backend(tmp_path: Path) -> None:
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, CACHE), tmp_path) as gateway,
    ):
        for path, body, _ in SURFACES:
            before = len(backend.requests)
            first, second = [await ask(gateway, path=path, base=body) for _ in range(2)]
            assert (shown(first), shown(second)) == ("miss", "hit"), path
            assert constant(first) == constant(second), path
            assert len(backend.requests) == before + 1, path
            assert "x-gateway-backend" in first.headers
            assert "x-gateway-backend" not in second.headers, "no backend was asked"
            assert int(second.headers["age"]) >= 0


async def test_streams_are_replayed_as_streams_on_every_surface(tmp_path: Path) -> None:
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, CACHE), tmp_path) as gateway,
    ):
        for path, body, streams in SURFACES:
            if not streams:
                continue
            before = len(backend.requests)
            more: Json = {"stream": True}
            first, second = [await ask(gateway, more, path=path, base=body) for _ in range(2)]
            assert (shown(first), shown(second)) == ("miss", "hit"), path
            assert second.text.startswith(("data: {", "event: "))
            kinds = [one.headers["content-type"] for one in (first, second)]
            assert kinds[0] == kinds[1]
            assert "hello" in second.text
            assert len(backend.requests) == before + 1, path


async def test_a_stream_and_a_whole_answer_are_kept_apart(tmp_path: Path) -> None:
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, CACHE), tmp_path) as gateway,
    ):
        outcomes = [shown(await ask(gateway, {"stream": one})) for one in (True, False, True)]
    assert outcomes == ["miss", "miss", "hit"]


def calls(*pieces: str) -> Behaviour:
    """Thinks, calls a tool with arguments in these pieces, and reports log probabilities."""

    async def behave(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.event(delta_body({"role": "assistant", "reasoning_content": "let me "}))
        await answer.event(delta_body({"reasoning_content": "see"}))
        call: Json = {"index": 0, "id": "call_1", "type": "function"}
        head = {**call, "function": {"name": "look", "arguments": ""}}
        await answer.event(delta_body({"tool_calls": [head]}))
        for piece in pieces:
            part = {"index": 0, "function": {"arguments": piece}}
            await answer.event(delta_body({"tool_calls": [part]}))
        await answer.end_stream("tool_calls")

    return behave


async def test_reasoning_and_tool_calls_are_replayed_in_their_order(tmp_path: Path) -> None:
    async with (
        provider(calls('{"pla', 'ce": "Rome"', "}")) as backend,
        serving(one_model(backend.base_url, CACHE), tmp_path) as gateway,
    ):
        for path, base in (("/v1/chat/completions", CHAT), ("/v1/messages", SURFACES[2][1])):
            tool = {"name": "look", "input_schema": {"type": "object"}}
            more: Json = {"stream": True, "tools": [tool]}
            if path == "/v1/chat/completions":
                function = {"name": "look", "parameters": {"type": "object"}}
                more["tools"] = [{"type": "function", "function": function}]
            _, again = [await ask(gateway, more, path=path, base=base) for _ in range(2)]
            assert shown(again) == "hit"
            joined = again.text.replace("\\", "")
            assert "let me see" in joined
            assert '{"place": "Rome"}' in joined
            assert joined.index("let me see") < joined.index("Rome")
            assert "call_1" in joined


@settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=6),
)
async def test_streams_that_were_cut_differently_are_replayed_alike(
    text: str, cuts: list[int], tmp_path: Path
) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(places) if a < b]
    replays: list[str] = []
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, CACHE), tmp_path) as gateway,
    ):
        for cut in ([text], pieces):
            backend.behaviour = says(*cut)
            fresh = {**ASKS, "cache-control": "no-cache"}
            assert shown(await ask(gateway, {"stream": True}, headers=fresh)) == "miss"
            replay = await ask(gateway, {"stream": True})
            assert shown(replay) == "hit"
            assert text_of(replay) == text
            replays.append(constant(replay))
    assert replays[0] == replays[1]


async def test_nothing_is_cached_that_neither_side_asks_for(tmp_path: Path) -> None:
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, CACHE), tmp_path) as gateway,
    ):
        for _ in range(2):
            assert shown(await ask(gateway, headers={})) == ""
        assert shown(await ask(gateway, headers={"x-gateway-cache": "off"})) == "bypass"
        assert shown(await ask(gateway)) == "miss", "and nothing was kept"
        assert len(backend.requests) == 4
        wrong = await ask(gateway, headers={"x-gateway-cache": "yes"})
        assert wrong.status_code == 400
        assert "must be on or off" in wrong.text


async def test_clients_may_not_ask_where_the_operator_does_not_want_it(tmp_path: Path) -> None:
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, "cache: {by_header: false}"), tmp_path) as gateway,
    ):
        assert [shown(await ask(gateway)) for _ in range(2)] == ["", ""]


async def test_a_model_caches_requests_with_the_temperature_0(tmp_path: Path) -> None:
    rule = "    cache: {ttl_s: 60}\n"
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, model_more=rule), tmp_path) as gateway,
    ):
        expectations: list[tuple[Json, list[str]]] = [
            ({"temperature": 0}, ["miss", "hit"]),
            ({"temperature": 0.5}, ["bypass", "bypass"]),
            ({}, ["bypass", "bypass"]),
        ]
        for more, expected in expectations:
            found = [shown(await ask(gateway, more, headers={})) for _ in range(2)]
            assert found == expected, more
        embeddings: Json = {"model": "chat", "input": "hi"}
        found = [
            shown(await ask(gateway, path="/v1/embeddings", base=embeddings, headers={}))
            for _ in range(2)
        ]
        assert found == ["miss", "hit"]
        assert [shown(await ask(gateway, {"temperature": 0.5})) for _ in range(2)] == [
            "miss",
            "hit",
        ], "the client asks for it"


async def test_the_operators_temperature_counts_as_the_clients(tmp_path: Path) -> None:
    rule = "    cache: {}\n    defaults: {temperature: 0}\n"
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, model_more=rule), tmp_path) as gateway,
    ):
        both: tuple[Json, Json] = ({}, {"temperature": 0})
        found = [shown(await ask(gateway, more, headers={})) for more in both]
        assert found == ["miss", "hit"], "explicit and by default are one request"
        always = rule.replace("cache: {}", "cache: {when: always}")
        async with serving(one_model(backend.base_url, model_more=always), tmp_path) as other:
            warm: Json = {"temperature": 1}
            assert [shown(await ask(other, warm, headers={})) for _ in range(2)] == ["miss", "hit"]


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        ("no-store", ["bypass", "bypass", "miss"]),
        ("no-cache", ["miss", "miss", "hit"]),
        ("max-age=0", ["miss", "miss", "hit"]),
        ("max-age=3600, private", ["miss", "hit", "hit"]),
    ],
)
async def test_cache_control_of_requests_is_honoured(
    control: str, expected: list[str], tmp_path: Path
) -> None:
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, CACHE), tmp_path) as gateway,
    ):
        controlled = {**ASKS, "Cache-Control": control}
        found = [shown(await ask(gateway, headers=controlled)) for _ in range(2)]
        assert [*found, shown(await ask(gateway))] == expected


async def test_an_answer_is_not_served_after_its_time(tmp_path: Path) -> None:
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, "cache: {ttl_s: 0.5}"), tmp_path) as gateway,
    ):
        assert shown(await ask(gateway)) == "miss"
        found = [shown(await ask(gateway))]
        while found[-1] == "hit":  # an endless loop would be the failure
            found.append(shown(await ask(gateway)))
        assert found[-1] == "miss"


async def test_answers_that_a_vendor_filtered_are_not_kept(tmp_path: Path) -> None:
    async with (
        provider(says("no", finish="content_filter")) as backend,
        serving(one_model(backend.base_url, CACHE), tmp_path) as gateway,
    ):
        for stream in (False, True):
            for _ in range(2):
                await ask(gateway, {"stream": stream})
        assert len(backend.requests) == 4
        assert not [one for one in gateway.access_lines() if one.cache == "hit"]


async def test_errors_and_broken_streams_are_not_kept(tmp_path: Path) -> None:
    async def breaks(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("half")
        answer.reset()

    async def refuses(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "no"}}, 400)

    async with (
        provider() as backend,
        serving(one_model(backend.base_url, CACHE), tmp_path) as gateway,
    ):
        for seed, behaviour in enumerate((breaks, refuses, refuses)):
            more: Json = {"stream": seed < 2, "seed": seed}
            backend.behaviour = behaviour
            await ask(gateway, more)
            backend.behaviour = answers
            assert shown(await ask(gateway, more)) == "miss"
            backend.behaviour = refuses
            assert text_of(await ask(gateway, more)) == "hello"


async def test_large_answers_are_not_kept_and_arrive_whole(tmp_path: Path) -> None:
    long = "x" * 3000
    limits = "cache: {max_entry_bytes: 2000}"
    async with (
        provider(says(long, long)) as backend,
        serving(one_model(backend.base_url, limits), tmp_path) as gateway,
    ):
        for stream in (False, True):
            for _ in range(2):
                answer = await ask(gateway, {"stream": stream})
                assert shown(answer) == "miss"
                assert text_of(answer) == long + long


async def test_the_memory_is_bounded_and_the_least_recently_used_leave(tmp_path: Path) -> None:
    async with (
        provider(says("y" * 20_000)) as backend,
        serving(one_model(backend.base_url, "cache: {max_bytes: 64KiB}"), tmp_path) as gateway,
    ):
        for seed in (1, 2, 1, 3, 4):
            await ask(gateway, {"seed": seed})
        found = [shown(await ask(gateway, {"seed": seed})) for seed in (1, 3, 4, 2)]
        assert found == ["hit", "hit", "hit", "miss"]
        read = gateway.state.log.metrics.registry.get_sample_value
        assert 40_000 < (read("strowger_cache_bytes") or 0) <= 64 * 1024
        assert (read("strowger_cache_evicted_total") or 0) >= 2


async def test_large_requests_are_cached_too(tmp_path: Path) -> None:
    content = json.dumps("long" * 30_000)
    body: Json = {"model": "chat", "messages": [{"role": "user", "content": content}]}
    async with (
        provider() as backend,
        serving(one_model(backend.base_url, CACHE), tmp_path) as gateway,
    ):
        assert [shown(await ask(gateway, base=body)) for _ in range(2)] == ["miss", "hit"]
