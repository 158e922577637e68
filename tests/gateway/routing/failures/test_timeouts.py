"""Each timeout alone, with the others far away: which one ends a stream, and which does not."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import httpx
import pytest

from tests.gateway.routing.failures.fault_dialects import dialect_of
from tests.gateway.routing.failures.fault_scenarios import Sees, endless, slow_first_token, stalls
from tests.gateway.routing.failures.fault_tasks import TASKS, Task, client_sees, failure
from tests.gateway.serving import Serving, serving
from tests.stand_ins.doubles import full_backlog
from tests.stand_ins.provider import Answer, Behaviour, Received, provider, silent

pytestmark = pytest.mark.anyio

FAR = {
    "connect_s": 20.0,
    "silence_s": 20.0,
    "first_token_s": 20.0,
    "between_tokens_s": 20.0,
    "total_s": 20.0,
}
SOON_S = 15.0
"""On a machine that is busy; far below the other timeouts."""

STREAMS: Mapping[str, tuple[Task, str]] = {
    "chat": (TASKS["chat-stream"], "openai"),
    "completion": (TASKS["completion-stream"], "openai"),
    "tokens": (TASKS["tokens-stream"], "mindie"),
}


async def thinks(request: Received, answer: Answer) -> None:
    dialect = dialect_of(request)
    await dialect.before(answer)
    await asyncio.sleep(1.2)
    await answer.text("hel")
    await dialect.rest(answer)


async def comments(request: Received, answer: Answer) -> None:
    """Something to read all the time, and no content."""
    await answer.begin_stream()
    while not answer.gone.is_set():
        await answer.chunk(b": thinking\n\n" * 3)
        await asyncio.sleep(0)


async def comments_later(request: Received, answer: Answer) -> None:
    dialect = dialect_of(request)
    await dialect.before(answer)
    await answer.text("hel")
    while not answer.gone.is_set():
        await answer.chunk(b": thinking\n\n" * 3)
        await asyncio.sleep(0)


async def mute(request: Received, answer: Answer) -> None:
    """It begins to answer, and that was it."""
    await dialect_of(request).before(answer)
    await answer.gone.wait()


CASES: Mapping[str, tuple[Behaviour, str, float]] = {
    "connect": (slow_first_token, "connect_s", 0.2),
    "first": (slow_first_token, "first_token_s", 0.2),
    "unanswered": (slow_first_token, "silence_s", 0.2),
    "mute": (mute, "silence_s", 0.2),
    "flood": (comments, "first_token_s", 0.2),
    "flooded": (comments_later, "between_tokens_s", 0.2),
    "between": (stalls, "between_tokens_s", 0.2),
    "silent": (stalls, "silence_s", 0.2),
    "total": (endless, "total_s", 1.5),
    "thinks": (thinks, "between_tokens_s", 1.0),
}


def config(url: str, deaf: str) -> str:
    """deaf: where no connection is ever accepted."""
    lines = ["providers:"]
    for case, (_, name, seconds) in CASES.items():
        for stream, (_, adapter) in STREAMS.items():
            place = deaf if case == "connect" else url
            path = f"{place}/{case}-{stream}{'/v1' if adapter == 'openai' else ''}"
            timeouts = json.dumps({**FAR, name: seconds})
            lines.append(
                f"  - {{name: {case}-{stream}, adapter: {adapter}, base_url: {path}, api_key: k,\n"
                f"     timeouts: {timeouts}}}"
            )
    lines.append("models:")
    lines += [
        f"  - {{name: {case}-{stream}, retry: {{attempts: 1}}, backends: "
        f"[{{provider: {case}-{stream}, model: m}}]}}"
        for case in CASES
        for stream in STREAMS
    ]
    return "\n".join(lines)


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Serving, None]:
    async def behave(request: Received, answer: Answer) -> None:
        await CASES[request.path.split("/")[1].split("-")[0]][0](request, answer)

    async with provider(behave) as remote:
        with full_backlog() as port:
            text = config(remote.origin, f"http://127.0.0.1:{port}")
            async with serving(text, tmp_path_factory.mktemp("run")) as running:
                yield running


async def ask(gateway: Serving, case: str, stream: str) -> httpx.Response:
    async with asyncio.timeout(SOON_S):
        return await STREAMS[stream][0].ask(gateway.url, f"{case}-{stream}")


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("case", ["connect", "first", "unanswered", "mute", "flood"])
async def test_what_is_slow_before_the_first_token_is_cut_by_its_own_timeout(
    gateway: Serving, case: str, stream: str
) -> None:
    answer = await ask(gateway, case, stream)

    assert answer.status_code == 504
    assert failure(STREAMS[stream][0], answer.json(), "upstream_timeout")


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("case", ["between", "silent", "total"])
async def test_a_stream_that_stalls_or_never_ends_is_cut_by_the_timeout_for_that(
    gateway: Serving, case: str, stream: str
) -> None:
    answer = await ask(gateway, case, stream)

    client_sees(STREAMS[stream][0], answer, Sees(asked=(1, 0), error="upstream_timeout"))


@pytest.mark.parametrize("stream", ["chat", "completion"])
async def test_comments_between_tokens_do_not_put_their_timeout_off(
    gateway: Serving, stream: str
) -> None:
    answer = await ask(gateway, "flooded", stream)

    client_sees(STREAMS[stream][0], answer, Sees(asked=(1, 0), error="upstream_timeout"))


@pytest.mark.parametrize("stream", ["chat", "completion"])
async def test_what_comes_before_content_does_not_start_the_clock_between_tokens(
    gateway: Serving, stream: str
) -> None:
    answer = await ask(gateway, "thinks", stream)

    client_sees(STREAMS[stream][0], answer, Sees(asked=(1, 0)))


async def test_a_whole_answer_that_does_not_begin_in_time_comes_from_the_next_backend(
    tmp_path: Path,
) -> None:
    """Its server has acknowledged the request, and never answers."""
    async with provider(silent) as first, provider() as second:
        text = f"""
providers:
  - {{name: first, adapter: openai, base_url: {first.base_url}, api_key: k,
      timeouts: {{first_byte_s: 0.2}}}}
  - {{name: second, adapter: openai, base_url: {second.base_url}, api_key: k}}
models:
  - {{name: m, policy: in_order, retry: {{attempts: 3}},
      backends: [{{provider: first, model: m}}, {{provider: second, model: m}}]}}
"""
        async with serving(text, tmp_path) as gateway:
            answer = await TASKS["chat"].ask(gateway.url, "m")

    assert answer.status_code == 200
    assert answer.headers["x-gateway-backend"] == "second/m"
