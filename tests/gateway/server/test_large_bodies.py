"""Large and compressed bodies: bounded, processed in threads, never at other clients' expense."""

import asyncio
import gzip
import json
import threading
import time
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.config.schema.config import ServerConfig
from strowger_gateway.gateway.server.asgi.body_complexity import measure
from strowger_gateway.gateway.server.asgi.large_bodies import SMALL, LargeBodyQueue
from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.openai.surface import COMPLETIONS, EMBEDDINGS
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.holdings import ANONYMOUS, Holder
from strowger_gateway.schemas.measured_json import BODY, Complexity
from tests.gateway.by_hand import connect, head
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Provider, answers, provider

pytestmark = pytest.mark.anyio

CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
KEYS = "auth: {mode: keys, keys: [{name: a, key: the-key-of-a}, {name: b, key: the-key-of-b}]}\n"
A, B = {"authorization": "Bearer the-key-of-a"}, {"authorization": "Bearer the-key-of-b"}
Gateway = tuple[Serving, Provider]


@asynccontextmanager
async def gateway(run_dir: Path, more: str = "") -> AsyncGenerator[Gateway, None]:
    async with provider(answers) as remote:
        async with serving(one_model(remote.base_url, more), run_dir) as running:
            yield running, remote


def many(count: int, one: str) -> str:
    return ",".join([one] * count)


TOO_MUCH = {
    "unknown fields": '{{"model": "chat", "messages": [], {}}}'.format(many(900_000, '"f": 0')),
    "messages": '{{"model": "chat", "messages": [{}]}}'.format(many(600_000, '{"role": "user"}')),
    "biases": '{{"model": "chat", "messages": [], "logit_bias": {{{}}}}}'.format(
        many(900_000, '"1": 1')
    ),
    "lists": '{{"model": "chat", "messages": [{}]}}'.format(many(900_000, "[]")),
    "strings": '{{"model": "chat", "messages": [], "stop": [{}]}}'.format(many(900_000, '"s"')),
    "numbers": '{{"model": "chat", "messages": [], "stop_token_ids": [{}]}}'.format(
        many(2_000_000, "7")
    ),
    "wide text": '{{"model": "chat", "messages": [], "user": "{}"}}'.format("漢" * 2_500_000),
    "escapes": '{{"model": "chat", "messages": [], "user": "{}"}}'.format("\\n" * 1_600_000),
}


@pytest.mark.parametrize("what", TOO_MUCH)
async def test_a_body_with_too_many_values_is_refused_before_it_is_parsed(
    tmp_path: Path, what: str
) -> None:
    body = TOO_MUCH[what].encode()

    async with gateway(tmp_path) as (running, _), httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(f"{running.url}/v1/chat/completions", content=body)

        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "body_too_complex"
        assert "split " in answer.json()["error"]["message"]
        assert running.state.admission.in_flight == running.state.shares.buffered == 0


async def test_a_long_prompt_is_answered_with_any_content(tmp_path: Path) -> None:
    text = '{"a": [1, 2, {"b": "\\\\"}]}, ' * 60_000
    async with gateway(tmp_path) as (running, remote), httpx.AsyncClient(timeout=60) as client:
        body = {**CHAT, "messages": [{"role": "user", "content": text}]}

        answer = await client.post(f"{running.url}/v1/chat/completions", json=body)

        assert answer.status_code == 200
        assert remote.requests[-1].json["messages"] == body["messages"]
        assert running.state.shares.buffered == 0


@pytest.mark.parametrize(
    "text",
    ["a" * 12_000_000, "漢" * 1_800_000, "A slash in base64: \\/" * 400_000],
    ids=["ASCII", "beyond ASCII", "escaped slashes"],
)
def test_one_long_text_is_allowed(text: str) -> None:
    body = f'["{text}", "é"]'.encode()

    assert measure(body, len(body)) == Complexity(values=2, containers=1, strings=2)


