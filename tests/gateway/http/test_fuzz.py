"""Thousands of hostile requests to every route: no unhandled error, no hang, the right envelope.

STROWGER_FUZZ_REQUESTS: how many the nightly run sends; STROWGER_FUZZ_SEED: of another run.
"""

import asyncio
import contextlib
import json
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import cast
from urllib.parse import unquote

import pytest
from litestar import Litestar

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.governance.access import wrong_keys as guesses
from strowger_gateway.gateway.http.app import build_app
from strowger_gateway.gateway.surfaces.routes import HOT_ROUTES
from tests.gateway.http.fuzzing import Fuzz, Sent
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = pytest.mark.anyio

SEED = int(os.environ.get("STROWGER_FUZZ_SEED", "14"))
NIGHTLY = int(os.environ.get("STROWGER_FUZZ_REQUESTS", "100000"))
CLIENTS = 8
CONFIG = "auth: {admin_key: the-operators-key}"
UNSERVED = (501, 503, 504)
"""What a request may get that is right and that this gateway has no store or no backend for."""

Told = tuple[int, str, bytes]


def routes(gateway: Gateway) -> list[tuple[str, str]]:
    """Methods and paths of all routes."""
    app: object = build_app(gateway).complete()
    while not isinstance(app, Litestar):
        app = vars(app)["_inner"]
    found = [(how, route.path) for route in app.routes for how in getattr(route, "methods", ())]
    posts = [("POST", route.path) for route in HOT_ROUTES]
    return sorted({one for one in found if one[0] in ("GET", "POST")}) + posts * 4


class Connection:
    """A connection that is made again when the gateway closes it."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._place = host, int(port)
        self._pair: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, sent: Sent) -> Told:
        """The status, content type and body of the answer."""
        if self._pair is None:
            self._pair = await asyncio.open_connection(*self._place, limit=1 << 20)
        reader, writer = self._pair
        writer.write(sent.data)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
        status = int(head[9:12])
        body = b""
        if sent.method != "HEAD" and status not in (204, 304):
            if "content-length" in fields:
                body = await reader.readexactly(int(fields["content-length"]))
            elif "chunked" in fields.get("transfer-encoding", ""):
                body = await reader.readuntil(b"0\r\n\r\n")
        if fields.get("connection") == "close":
            self.close()
        return status, fields.get("content-type", ""), body

    def close(self) -> None:
        if self._pair is not None:
            self._pair[1].close()
            self._pair = None


def reported(status: int, kind: str, sent: Sent) -> bool:
    """Whether there is an error to read."""
    return status >= 400 and "json" in kind and sent.method != "HEAD"


GOOGLES = {"code", "message", "status", "details"}


def envelope_is_wrong(path: str, body: bytes) -> bool:
    """Whether an error is not in the words of the path's surface."""
    path = re.sub("/+", "/", unquote(path.partition("?")[0]))
    try:
        reported = json.loads(body)
    except ValueError:
        return True
    if path.endswith(":streamGenerateContent") and isinstance(reported, list):
        (reported,) = cast("list[object]", reported)  # without `alt=sse` a stream is a list
    if not isinstance(reported, dict):
        return True
    if path.startswith("/v1beta"):
        google = cast("dict[str, object]", reported).get("error")
        return not isinstance(google, dict) or google.keys() != GOOGLES
    if path.startswith("/infer_token"):
        return "error_type" not in reported
    if path.startswith(("/serving-endpoints", "/api/2.0/")):
        return "error_code" not in reported
    error = cast("dict[str, object]", reported).get("error")
    if path.endswith("/rerank") and error is None:  # to Voyage's clients
        return not isinstance(cast("dict[str, object]", reported).get("detail"), str)
    if path.startswith("/v2") and not path.startswith("/v2/rerank"):
        return not isinstance(error, str)
    return not isinstance(error, dict | str)


async def behave(request: Received, answer: Answer) -> None:
    with contextlib.suppress(ConnectionError):
        if request.path.endswith("/rerank"):
            count = len(cast("list[str]", request.json["documents"]))
            ranked = [{"index": place, "relevance_score": 0.5} for place in range(count)]
            await answer.json({"results": ranked})
            return
        if request.path.endswith("/moderations"):
            given = request.json["input"]
            count = len(cast("list[str]", given)) if isinstance(given, list) else 1
            await answer.json({"results": [{"categories": {"hate": False}}] * count})
            return
        await answers(request, answer)


async def fuzzed(
    run_dir: Path,
    count: int,
    caplog: pytest.LogCaptureFixture,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[list[str], dict[int, int]]:
    """What was wrong, and how many answers had each status."""
    monkeypatch.setattr(guesses, "LONGEST_S", 0.001)
    wrong: list[str] = []
    statuses: dict[int, int] = {}
    async with (
        provider(behave) as remote,
        serving(one_model(remote.base_url, CONFIG), run_dir) as it,
    ):
        fuzz = Fuzz(seed, routes(it.state))
        left = iter(range(count))

        async def client() -> None:
            connection = Connection(it.url)
            for number in left:
                sent = fuzz.next()
                where = f"request {number} of seed {seed}: {sent.data[:400]!r}"
                try:
                    status, kind, body = await asyncio.wait_for(connection.ask(sent), 60)
                except (TimeoutError, EOFError, ConnectionError) as exc:
                    wrong.append(f"{type(exc).__name__} for {where}")
                    connection.close()
                    continue
                statuses[status] = statuses.get(status, 0) + 1
                if status >= 500 and status not in UNSERVED:
                    wrong.append(f"{status} {body[:300]!r} for {where}")
                elif reported(status, kind, sent) and envelope_is_wrong(sent.path, body):
                    wrong.append(f"{status} in other words, {body[:300]!r}, for {where}")
            connection.close()

        with caplog.at_level(logging.WARNING):
            await asyncio.gather(*[client() for _ in range(CLIENTS)])
        wrong += [one.getMessage() for one in caplog.records if one.exc_info]
        at = asyncio.get_running_loop().time()
        backends = it.state.runtime.backends.items()
        wrong += [f"{name} is open" for name, one in backends if not one.breaker.is_available(at)]
        for _ in range(100):
            if not it.state.admission.in_flight:
                break
            await asyncio.sleep(0.02)
        if it.state.admission.in_flight or it.state.shares.buffered:
            wrong.append(
                f"left: {it.state.admission.in_flight} requests, {it.state.shares.buffered} bytes"
            )
    return wrong, statuses


@pytest.mark.vendor_refuses("schema", because="tools of unknown types are sent as they are")
async def test_hostile_requests_are_answered_without_side_effects(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong, statuses = await fuzzed(tmp_path, 2_500, caplog, SEED, monkeypatch)

    assert not wrong, "\n".join(wrong[:20])
    assert sum(statuses.values()) == 2_500
    assert statuses[200] > 50


@pytest.mark.nightly
@pytest.mark.vendor_refuses("schema", because="tools of unknown types are sent as they are")
async def test_many_hostile_requests_are_answered_without_side_effects(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong, statuses = await fuzzed(tmp_path, NIGHTLY, caplog, SEED + 1, monkeypatch)

    assert not wrong, "\n".join(wrong[:20])
    assert sum(statuses.values()) == NIGHTLY


def test_a_seed_makes_the_same_requests_again() -> None:
    posts = [("POST", route.path) for route in HOT_ROUTES]
    make: Callable[[], list[bytes]] = lambda: [  # noqa: E731
        one.data for fuzz in (Fuzz(1, posts),) for one in (fuzz.next() for _ in range(50))
    ]

    assert make() == make()
