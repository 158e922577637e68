"""A vendor's library blocks no other request, and its calls always end in time."""

import asyncio
import threading
from pathlib import Path

import pytest
import requests
import trustme

from strowger_gateway.gateway.backends.upstream.credentials.blocking_calls import BlockingCalls
from strowger_gateway.gateway.backends.upstream.credentials.library_http import (
    ALL_CALLS_S,
    LibraryCalls,
)
from strowger_gateway.gateway.config.schema.config import Tls
from strowger_gateway.schemas.errors import UpstreamRefused, UpstreamUnreachable
from tests.gateway.backends.upstream.wire.test_certificates import server_context
from tests.stand_ins.doubles import answering, raw_server, sized

pytestmark = pytest.mark.anyio


async def test_a_call_that_hangs_blocks_neither_the_loop_nor_the_next() -> None:
    aside, go_on, before = BlockingCalls(0.05), threading.Event(), threading.active_count()

    for _ in range(2):
        with pytest.raises(TimeoutError):
            await aside.run(go_on.wait)
    go_on.set()
    outcome = await aside.run(lambda: "done")

    assert outcome == "done"
    assert threading.active_count() <= before + 1
    aside.close()


async def test_no_call_begins_when_the_time_of_all_is_over() -> None:
    time = [0.0]
    calls = LibraryCalls(Tls(), proxy=None, connect_s=1, clock=lambda: time[0])
    async with raw_server(answering(sized(b"hello"))) as server:
        with calls.session() as session:
            first = await asyncio.to_thread(session.get, server.base_url)
            time[0] = ALL_CALLS_S
            with pytest.raises(requests.Timeout):
                await asyncio.to_thread(session.get, server.base_url)

    assert first.content == b"hello"
    assert len(server.requests) == 1
    error = calls.error(ValueError("whatever"), upstream="up")
    assert isinstance(error, UpstreamUnreachable)
    assert error.message == "up: no access token: the service timed out"


async def test_a_call_is_cut_off_when_the_rest_of_the_time_is_over() -> None:
    time = [0.0]
    calls = LibraryCalls(Tls(), proxy=None, connect_s=1, clock=lambda: time[0])
    time[0] = ALL_CALLS_S - 0.05
    async with raw_server(lambda peer: peer.stay()) as server:
        with calls.session() as session, pytest.raises(requests.ReadTimeout):
            await asyncio.to_thread(session.get, server.base_url, timeout=120)


async def test_the_environment_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    calls = LibraryCalls(Tls(), proxy="http://127.0.0.1:1", connect_s=1)
    async with raw_server(answering(sized(b"hello"))) as server:
        with calls.session() as session:
            reply = await asyncio.to_thread(session.get, server.base_url)

    assert reply.content == b"hello"


@pytest.mark.parametrize("trusted", [True, False])
async def test_the_providers_certificates_hold_and_no_others(tmp_path: Path, trusted: bool) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = Tls(ca_file=str(tmp_path / "ca.pem")) if trusted else Tls()
    calls = LibraryCalls(tls, proxy=None, connect_s=1)
    context = server_context(authority, "localhost")
    async with raw_server(answering(sized(b"hello")), tls=context, host="localhost") as server:
        with calls.session() as session:
            reached = await asyncio.to_thread(reaches, session, server.base_url)

    assert reached == trusted
    reported = calls.error(ValueError("the library says no"), upstream="up")
    assert isinstance(reported, UpstreamRefused if trusted else UpstreamUnreachable)
    assert ("certificate" in reported.message) != trusted


def reaches(session: requests.Session, url: str) -> bool:
    try:
        return session.get(url, verify=False).ok
    except requests.exceptions.SSLError:
        return False
