"""Surfaces that few gateways serve are imported with their first request, beside the event loop."""

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from threading import Thread, get_ident

import httpx
import pytest

from strowger_gateway.gateway.platform.eventloop.turn import current_turn
from strowger_gateway.gateway.surfaces.late_module import LateModule
from strowger_gateway.gateway.surfaces.routes import HOT_ROUTES
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import answers, provider

pytestmark = pytest.mark.anyio

HELLO = {"role": "user", "content": "Hi"}
FIRST: Mapping[str, Mapping[str, object]] = {
    "/v1/messages": {"model": "chat", "max_tokens": 9, "messages": [HELLO]},
    "/v1/responses": {"model": "chat", "input": "Hi", "store": False},
    "/serving-endpoints/chat/completions": {"model": "chat", "messages": [HELLO]},
}
CHAT: Mapping[str, object] = {"model": "chat", "messages": [HELLO]}


@asynccontextmanager
async def gateway(run_dir: Path) -> AsyncGenerator[Serving, None]:
    async with provider(answers) as remote, serving(one_model(remote.base_url), run_dir) as running:
        yield running


@pytest.mark.parametrize("path", FIRST)
async def test_only_the_first_request_of_a_late_surface_leaves_the_event_loop(
    tmp_path: Path, path: str
) -> None:
    turn = current_turn()
    async with gateway(tmp_path) as running, httpx.AsyncClient(timeout=60) as client:
        for _ in range(2):  # the first opens the connection to the provider
            await client.post(f"{running.url}/v1/chat/completions", json=CHAT)
        counts = [turn.inline_finished]
        for _ in range(3):
            answer = await client.post(f"{running.url}{path}", json=FIRST[path])
            counts.append(turn.inline_finished)

            assert answer.status_code == 200, answer.text

    begun, first, second, third = counts
    assert (first - begun, second - first, third - second) == (0, 1, 1)


async def test_a_request_that_a_late_surface_rejects_is_no_different_when_it_is_the_first(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path) as running, httpx.AsyncClient(timeout=60) as client:
        url = f"{running.url}/v1/messages"
        first, second = [await client.post(url, content=b'{"model": 7}') for _ in range(2)]

    assert first.status_code == second.status_code == 400
    assert first.json()["error"] == second.json()["error"]


def test_every_surface_but_openais_is_late() -> None:
    late = {route.surface.name for route in HOT_ROUTES if route.surface.late}

    assert late == {route.surface.name for route in HOT_ROUTES} - {"openai"}


def test_a_late_module_is_imported_by_the_thread_that_reads_of_it_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "strowger_late.py").write_text(
        "from threading import get_ident\nREADERS = []\nIMPORTER = get_ident()\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    module, seen = LateModule("strowger_late"), list[tuple[object, int]]()

    assert "strowger_late" not in sys.modules
    try:
        thread = Thread(target=lambda: seen.append((module.IMPORTER, get_ident())))
        thread.start()
        thread.join()

        assert seen[0][0] == seen[0][1] != get_ident()
        assert module.READERS is import_module("strowger_late").READERS
        with pytest.raises(AttributeError, match="nothing"):
            _ = module.nothing
    finally:
        sys.modules.pop("strowger_late", None)
