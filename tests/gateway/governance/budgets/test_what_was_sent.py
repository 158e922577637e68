"""What a request costs that ends without usage: the prompts that models have read, in all books.

Each row of the table "Which ends cost what" in docs/budgets.md is a case here.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.governance.limits.process_side import LimitsSide
from tests.gateway.governance.limits.test_limited_requests import until_idle
from tests.gateway.observability.recording.test_rows_from_request import Kept
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Behaviour, Received, chat_body, provider, silent

pytestmark = pytest.mark.anyio

TEXT = "word " * 800
PROMPT = 1004
"""Tokens of TEXT as a chat, by the gateway's estimate."""
WHOLE, MONEY = 10**7, 10**6
"""Of the budgets, in tokens and in US dollars: more than all cases use together."""


async def never(gateway: httpx.AsyncClient, model: str, **more: object) -> None:
    """Send a chat, and receive whatever comes."""
    body = {"model": model, "messages": [{"role": "user", "content": TEXT}], "max_tokens": 9}
    await gateway.post("/v1/chat/completions", json={**body, **more})


async def in_time(gateway: httpx.AsyncClient, model: str) -> None:
    await never(gateway, model, timeout=1)


async def streams(gateway: httpx.AsyncClient, model: str) -> None:
    await never(gateway, model, stream=True)


async def leaves(gateway: httpx.AsyncClient, model: str, **more: object) -> None:
    """Hang up when the backend has the request."""
    waiting = asyncio.create_task(never(gateway, model, **more))
    await ARRIVED[model].wait()
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting


async def leaves_a_stream(gateway: httpx.AsyncClient, model: str) -> None:
    await leaves(gateway, model, stream=True)


async def completes_ten(gateway: httpx.AsyncClient, model: str) -> None:
    """Ten prompts of 400 tokens, of which eight are sent at a time."""
    body = {"model": model, "prompt": ["word " * 320] * 10, "max_tokens": 9}
    await gateway.post("/v1/completions", json=body)


async def shows_an_image(gateway: httpx.AsyncClient, model: str) -> None:
    """The gateway has to fetch it, and nothing answers there."""
    image = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/none.png"}}
    content = [{"type": "text", "text": TEXT}, image]
    body = {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 9}
    await gateway.post("/v1/chat/completions", json=body)


async def leaves_after_two(gateway: httpx.AsyncClient, model: str) -> None:
    """Hang up when two pieces of text are here."""
    body = {"model": model, "messages": [{"role": "user", "content": TEXT}], "stream": True}
    async with gateway.stream("POST", "/v1/chat/completions", json=body) as answer:
        pieces = 0
        async for line in answer.aiter_lines():
            pieces += '"content":"' in line and '"content":""' not in line
            if pieces == 2:
                return


async def counts(gateway: httpx.AsyncClient, model: str) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": TEXT}]}
    await gateway.post("/v1/messages/count_tokens", json=body)


async def embeds(gateway: httpx.AsyncClient, model: str) -> None:
    await gateway.post("/v1/embeddings", json={"model": model, "input": TEXT})


async def embeds_many(gateway: httpx.AsyncClient, model: str) -> None:
    """Eleven inputs of 400 tokens, for a vendor that takes ten at once."""
    body = {"model": model, "input": ["word " * 320] * 11}
    await gateway.post("/v1/embeddings", json=body)


def status(code: int) -> Behaviour:
    async def answers(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "no"}}, status=code)

    return answers


async def begins(request: Received, answer: Answer) -> None:
    await answer.begin_stream()
    await answer.gone.wait()


async def breaks(request: Received, answer: Answer) -> None:
    answer.reset()


async def babbles(request: Received, answer: Answer) -> None:
    await answer.json({"prompts": 7})


async def no_usage(request: Received, answer: Answer) -> None:
    await answer.json({**chat_body(), "usage": None})