def test_texts_that_are_long_together_are_allowed() -> None:
    body = json.dumps(["é" * 2_000_000] * 4, ensure_ascii=False).encode()

    assert measure(body, len(body)) == Complexity(values=4, containers=1, strings=4)


async def test_what_is_unknown_at_the_top_is_bounded_too(tmp_path: Path) -> None:
    body = {**CHAT, **{f"field_{n}": 0 for n in range(2_000)}}
    async with gateway(tmp_path) as (running, _), httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(f"{running.url}/v1/chat/completions", json=body)

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_request"
    assert "the maximum is 1000" in answer.json()["error"]["message"]


def test_weighing_counts_what_is_outside_of_strings() -> None:
    body = json.dumps(
        {"a": [1, 2, "x,y:z{}[]"], 'q"\\': {"b": '\\",,,\\\\'}, "c": ["", [], "\\"]}
    ).encode()
    expected = Complexity(values=7, fields=4, containers=5, strings=8)

    assert measure(body, len(body)) == expected


def test_pieces_never_change_a_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps([{"a\\": '\\"', "\\\\": ["\\\\\\", '"', ",:"]}] * 3).encode()
    whole = measure(body, len(body))

    for size in range(1, len(body)):
        monkeypatch.setattr("strowger_gateway.schemas.measured_json.PIECE", size)
        assert measure(body, len(body)) == whole


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("{{{}}}".format(many(BODY.fields + 1, '"a":1')), "fields"),
        ("[{}]".format(many(BODY.containers + 1, "{}")), "objects and lists"),
        ("[{}]".format(many(BODY.strings + 1, '""')), "strings"),
        ("[{}]".format(many(BODY.values + 1, "1")), "values"),
    ],
)
def test_each_bound_is_named(body: str, what: str) -> None:
    with pytest.raises(InvalidRequest, match=f"more than [0-9]+ {what}; split it"):
        measure(body.encode(), len(body))


def test_long_lists_of_numbers_are_read_as_short_ones_are() -> None:
    ids = list(range(60_000))
    for prompt in (ids, [ids, [1], ids]):
        body = json.dumps({"model": "m", "prompt": prompt}, indent=1).encode()
        request = COMPLETIONS.parse(Inbound(body=body, max_choices=9))

        wanted = prompt if isinstance(prompt[0], list) else [prompt]
        assert [list(one) for one in request.prompts] == wanted  # pyright: ignore


@pytest.mark.parametrize("wrong", ["-1", "1.5", "[1]", '"a"', "null", "{}", "[[1]]", "[-1]"])
def test_what_is_wrong_in_a_long_list_is_named(wrong: str) -> None:
    body = '{{"model": "m", "input": [{}, {}]}}'.format(many(150_000, "12"), wrong)

    with pytest.raises(InvalidRequest) as caught:
        EMBEDDINGS.parse(Inbound(body=body.encode(), max_choices=1))

    assert (caught.value.param or "").startswith("input")


def compressed(encoding: str, body: bytes) -> bytes:
    return gzip.compress(body) if encoding == "gzip" else zlib.compress(body)


INFER = b'{"inputs": [], "parameters": {}, "id": "%b"}'


SURFACES = {
    "/v1/chat/completions": {"model": "chat", "messages": [{"role": "user", "content": "hi"}]},
    "/v1/completions": {"model": "chat", "prompt": "hi"},
    "/serving-endpoints/chat/invocations": {"messages": [{"role": "user", "content": "hi"}]},
    "/v2/models/chat/generate": {"text_input": "hi", "max_tokens": 3},
}


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("path", SURFACES)
async def test_a_compressed_body_is_read_on_every_surface(
    path: str, encoding: str, tmp_path: Path
) -> None:
    body = json.dumps(SURFACES[path]).encode()
    async with (
        gateway(tmp_path) as (running, _),
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):

        async def sent(content: bytes, coding: str) -> httpx.Response:
            headers = {"content-encoding": coding, "content-type": "application/json"}
            return await client.post(path, content=content, headers=headers)

        whole = await sent(compressed(encoding, body), encoding)
        plain = await sent(body, "identity")
        cut = await sent(compressed(encoding, body)[:-5], encoding)
        other = await sent(body, "br")

        assert [one.status_code for one in (whole, plain, cut, other)] == [200, 200, 400, 415]
        assert "is truncated" in cut.text
        expected = "content-encoding: got 'br', this route accepts gzip or deflate, or none"
        assert expected in other.text
        assert other.headers["accept-encoding"] == "gzip, deflate"
        assert running.state.shares.buffered == 0


