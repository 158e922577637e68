"""Whatever clients send, a vendor gets a request that it takes, or none."""

from collections.abc import Callable, Generator
from functools import partial

import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle import plugin
from tests.oracle.fuzz.atoms import Json
from tests.oracle.fuzz.chat import chats
from tests.oracle.fuzz.messages import messages
from tests.oracle.fuzz.ollama import ollama_chats
from tests.oracle.fuzz.responses import responses
from tests.oracle.fuzz.targets import MODELS, all_targets
from tests.oracle.oracle import ORACLE

Ask = Callable[[str, str, str, Json], httpx.Response]
"""See Targets.ask."""

OPEN = frozenset(
    {
        *plugin.OPEN,
        "anthropic-blank-text",
        "anthropic-calls-answered",
        "anthropic-first-role",
        "anthropic-no-prefill",
        "anthropic-unique-tools",
        "bedrock-calls-answered",
        "bedrock-input-schema",
        "bedrock-no-prefill",
        "bedrock-unique-tools",
        "chat-calls-answered",
        "chat-content",
        "chat-speakers",
        "chat-unique-functions",
        "cohere-calls-answered",
        "cohere-content",
        "gemini-call-turns",
        "gemini-parts",
        "gemini-result-count",
        "gemini-unique-functions",
        "mistral-content",
        "mistral-last-role",
        "mistral-results",
        "responses-calls-answered",
        "responses-item-ids",
        "responses-own-reasoning",
        "responses-reasoning-followed",
        "responses-unique-functions",
        "schema",
    }
)
"""Rules with faults that are known, of what only these requests show."""

BODIES = {
    "chat": chats(),
    "messages": messages(),
    "responses": responses(),
    "ollama": ollama_chats(),
}


@pytest.fixture(scope="module")
def targets(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: tuple[str, dict[str, object]]
) -> Generator[Ask]:
    """A gateway in a thread of its own, because a property is not a coroutine."""
    folder = tmp_path_factory.mktemp("targets")
    with (
        start_blocking_portal(*anyio_backend) as portal,
        portal.wrap_async_context_manager(all_targets(folder)) as running,
    ):
        yield partial(portal.call, running.ask)


@pytest.mark.parametrize("surface", BODIES)
@settings(max_examples=examples(5) * settings().max_examples)
@given(st.data())
def test_a_vendor_gets_a_request_that_it_takes(
    targets: Ask, surface: str, data: st.DataObject
) -> None:
    adapter, model = data.draw(st.sampled_from(MODELS))
    answer = targets(surface, adapter, model, data.draw(BODIES[surface]))

    assert answer.status_code < 500, answer.text
    assert [one for one in ORACLE.judge() if one.rule not in OPEN] == []