async def usage_at_the_beginning(request: Received, answer: Answer) -> None:
    """As Anthropic sends it, before the answer whose tokens it cannot know yet."""
    await answer.begin_stream()
    usage = {"prompt_tokens": 900, "completion_tokens": 1, "total_tokens": 901}
    await answer.event({**chat_body(), "choices": [], "usage": usage})
    await two_words_more(answer)


async def two_words_more(answer: Answer) -> None:
    await answer.text("a")
    await answer.text("b")
    await answer.gone.wait()


async def long_without_usage(request: Received, answer: Answer) -> None:
    """An answer of 400 characters, and its end."""
    await answer.json({**chat_body("word " * 80), "usage": None})


async def long_chunks(request: Received, answer: Answer) -> None:
    await answer.begin_stream()
    await answer.text("word " * 80)
    await answer.text("word " * 80)
    await answer.gone.wait()


async def no_count(request: Received, answer: Answer) -> None:
    data = [{"object": "embedding", "index": 0, "embedding": [0.5]}]
    await answer.json({"object": "list", "data": data, "model": "e"})


async def fails_in_the_stream(request: Received, answer: Answer) -> None:
    await answer.begin_stream()
    await answer.event({"error": {"message": "boom", "type": "server_error"}})
    await answer.raw(b"0\r\n\r\n")


async def two_words(request: Received, answer: Answer) -> None:
    await answer.begin_stream()
    await two_words_more(answer)


async def one_batch(request: Received, answer: Answer) -> None:
    """Ten inputs are never answered; the eleventh is refused for what it is."""
    inputs = request.json["input"]
    assert isinstance(inputs, list)
    if len(inputs) == 10:  # pyright: ignore[reportUnknownArgumentType]
        await answer.gone.wait()
    await asyncio.sleep(0.2)
    await answer.json({"error": {"message": "no"}}, status=400)


async def works(request: Received, answer: Answer) -> None:
    await answer.chat()


PRICE = "{match: %s/*, input: 1000000, output: 1000000}"
"""A dollar per token."""

Sender = Callable[[httpx.AsyncClient, str], Awaitable[None]]
ENDS: dict[str, tuple[Behaviour, Sender, int]] = {
    "timeout-of-the-client": (silent, in_time, PROMPT),
    "timeout-of-the-operator": (silent, never, PROMPT),
    "no-first-token": (begins, streams, PROMPT),
    "hang-up": (silent, leaves, PROMPT),
    "hang-up-of-a-stream": (begins, leaves_a_stream, PROMPT),
    "hang-up-after-two-tokens": (two_words, leaves_after_two, PROMPT + 2),
    "connection-lost": (breaks, never, PROMPT),
    "malformed": (babbles, never, PROMPT),
    "failed-in-the-stream": (fails_in_the_stream, streams, PROMPT),
    "status-408": (status(408), never, PROMPT),
    "status-504": (status(504), never, PROMPT),
    "status-524": (status(524), never, PROMPT),
    "no-usage": (no_usage, never, PROMPT + 2),
    "long-without-usage": (long_without_usage, never, PROMPT + 101),
    "hang-up-after-a-first-usage": (usage_at_the_beginning, leaves_after_two, 900 + 1 + 2),
    "hang-up-after-long-chunks": (long_chunks, leaves_after_two, PROMPT + 200),
    "embedding-without-usage": (no_count, embeds, 1000),
    "embedding-timeout": (silent, embeds, 1000),
    "usage": (works, never, 10),
    "status-400": (status(400), never, 0),
    "status-401": (status(401), never, 0),
    "status-404": (status(404), never, 0),
    "status-429": (status(429), never, 0),
    "status-500": (status(500), never, 0),
    "status-503": (status(503), never, 0),
    "count": (status(500), counts, 0),
}
"""By backend: what it does, what the client does, and the tokens that this costs."""

ELSEWHERE: dict[str, tuple[str, Behaviour, Behaviour, int, int]] = {
    "fallback": ("", silent, works, 7, 10),
    "retry": ("", silent, silent, PROMPT, PROMPT),
    "hedge": ("hedge_after_s: 0.2", silent, works, 7, 10),
    "refused-first": ("", status(429), silent, 0, PROMPT),
}
"""The same with two backends: what they do, and what each costs."""