async def test_a_body_as_large_as_anthropic_accepts_passes_by_default(tmp_path: Path) -> None:
    """A session with 32 MB of screenshots keeps them in each turn."""
    server = ServerConfig()
    image = {"url": "data:image/png;base64," + "A" * 4_000_000}
    parts = [{"type": "image_url", "image_url": image}] * 8
    body = {"model": "chat", "messages": [{"role": "user", "content": parts}]}
    async with gateway(tmp_path) as (running, remote), httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(f"{running.url}/v1/chat/completions", json=body)

    assert answer.status_code == 200
    assert len(remote.requests[0].body) > 32_000_000
    assert server.max_body_bytes <= server.max_buffered_bytes * server.max_share_per_key


@pytest.mark.parametrize(
    ("encoding", "path"),
    [
        ("gzip", "/v2/models/chat/infer"),
        ("deflate", "/v2/models/chat/generate"),
        ("gzip", "/v1/chat/completions"),
    ],
)
async def test_a_bomb_is_refused_by_the_limit_of_all_bodies(
    tmp_path: Path, encoding: str, path: str
) -> None:
    bomb = compressed(encoding, INFER % bytes(21_000_000))
    most = 0

    config = "server: {max_body_bytes: 20000000}"
    async with gateway(tmp_path, config) as (running, _), httpx.AsyncClient(timeout=60) as client:

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, running.state.shares.buffered)
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        url = f"{running.url}{path}"
        asked = [
            client.post(url, content=bomb, headers={"content-encoding": encoding}) for _ in range(3)
        ]
        found = await asyncio.gather(*asked)
        watching.cancel()

        assert [one.status_code for one in found] == [413] * 3
        assert "20000000" in found[0].text
        assert 1_000_000 < most < 21_000_000
        assert running.state.admission.in_flight == running.state.shares.buffered == 0


async def test_what_a_body_unfolds_to_is_claimed(tmp_path: Path) -> None:
    config = "server: {max_body_bytes: 2000000, max_buffered_bytes: 2000000}"
    async with gateway(tmp_path, config) as (running, _), httpx.AsyncClient(timeout=60) as client:
        running.state.shares.buffered = 1_000_000
        answer = await client.post(
            f"{running.url}/v2/models/chat/infer",
            content=gzip.compress(INFER % bytes(1_500_000)),
            headers={"content-encoding": "gzip"},
        )

        assert answer.status_code == 503
        assert running.state.shares.buffered == 1_000_000


async def test_one_key_never_takes_all_places(tmp_path: Path) -> None:
    config = f"{KEYS}server: {{max_in_flight: 20}}"
    async with gateway(tmp_path, config) as (running, _), httpx.AsyncClient(timeout=60) as client:
        slow = [await connect(running.url) for _ in range(30)]
        for one in slow:
            more = f"content-length: 20000\r\nauthorization: {A['authorization']}\r\n"
            await one.say(head(more) + b'{"mo', pause=0)
        refused = await slow[-1].receives_all()
        url = f"{running.url}/v1/chat/completions"
        same = await client.post(url, json=CHAT, headers=A)
        other = await client.post(url, json=CHAT, headers=B)

        assert refused[0] == same.status_code == 429
        assert "server.max_share_per_key" in same.json()["error"]["message"]
        assert same.headers["retry-after"] == "1"
        assert other.status_code == 200
        for one in slow:
            one.writer.close()


