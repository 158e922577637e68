"""What is not continued, by whom, how often, and what the records say of it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
import pytest

from strowger_gateway.gateway.observability.recording.rows_from_request import access_line
from strowger_gateway.gateway.routing.participation import Participation
from strowger_gateway.gateway.routing.planning.prices import UNPRICED
from strowger_gateway.gateway.routing.request_record import AttemptRecord, RequestRecord
from tests.gateway.routing.recovery.continuing import Json, ask, beginning, say
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, delta_body, provider

pytestmark = pytest.mark.anyio

Behaviour = Callable[[Received, Answer], Awaitable[None]]


def broken(*pieces: Json | str) -> Behaviour:
    """Sends these deltas, and breaks off."""

    async def behave(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        for piece in pieces:
            await answer.event(delta_body({"content": piece} if isinstance(piece, str) else piece))
        answer.close()

    return behave


async def continues(request: Received, answer: Answer) -> None:
    """Says `abcdefghij`, whatever of it is there already."""
    await say(request, answer, list("abcdefghij"[len(beginning(request)) :]))


def refuses(status: int) -> Behaviour:
    async def behave(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "no prefill", "type": "x"}}, status)

    return behave


def config(url: str, adapters: Sequence[str], model_more: str, retry: str, between_s: float) -> str:
    providers = "\n".join(
        f"  - {{name: p{place}, adapter: {adapter}, base_url: {url}/{place}/v1, api_key: k,\n"
        f"     timeouts: {{first_token_s: 20, between_tokens_s: {between_s}, total_s: 20}}}}"
        for place, adapter in enumerate(adapters)
    )
    backends = ", ".join(f"{{provider: p{place}, model: m}}" for place in range(len(adapters)))
    return f"""
providers:
{providers}
models:
  - name: chat
    policy: in_order
    stream_recovery: continue
    retry: {{{retry}, backoff_s: 0.001, max_backoff_s: 0.01}}
    backends: [{backends}]
    {model_more}