ALONE: dict[str, tuple[str, Behaviour, Sender, int]] = {
    "unreachable": ("unreachable", works, never, 0),
    "over-httpx": ("httpx", silent, never, PROMPT),
    "unreachable-over-httpx": ("httpx-unreachable", works, never, 0),
    "no-credentials": ("oauth", silent, never, 0),
    "no-image": ("images", silent, shows_an_image, 0),
    "eight-prompts-of-ten": ("prompts", silent, completes_ten, 3200),
    "one-batch-of-two": ("batches", one_batch, embeds_many, 4000),
}
"""The same with a provider of its own."""


HASTY = ("timeout-of-the-operator", "no-first-token", "embedding-timeout")
"""Cases of a provider with short timeouts."""

ARRIVED: dict[str, asyncio.Event] = {}
"""By model: a backend has got a request for it."""


def config(url: str) -> str:
    origin = url.removesuffix("/v1")
    names = ("p", "hasty", *dict.fromkeys(row[0] for row in ALONE.values()))
    providers = f"""
providers:
  - {{name: p, adapter: openai, base_url: {url}, api_key: k}}
  - {{name: hasty, adapter: openai, base_url: {url}, api_key: k, timeouts: &t {{connect_s: 20,
      first_token_s: 1, between_tokens_s: 5, total_s: 1}}}}
  - {{name: unreachable, adapter: openai, base_url: "http://127.0.0.1:1/v1",
      api_key: k, timeouts: *t}}
  - {{name: prompts, adapter: mindie, base_url: {origin}, api_key: k,
      timeouts: *t}}
  - {{name: batches, adapter: dashscope, base_url: {url}, api_key: k, timeouts: *t}}
  - {{name: httpx, adapter: openai, base_url: {url}, api_key: k, proxy: {origin}, timeouts: *t}}
  - {{name: httpx-unreachable, adapter: openai, base_url: {url}, api_key: k,
      proxy: "http://127.0.0.1:1", timeouts: *t}}
  - {{name: oauth, adapter: openai, base_url: {url}, timeouts: *t,
      oauth: {{client_id: c, client_secret: secret-of-c, token_url: "{url}/token"}}}}
  - {{name: images, adapter: ollama, base_url: {origin}, timeouts: *t}}
limits: [{{name: day, who: {{any: true}}, each: key, tokens: {10 * WHOLE}, per: day}}]
budgets:
  - {{name: tokens, who: {{any: true}}, each: key, tokens: {WHOLE}, per: total}}
  - {{name: money, who: {{any: true}}, usd: {MONEY}, per: total}}
prices: [{", ".join([PRICE % one for one in names])}]
models:
"""
    once = "retry: {attempts: 1}"
    models = [
        f"{{name: {one}, {once}, backends: "
        f"[{{provider: {'hasty' if one in HASTY else 'p'}, model: {one}}}]}}"
        for one in ENDS
    ]
    models += [
        f"{{name: {one}, {once}, backends: [{{provider: {row[0]}, model: {one}}}]}}"
        for one, row in ALONE.items()
    ]
    models += [
        f"{{name: {one}, policy: in_order, retry: {{attempts: 2}}, {row[0]}{', ' * bool(row[0])}"
        f"backends: [{{provider: hasty, model: {one}}}, {{provider: hasty, model: {one}-2}}]}}"
        for one, row in ELSEWHERE.items()
    ]
    keys = [f"{{name: {one}, key: key-{one:-<30}}}" for one in (*ENDS, *ELSEWHERE, *ALONE)]
    keys.append(f"{{name: auditor, key: key-{'auditor':-<30}}}")
    auth = f"auth: {{mode: keys, keys: [{', '.join(keys)}]}}\n"
    return providers + "".join(f"  - {one}\n" for one in models) + auth


