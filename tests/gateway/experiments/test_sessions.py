"""`assign_by: session`: every request of a conversation gets the variant of its first one."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack

import httpx
import pytest

from strowger_gateway.gateway.routing.planning.enrolment import ExperimentStatus
from tests.gateway.experiments.recorded_gateway import ADMIN, behave, config, stand
from tests.gateway.serving import serving
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

HELLO = [{"role": "user", "content": "hi"}]
IDS = [f"0198c0de-{number:04}" for number in range(12)]
Json = Mapping[str, object]
Ask = tuple[str, Json, Mapping[str, str]]


def chat(fields: Json, headers: Mapping[str, str]) -> Ask:
    return "/v1/chat/completions", {"messages": HELLO, **fields}, headers


def claude(user: str) -> Ask:
    fields = {"messages": HELLO, "max_tokens": 8, "metadata": {"user_id": user}}
    return "/v1/messages", fields, {}


def requests_of(session: str) -> dict[str, Ask]:
    """The ways in which clients name their session."""
    return {
        "any client": chat({}, {"x-session-id": session}),
        "codex": ("/v1/responses", {"input": "hi"}, {"session_id": session}),
        "codex, by its cache key": (
            "/v1/responses",
            {"input": "hi", "prompt_cache_key": session},
            {},
        ),
        "opencode": chat({"prompt_cache_key": session}, {"x-session-affinity": session}),
        "qwen-code": chat({"metadata": {"sessionId": session, "promptId": "7"}}, {}),
        "Claude's tools, header": (
            "/v1/messages",
            {"messages": HELLO, "max_tokens": 8},
            {"x-claude-code-session-id": session},
        ),
        "Claude's tools, user": claude(f"user_4f_account__session_{session}"),
        "Claude's tools, object": claude(f'{{"device_id":"d","session_id":"{session}"}}'),
    }


@pytest.fixture(scope="module")
async def client(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncGenerator[httpx.AsyncClient, None]:
    async with AsyncExitStack() as stack:
        far = await stack.enter_async_context(provider(behave))
        text = config(far.base_url, other=ADMIN).replace("header:x-session-id", "session")
        gateway = await stack.enter_async_context(serving(text, tmp_path_factory.mktemp("run")))
        stand(gateway, ExperimentStatus(epoch=1))
        yield await stack.enter_async_context(httpx.AsyncClient(base_url=gateway.url, timeout=60))


async def variant(client: httpx.AsyncClient, ask: Ask) -> str:
    path, fields, headers = ask
    answer = await client.post(path, json={"model": "chat", **fields}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.headers.get("x-gateway-variant", "")


async def test_every_way_to_name_a_session_gets_the_same_variant(client: httpx.AsyncClient) -> None:
    seen: dict[str, set[str]] = {}
    for session in IDS:
        for _ in range(2):
            for ask in requests_of(session).values():
                seen.setdefault(session, set()).add(await variant(client, ask))

    assert all(len(one) == 1 for one in seen.values()), seen
    assert set[str]().union(*seen.values()) == {"control", "treatment"}


@pytest.mark.parametrize(
    "ask",
    [
        chat({}, {}),
        chat({"user": "ada"}, {}),
        chat({"prompt_cache_key": 7}, {}),
        chat({"metadata": {"session_id": ""}}, {}),
        claude("user_4f"),
        claude('{"session_id": 7}'),
        claude("{" * 4000),
    ],
    ids=["nothing", "user", "number", "empty", "no session", "wrong type", "no JSON"],
)
async def test_a_request_without_a_session_does_not_take_part(
    client: httpx.AsyncClient, ask: Ask
) -> None:
    assert await variant(client, ask) == ""