"""


@asynccontextmanager
async def staged(
    tmp_path: Path,
    *behaviours: Behaviour,
    adapters: Sequence[str] = (),
    model_more: str = "",
    retry: str = "attempts: 4",
    between_s: float = 20,
) -> AsyncGenerator[tuple[Serving, Provider]]:
    async def behave(request: Received, answer: Answer) -> None:
        await behaviours[int(request.path.split("/")[1])](request, answer)

    names = adapters or ("vllm",) * len(behaviours)
    async with (
        provider(behave) as remote,
        serving(config(remote.origin, names, model_more, retry, between_s), tmp_path) as gateway,
    ):
        yield gateway, remote


def paths(remote: Provider) -> list[str]:
    return [request.path.split("/")[1] for request in remote.requests]


CALL: Json = {
    "tool_calls": [
        {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}
    ]
}
SCHEMA: Json = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
TOOLS = [{"type": "function", "function": {"name": "f"}}]
NOT_CONTINUED: dict[str, tuple[tuple[Json | str, ...], Json]] = {
    "in a tool call": (("abc", CALL), {"tools": TOOLS}),
    "in reasoning": (({"reasoning_content": "hm"},), {}),
    "text after reasoning": (({"reasoning_content": "hm"}, "abc"), {}),
    "several choices": (("abc",), {"n": 2}),
    "log probabilities": (("abc",), {"logprobs": True}),
    "a schema": (("abc",), {"response_format": SCHEMA}),
    "JSON mode": (("abc",), {"response_format": {"type": "json_object"}}),
    "a required tool": (("abc",), {"tools": TOOLS, "tool_choice": "required"}),
    "a server's grammar": (("abc",), {"guided_json": {"type": "object"}}),
    "structured outputs": (("abc",), {"structured_outputs": {"json": {"type": "object"}}}),
}


@pytest.mark.parametrize("case", NOT_CONTINUED)
async def test_what_text_alone_cannot_continue_ends_as_without_recovery(
    tmp_path: Path, case: str
) -> None:
    pieces, body = NOT_CONTINUED[case]
    async with staged(tmp_path, broken(*pieces), continues) as (gateway, remote):
        got = await ask(gateway.url, **{**body})

        assert (got.error, got.done, got.comments) == ("upstream_broken", False, ())
        assert paths(remote) == ["0"]
        (line,) = gateway.access_lines()
        assert [attempt.continued for attempt in line.attempts] == [False]


async def test_a_backend_whose_dialect_continues_no_chat_is_not_asked(tmp_path: Path) -> None:
    async with staged(
        tmp_path, broken("abc"), continues, continues, adapters=("vllm", "openai", "vllm")
    ) as (gateway, remote):
        got = await ask(gateway.url)

        assert (got.text, got.error) == ("abcdefghij", "")
        assert paths(remote) == ["0", "2"]


@pytest.mark.parametrize("status", [400, 422, 429, 500])
async def test_a_fallback_that_refuses_ends_the_stream_in_the_first_failure(
    tmp_path: Path, status: int
) -> None:
    """S14 of failoverbench, with a fallback without prefill."""
    first = True

    async def once(request: Received, answer: Answer) -> None:
        nonlocal first
        await (broken("abc") if first else refuses(400))(request, answer)
        first = False

    async with staged(tmp_path, once, refuses(status)) as (gateway, _):
        got = await ask(gateway.url)

        assert (got.text, got.error, got.done) == ("abc", "upstream_broken", False)
        (line,) = gateway.access_lines()
        assert (line.backend, line.error) == ("p0/m", "upstream_broken")
        assert not any(attempt.continued for attempt in line.attempts)
        assert line.ttft_ms is not None


async def test_the_next_backend_is_asked_after_one_that_refuses(tmp_path: Path) -> None:
    async with staged(tmp_path, broken("abc"), refuses(400), continues) as (gateway, remote):
        got = await ask(gateway.url)

        assert (got.text, got.error) == ("abcdefghij", "")
        assert paths(remote) == ["0", "1", "2"]


async def test_the_only_backend_continues_its_own_text(tmp_path: Path) -> None:
    async def breaks_twice(request: Received, answer: Answer) -> None:
        begun = len(beginning(request))
        if begun < 6:
            await broken("abcdefghij"[begun : begun + 3])(request, answer)
        else:
            await continues(request, answer)

    async with staged(tmp_path, breaks_twice) as (gateway, _):
        got = await ask(gateway.url)

        assert (got.text, got.error) == ("abcdefghij", "")
        assert got.comments == (": continued after upstream_broken",) * 2
        (line,) = gateway.access_lines()
        assert [one.outcome for one in line.attempts] == ["upstream_broken"] * 2 + ["ok"]


async def test_attempts_bound_the_continuations(tmp_path: Path) -> None:
    async def always_breaks(request: Received, answer: Answer) -> None:
        begun = len(beginning(request))
        await broken("abcdefghij"[begun : begun + 1])(request, answer)

    async with staged(tmp_path, always_breaks) as (gateway, remote):
        got = await ask(gateway.url)

        assert (got.text, got.error, got.done) == ("abcd", "upstream_broken", False)
        assert len(remote.requests) == 4


async def test_the_deadline_bounds_the_continuations(tmp_path: Path) -> None:
    async def silent(request: Received, answer: Answer) -> None:
        await answer.gone.wait()

    async with staged(tmp_path, broken("abc"), silent, model_more="deadline_s: 0.5") as (
        gateway,
        _,
    ):
        got = await ask(gateway.url)

        assert (got.text, got.error) == ("abc", "deadline_exceeded")


async def test_retry_on_decides_after_which_failures(tmp_path: Path) -> None:
    async with staged(tmp_path, broken("abc"), continues, retry="on: [timeout], attempts: 4") as (
        gateway,
        remote,
    ):
        assert (await ask(gateway.url)).error == "upstream_broken"
        assert paths(remote) == ["0"]


async def test_usage_is_the_sum_and_each_attempt_has_its_own(tmp_path: Path) -> None:
    async with staged(tmp_path, broken("a", "b", "c"), continues) as (gateway, _):
        got = await ask(gateway.url)

        # The second backend read 2 + 3 tokens, and produced 7; the first produced 3.
        assert got.usage == {"prompt_tokens": 7, "completion_tokens": 10, "total_tokens": 17}
        (line,) = gateway.access_lines()
        assert [one.deltas for one in line.attempts] == [3, 0]
        assert (line.prompt_tokens, line.completion_tokens) == (5, 7)
        assert [one.continued for one in line.attempts] == [True, False]


async def test_the_tokens_left_are_fewer(tmp_path: Path) -> None:
    async with staged(tmp_path, broken("a", "b", "c"), continues) as (gateway, remote):
        await ask(gateway.url, max_tokens=8, min_tokens=5)

        sent = remote.requests[-1].json
        assert (sent["max_tokens"], sent["min_tokens"]) == (5, 2)


async def test_a_stop_string_across_the_seam_ends_the_answer(tmp_path: Path) -> None:
    async with staged(tmp_path, broken("ab", "c"), continues) as (gateway, _):
        got = await ask(gateway.url, stop=["xx", "cde"])

        assert (got.text, got.finish, got.error, got.done) == ("abc", "stop", "", True)


async def test_the_clients_own_beginning_stays_before_what_was_shown(tmp_path: Path) -> None:
    async with staged(tmp_path, broken("abc"), continues) as (gateway, remote):
        question = {"role": "user", "content": "hi"}
        await ask(
            gateway.url,
            messages=[question, {"role": "assistant", "content": "> "}],
            continue_final_message=True,
            add_generation_prompt=False,
        )

        messages = cast("Sequence[Json]", remote.requests[-1].json["messages"])
        assert messages == [question, {"role": "assistant", "content": "> abc"}]


async def test_a_continuation_may_call_a_tool(tmp_path: Path) -> None:
    async def calls(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text(" def")
        await answer.event(delta_body(CALL))
        await answer.end_stream("tool_calls")

    async with staged(tmp_path, broken("abc"), calls) as (gateway, _):
        got = await ask(gateway.url, tools=TOOLS)

        assert (got.text, got.finish, got.others) == ("abc def", "tool_calls", True)


async def test_a_backend_that_begins_with_reasoning_continues_nothing(tmp_path: Path) -> None:
    async def reasons(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.event(delta_body({"reasoning_content": "hm"}))
        await answer.text("abc again")
        await answer.end_stream()

    async with staged(tmp_path, broken("abc"), reasons, continues) as (gateway, remote):
        got = await ask(gateway.url)

        assert (got.text, got.others, got.error) == ("abcdefghij", False, "")
        assert paths(remote) == ["0", "1", "2"]


async def test_a_stall_is_continued(tmp_path: Path) -> None:
    async def stalls(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("abc")
        await answer.gone.wait()

    async with staged(tmp_path, stalls, continues, between_s=0.3) as (gateway, _):
        got = await ask(gateway.url)

        assert (got.text, got.comments) == ("abcdefghij", (": continued after upstream_timeout",))


async def test_an_open_circuit_is_not_asked_and_failures_open_it(tmp_path: Path) -> None:
    async with staged(
        tmp_path,
        broken("abc"),
        continues,
        model_more="breaker: {min_requests: 2, cooldown_s: 60}",
    ) as (gateway, remote):
        for _ in range(3):
            assert (await ask(gateway.url)).text == "abcdefghij"

        assert paths(remote) == ["0", "1", "0", "1", "1"]


async def test_a_client_that_disconnects_stops_the_continuation(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def endless(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("d")
        try:
            await answer.gone.wait()
        finally:
            gone.set()

    async with (
        staged(tmp_path, broken("abc"), endless) as (gateway, _),
        httpx.AsyncClient(timeout=60) as client,
    ):
        body = {"model": "chat", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        async with client.stream("POST", f"{gateway.url}/v1/chat/completions", json=body) as answer:
            async for line in answer.aiter_lines():
                if '"content":"d"' in line:
                    break
        async with asyncio.timeout(60):
            await gone.wait()


def test_an_experiment_counts_a_continued_answer_as_a_fallback() -> None:
    """Also if the variant's own backend continued it: the answer is not that of one attempt."""
    part = Participation(experiment="trial", epoch=1, variant="a", assigned_backend="p0/m")

    def counted(*attempts: AttemptRecord) -> bool:
        record = RequestRecord(
            request_id="r",
            started=0.0,
            backend="p0/m",
            participation=part,
            attempts=list(attempts),
        )
        return access_line(record, 200, 1.0, 0.0, UNPRICED).fallback

    ok = AttemptRecord(backend="p0/m", outcome="ok")
    assert not counted(ok)
    assert not counted(AttemptRecord(backend="p0/m", outcome="upstream_broken"), ok)
    assert counted(AttemptRecord(backend="p0/m", outcome="upstream_broken", continued=True), ok)


async def test_metrics_count_continued_streams(tmp_path: Path) -> None:
    async with staged(tmp_path, broken("abc"), continues) as (gateway, _):
        await ask(gateway.url)
        gateway.access_lines()
        text = (await gateway.state.processes.metrics_text())[0].decode()

        assert 'strowger_continued_streams_total{code="upstream_broken",model="chat"} 1.0' in text