def behaves() -> Behaviour:
    """Do what the backend's case says; where a dialect names no model, nothing."""
    known = {one: row[0] for one, row in ENDS.items()}
    known |= {one: row[1] for one, row in ALONE.items()}
    known |= {one: row[1] for one, row in ELSEWHERE.items()}
    known |= {f"{one}-2": row[2] for one, row in ELSEWHERE.items()}

    async def answers(request: Received, answer: Answer) -> None:
        if request.path.endswith("/token"):
            await answer.gone.wait()
            return
        model = str(request.json.get("model"))
        ARRIVED[model].set()
        await known.get(model, silent)(request, answer)

    return answers


def limited(gateway: Serving, case: str) -> int:
    """Tokens that count in the limit of the key."""
    account = gateway.state.side(LimitsSide).limits.known("day", case)
    if account is None or account.tokens is None:
        return 0
    account.tokens.note()
    return account.tokens.limit - account.tokens.room


async def left(gateway: Serving, key: str, more: int, unit: str) -> int:
    """Units that a budget of the key still has, by the refusal of a request that may use more."""
    headers = {"authorization": f"Bearer key-{key:-<30}"}
    body = {"model": "usage", "messages": [{"role": "user", "content": ""}], "max_tokens": more}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as client:
        answer = await client.post("/v1/chat/completions", json=body)
    found = re.search(rf"has (\d+) {unit} left", answer.text)
    assert found, answer.text
    return int(found[1])


async def test_every_end_costs_the_prompts_that_were_read_in_every_book(tmp_path: Path) -> None:
    kept = Kept()
    cases = {one: (row[1], row[2]) for one, row in ENDS.items()}
    cases |= {one: (never, row[3] + row[4]) for one, row in ELSEWHERE.items()}
    cases |= {one: (row[2], row[3]) for one, row in ALONE.items()}
    ARRIVED.update((one, asyncio.Event()) for one in (*cases, *(f"{one}-2" for one in ELSEWHERE)))
    ARRIVED["None"] = asyncio.Event()  # a dialect that names no model
    async with (
        provider(behaves()) as a,
        serving(config(a.base_url), tmp_path, recorder=kept) as gateway,
    ):

        async def run(case: str, send: Sender) -> None:
            headers = {"authorization": f"Bearer key-{case:-<30}"}
            async with httpx.AsyncClient(
                base_url=gateway.url, headers=headers, timeout=60
            ) as client:
                await send(client, case)

        async with asyncio.timeout(60):
            await asyncio.gather(*(run(one, send) for one, (send, _) in cases.items()))
        await until_idle(gateway)
        rows = kept.requests(gateway)
        owner = {row.request_id: row.key for row in rows}
        recorded = dict.fromkeys(cases, 0)
        for row in kept.attempts():
            tokens = (row.prompt_tokens or 0) + (row.completion_tokens or 0)
            recorded[owner[row.request_id]] += tokens
            assert row.cost_usd == (tokens if row.usage_source else None)
        in_limits = {one: limited(gateway, one) for one in cases}
        in_budgets = {one: WHOLE - await left(gateway, one, WHOLE, "tokens") for one in cases}
        in_money = MONEY - await left(gateway, "auditor", MONEY, "USD")

    expected = {one: tokens for one, (_, tokens) in cases.items()}
    timed = {one: (row[3], row[4]) for one, row in ELSEWHERE.items()}
    timed |= {one: (ENDS[one][2], 0) for one in (*HASTY, "timeout-of-the-client")}
    timed["over-httpx"] = PROMPT, 0
    for one, (first, second) in timed.items():  # on a busy machine the time may be over before
        expected[one] -= 0 if ARRIVED[one].is_set() else first
        expected[one] -= 0 if not second or ARRIVED[f"{one}-2"].is_set() else second
    assert recorded == expected
    assert in_limits == expected
    assert in_budgets == expected
    assert in_money == sum(expected.values())
    assert {row.key for row in rows} == set(cases)
