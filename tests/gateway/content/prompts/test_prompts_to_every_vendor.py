"""The rendered prompt reaches each vendor in its own dialect, from each API that names one."""

import json
from collections.abc import AsyncGenerator

import httpx
import pytest

from tests.gateway.backends.vendors.backend import Setting, answering, every_vendor
from tests.gateway.backends.vendors.dialect import Said
from tests.gateway.backends.vendors.rows import VENDORS, Vendor
from tests.gateway.content.prompts.prompted import written

pytestmark = pytest.mark.anyio

HI = [{"role": "user", "content": "hi there"}]
VALUES = {"customer": "Ada", "company": "Acme"}
FIELDS = {"prompt_id": "support", "prompt_version": "2", "prompt_variables": VALUES}
ASKING = {
    "/v1/chat/completions": {"messages": HI, **FIELDS},
    "/v1/messages": {"messages": HI, "max_tokens": 50, "system": "In German.", **FIELDS},
    "/v1/responses": {
        "input": "hi there",
        "instructions": "In German.",
        "prompt": {"id": "support", "version": "2", "variables": VALUES},
    },
}
READERS = [one for one in VENDORS if not one.name.startswith("triton")]
"""Of texts: Triton's models get token ids, or a text in the template of their model."""

RENDERED = ("You help Ada of Acme.", "My name is Ada.", "Hello!", "hi there")


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting]:
    folder = tmp_path_factory.mktemp("run")
    async with every_vendor(folder, failing=False, more=written(folder)) as found:
        yield found


@pytest.mark.parametrize("path", ASKING)
@pytest.mark.parametrize("vendor", READERS, ids=[one.name for one in READERS])
async def test_the_vendor_gets_the_texts_in_order_and_nothing_of_the_reference(
    setting: Setting, vendor: Vendor, path: str
) -> None:
    setting.plays(answering(vendor, Said(text=("hello",))))

    async with httpx.AsyncClient(base_url=setting.gateway.url, timeout=60) as client:
        answer = await client.post(path, json={"model": vendor.name, **ASKING[path]})

    assert answer.status_code == 200, answer.text
    body = setting.server.requests[-1].body.decode()
    places = [body.find(one) for one in RENDERED]
    assert -1 not in places
    assert places[1:] == sorted(places[1:])
    assert "prompt_id" not in body
    assert "variables" not in body
    if path != "/v1/chat/completions":
        assert body.count("In German.") == 1


OPENAI = next(one for one in READERS if one.name == "openai-responses")


@pytest.mark.parametrize("instructions", ["", "In German."])
async def test_a_prompts_turns_come_after_the_system_items_and_leave_the_others_as_they_are(
    setting: Setting, instructions: str
) -> None:
    """As of Codex, which sends instructions, a developer message, and sealed reasoning."""
    setting.plays(answering(OPENAI, Said(text=("hello",))))
    developer = {"type": "message", "role": "developer", "content": "Use tools."}
    rest: list[dict[str, object]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "One?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
        {"type": "message", "role": "assistant", "content": "Two."},
        {"type": "message", "role": "user", "content": "Three?"},
    ]
    body: dict[str, object] = {
        "model": OPENAI.name,
        "input": [developer, *rest],
        "prompt": {"id": "support", "version": "2", "variables": VALUES},
        **({"instructions": instructions} if instructions else {}),
    }

    async with httpx.AsyncClient(base_url=setting.gateway.url, timeout=60) as client:
        answer = await client.post("/v1/responses", json=body)

    assert answer.status_code == 200, answer.text
    sent = json.loads(setting.server.requests[-1].body)["input"]
    assert sent[-4:] == rest
    front = "".join(json.dumps(one) for one in sent[:-6])
    assert [one["role"] for one in sent[-6:-4]] == ["user", "assistant"]
    places = [front.find(one) for one in ("You help Ada of Acme.", instructions, "Use tools.")]
    assert -1 not in places
    assert all(one["role"] in ("system", "developer") for one in sent[:-6])
