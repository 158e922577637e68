"""Whatever a client sends as a prompt, it gets an answer or an error that names the field."""

import asyncio
from pathlib import Path

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.gateway.content.prompts.prompted import prompted_gateway

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
NAME = st.sampled_from(["support", "summary", "suport", ""]) | JSON
VERSION = st.sampled_from(["1", "2", "a", 1, None]) | JSON
FIELD = st.sampled_from(["customer", "company", "text", "other"]) | TEXT
VALUES = st.dictionaries(FIELD, TEXT | JSON, max_size=4) | JSON
OBJECT = st.fixed_dictionaries({}, optional={"id": NAME, "version": VERSION, "variables": VALUES})
REFERENCE = st.fixed_dictionaries(
    {},
    optional={
        "prompt_id": NAME,
        "prompt_version": VERSION,
        "prompt_variables": VALUES,
        "prompt": OBJECT | JSON,
    },
)
HI = [{"role": "user", "content": "hi"}]
ASKING: dict[str, dict[str, object]] = {
    "/v1/chat/completions": {"messages": HI},
    "/v1/messages": {"messages": HI, "max_tokens": 5},
    "/v1/responses": {"input": "hi"},
}


def test_any_reference_is_answered_or_refused_with_its_field(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            prompted_gateway(tmp_path) as (gateway, _),
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        ):
            loop = asyncio.get_running_loop()

            async def ask(path: str, body: dict[str, object]) -> httpx.Response:
                return await client.post(path, json=body)

            @settings(max_examples=examples(60), deadline=None)
            @given(REFERENCE, st.sampled_from(sorted(ASKING)))
            def each(reference: dict[str, object], path: str) -> None:
                body = {"model": "chat", **ASKING[path], **reference}
                answer = asyncio.run_coroutine_threadsafe(ask(path, body), loop).result(60)

                assert answer.status_code in (200, 400, 404), answer.text
                if answer.status_code != 200:
                    assert "prompt" in answer.json()["error"]["message"]

            await asyncio.to_thread(each)

    asyncio.run(main())