async def test_one_key_never_takes_all_memory(tmp_path: Path) -> None:
    config = f"{KEYS}server: {{max_body_bytes: 100000, max_buffered_bytes: 200000}}"
    async with gateway(tmp_path, config) as (running, _), httpx.AsyncClient(timeout=60) as client:
        slow = [await connect(running.url) for _ in range(2)]
        for one in slow:
            more = f"content-length: 90000\r\nauthorization: {A['authorization']}\r\n"
            await one.say(head(more) + b"[" * 60_000)
        refused = await slow[-1].receives()
        url = f"{running.url}/v1/chat/completions"
        long = {**CHAT, "user": "u" * 60_000}
        other = await client.post(url, json=long, headers=B)

        assert refused[0] == 429
        assert b"server.max_buffered_bytes" in refused[1]
        assert other.status_code == 200
        for one in slow:
            one.writer.close()


async def test_a_single_key_may_take_everything(tmp_path: Path) -> None:
    config = "auth: {mode: keys, keys: [{name: a, key: the-key-of-a}]}\nserver: {max_in_flight: 2}"
    async with gateway(tmp_path, config) as (running, _), httpx.AsyncClient(timeout=60) as client:
        slow = await connect(running.url)
        more = f"content-length: 20000\r\nauthorization: {A['authorization']}\r\n"
        await slow.say(head(more) + b'{"mo')
        answer = await client.post(f"{running.url}/v1/chat/completions", json=CHAT, headers=A)

        assert answer.status_code == 200
        slow.writer.close()


async def test_the_bodies_of_keys_take_turns_and_small_ones_wait_for_no_large_one() -> None:
    queue = LargeBodyQueue()
    order: list[str] = []
    go_on = threading.Event()

    async def one(key: str, name: str, size: int) -> None:
        def work() -> None:
            order.append(name)
            go_on.wait(30)

        await queue.run(work, Holder(key), size)

    waiting = [asyncio.create_task(one("a", f"a{n}", SMALL + 1)) for n in range(3)]
    await asyncio.sleep(0)
    waiting.append(asyncio.create_task(one("b", "b0", SMALL + 1)))
    waiting.append(asyncio.create_task(one("c", "small", SMALL)))
    async with asyncio.timeout(30):
        while len(order) < 2:  # noqa: ASYNC110  no event to wait for
            await asyncio.sleep(0.005)
    go_on.set()
    await asyncio.gather(*waiting)

    assert set(order[:2]) == {"a0", "small"}
    assert order[2:] in (["b0", "a1", "a2"], ["a1", "b0", "a2"])


async def test_a_turn_is_over_when_the_thread_is_and_not_before() -> None:
    queue = LargeBodyQueue()
    ended: list[bool] = []

    def work() -> None:
        time.sleep(0.1)
        ended.append(True)

    first = asyncio.create_task(queue.run(work, ANONYMOUS, SMALL + 1))
    await asyncio.sleep(0.02)
    first.cancel()
    assert await queue.run(ended.copy, ANONYMOUS, SMALL + 1) == [True]
    assert first.cancelled()


async def test_a_client_that_disconnects_after_a_large_body_frees_its_memory(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path) as (running, remote):
        client = await connect(running.url)
        body = json.dumps({**CHAT, "user": "u" * 300_000}).encode()
        go_on = threading.Event()
        before = asyncio.create_task(
            running.state.shares.bodies.run(lambda: go_on.wait(30), ANONYMOUS, len(body))
        )
        await asyncio.sleep(0)
        await client.say(head(f"content-length: {len(body)}\r\n") + body)
        client.writer.close()
        async with asyncio.timeout(30):
            while running.state.admission.in_flight:  # noqa: ASYNC110  no event to wait for
                await asyncio.sleep(0.005)
        go_on.set()
        await before

        assert not remote.requests
        assert running.state.shares.buffered == 0
        assert running.access_lines()[-1].status == 499
