"""The playground in a real browser: what it sends, what it shows, and what it copies."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from playwright.async_api import Browser, Page

from tests.gateway.console.admin.browser import browsing, chromium
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Received, delta_body, provider

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        chromium() is None, reason="no Chromium: apt-get install chromium-headless-shell"
    ),
]
SLOW_MS = 5000
KEY = "key-of-the-operator"
CONFIG = """
auth: {{mode: keys, admin_key: {key}, keys: [{{name: ada, key: key-of-ada}}]}}
providers: [{{name: p, adapter: openai, base_url: "{url}", api_key: k}}]
models:
  - {{name: one, backends: [{{provider: p, model: alpha}}]}}
  - {{name: two, backends: [{{provider: p, model: beta}}]}}
prices:
  - {{match: "p/*", input: 1.0, output: 2.0}}
"""
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]


class Vendor(Struct, kw_only=True, eq=False):
    """Says the model's name; calls a tool if there are tools; holds a request that asks for it."""

    bodies: list[dict[str, Any]] = []

    async def __call__(self, request: Received, answer: Answer) -> None:
        body = json.loads(request.body)
        self.bodies.append(body)
        last = body["messages"][-1]
        if last.get("content") == "hold":
            await answer.begin_stream()
            await answer.text("first")
            await asyncio.sleep(30)
        elif last.get("content") in ("fail", "lost"):
            await answer.json({"error": {"message": "on fire"}}, status=400)
        elif body.get("tools") and last["role"] == "user":
            await answer.begin_stream()
            function = {"name": "weather", "arguments": '{"city":'}
            call = {"index": 0, "id": "call_1", "type": "function", "function": function}
            await answer.event(delta_body({"role": "assistant", "tool_calls": [call]}))
            rest = {"index": 0, "function": {"arguments": '"Oslo"}'}}
            await answer.event(delta_body({"tool_calls": [rest]}))
            await answer.event(delta_body({}, "tool_calls"))
            await answer.end_stream()
        else:
            await answer.stream(f"<b>{body['model']}</b> ", "says 42.")


class Played(Struct, frozen=True, kw_only=True):
    """The gateway, its vendor, and a signed-in page."""

    up: Serving
    vendor: Vendor
    browser: Browser


@pytest.fixture(scope="module")
async def played(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Played]:
    vendor = Vendor(bodies=[])
    async with AsyncExitStack() as stack:
        at = await stack.enter_async_context(provider(vendor))
        text = CONFIG.format(key=KEY, url=at.base_url)
        folder: Path = tmp_path_factory.mktemp("play")
        up = await stack.enter_async_context(serving(text, folder))
        browser = await stack.enter_async_context(browsing())
        yield Played(up=up, vendor=vendor, browser=browser)


@pytest.fixture
async def page(played: Played) -> AsyncGenerator[Page]:
    """The playground, with a client key. Errors that the browser logs fail the test."""
    complaints: list[str] = []
    context = await played.browser.new_context(viewport={"width": 1280, "height": 900})
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = await context.new_page()
    page.set_default_timeout(SLOW_MS)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto(f"{played.up.url}/admin/view/playground")
    await page.fill("input[name=key]", KEY)
    await page.click("button.primary")
    await page.wait_for_selector("[data-playground]")
    await page.fill("input[name=key]", "key-of-ada")
    yield page
    await context.close()
    assert complaints == []


async def test_two_models_answer_the_same_prompt_with_their_figures(
    page: Page, played: Played
) -> None:
    await page.fill("[name=second]", "two")
    await page.fill("[name=system]", "be brief")
    await page.fill("[name=message]", "What is 17 + 25?")
    await page.press("[name=message]", "Enter")
    first = page.locator("[data-pane=first] .theirs")
    second = page.locator("[data-pane=second] .theirs")
    await first.locator(".cost").wait_for()
    await second.locator(".cost").wait_for()
    answers = [await one.locator("p").inner_text() for one in (first, second)]
    facts = await first.locator(".facts").inner_text()
    link = await first.locator(".facts a").get_attribute("href")

    assert answers == ["<b>alpha</b> says 42.", "<b>beta</b> says 42."]
    assert "p/alpha" in facts
    assert re.search(r"TTFT .* \d+ \+ \d+ tokens .*\$0\.0000", facts.replace("\n", " ")), facts
    assert re.fullmatch(r"/admin/view/requests\?id=[0-9a-f-]{36}", link or "")
    for body in played.vendor.bodies[-2:]:
        assert body["messages"] == [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "What is 17 + 25?"},
        ]


async def test_parameters_are_sent_and_wrong_ones_are_named(page: Page, played: Played) -> None:
    await page.click("text=Parameters")
    await page.fill("[name=temperature]", "0.5")
    await page.fill("[name=max_completion_tokens]", "7")
    await page.fill("[name=seed]", "3")
    await page.fill("[name=stop]", "a,b")
    await page.fill("[name=response_format]", "{")
    await page.fill("[name=message]", "hi")
    await page.press("[name=message]", "Enter")
    wrong = await page.inner_text("[data-problem]")
    await page.fill("[name=response_format]", '{"type": "json_object"}')
    await page.press("[name=message]", "Enter")
    await page.locator("[data-pane=first] .cost").wait_for()

    body = played.vendor.bodies[-1]
    assert wrong.startswith("response_format: ")
    assert (body["temperature"], body["seed"], body["stop"]) == (0.5, 3, ["a", "b"])
    assert body["response_format"] == {"type": "json_object"}
    assert 7 in (body.get("max_completion_tokens"), body.get("max_tokens"))


async def test_a_call_of_a_tool_gets_the_result_that_is_typed(page: Page, played: Played) -> None:
    await page.click("text=Parameters")
    await page.fill("[name=tools]", json.dumps(TOOLS))
    await page.fill("[name=message]", "Weather?")
    await page.press("[name=message]", "Enter")
    call = await page.inner_text(".calls label")
    await page.fill(".calls textarea", "rain")
    await page.click("text=Send results")
    await page.locator("[data-pane=first] .theirs").nth(1).locator(".facts").wait_for()

    assert call.strip() == 'weather({"city":"Oslo"})'
    asked, result = played.vendor.bodies[-1]["messages"][-2:]
    assert asked["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city":"Oslo"}'}
    assert (result["role"], result["tool_call_id"], result["content"]) == (
        "tool",
        "call_1",
        "rain",
    )


async def test_a_picture_is_sent_with_the_message(page: Page, played: Played) -> None:
    await page.click("text=Parameters")
    png = bytes.fromhex("89504e470d0a1a0a")
    await page.set_input_files(
        "[name=picture]", {"name": "a.png", "mimeType": "image/png", "buffer": png}
    )
    await page.fill("[name=message]", "What is it?")
    await page.press("[name=message]", "Enter")
    await page.locator("[data-pane=first] .facts").wait_for()

    (text, image) = played.vendor.bodies[-1]["messages"][-1]["content"]
    assert text["text"] == "What is it?"
    assert image["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="
    assert await page.inner_text("[data-pane=first] .mine") == "What is it?\n[a.png]"
    assert await page.input_value("[name=picture]") == "", "it belongs to that message"


async def test_a_stopped_answer_keeps_what_has_come(page: Page) -> None:
    await page.fill("[name=message]", "hold")
    await page.press("[name=message]", "Enter")
    await page.wait_for_selector("[data-pane=first] .theirs >> text=first")
    await page.click("button.primary >> text=Stop")
    facts = await page.inner_text("[data-pane=first] .facts")

    assert "broken off: Stopped." in facts
    assert await page.inner_text("button.primary") == "Send"


async def test_results_that_were_not_answered_can_be_sent_again(page: Page, played: Played) -> None:
    await page.click("text=Parameters")
    await page.fill("[name=tools]", json.dumps(TOOLS))
    await page.fill("[name=message]", "Weather?")
    await page.press("[name=message]", "Enter")
    await page.fill(".calls textarea", "fail")
    await page.click("text=Send results")
    await page.wait_for_selector("[data-pane=first] .failed >> text=on fire")
    await page.fill("[name=message]", "never mind")
    sent = len(played.vendor.bodies)
    await page.press("[name=message]", "Enter")
    problem = await page.inner_text("[data-problem]")
    kept = await page.input_value("[name=message]")
    await page.fill(".calls textarea", "rain")
    await page.click("text=Send results")
    await page.wait_for_selector("[data-pane=first] .theirs >> text=says 42.")

    assert problem == "Send the results of the tools first, or begin a new conversation."
    assert kept == "never mind"
    assert len(played.vendor.bodies) == sent + 1, "the vendor would refuse that message"
    assert [one["role"] for one in played.vendor.bodies[-1]["messages"]] == [
        "user",
        "assistant",
        "tool",
    ]


async def test_a_message_without_an_answer_is_there_to_be_corrected(page: Page) -> None:
    await page.fill("[name=message]", "lost")
    await page.press("[name=message]", "Enter")
    await page.wait_for_selector("[data-pane=first] .failed >> text=on fire")
    await page.wait_for_selector("button.primary >> text=Send")

    assert await page.input_value("[name=message]") == "lost"


async def test_a_new_conversation_ends_the_one_that_runs(page: Page, played: Played) -> None:
    await page.fill("[name=message]", "hold")
    await page.press("[name=message]", "Enter")
    await page.wait_for_selector("[data-pane=first] .theirs >> text=first")
    await page.click("[data-clear]")
    await page.wait_for_selector("button.primary >> text=Send")
    await page.fill("[name=message]", "hi")
    await page.press("[name=message]", "Enter")
    await page.wait_for_selector("[data-pane=first] .theirs >> text=says 42.")

    assert [one["content"] for one in played.vendor.bodies[-1]["messages"]] == ["hi"]


async def test_stop_ends_all_that_runs(page: Page) -> None:
    await page.fill("[name=second]", "two")
    await page.click("text=Parameters")
    await page.fill("[name=tools]", json.dumps(TOOLS))
    await page.fill("[name=message]", "Weather?")
    await page.press("[name=message]", "Enter")
    await page.locator(".calls").nth(1).wait_for()
    await page.fill("[data-pane=first] .calls textarea", "hold")
    await page.click("[data-pane=first] .calls button")
    await page.wait_for_selector("[data-pane=first] .theirs >> text=first")
    await page.fill("[data-pane=second] .calls textarea", "rain")
    await page.click("[data-pane=second] .calls button")
    await page.wait_for_selector("[data-pane=second] .theirs >> text=says 42.")
    await page.locator("[data-pane=second] .cost").nth(1).wait_for()
    await page.click("button.primary >> text=Stop")
    await page.wait_for_selector("[data-pane=first] .facts >> text=broken off")

    assert await page.inner_text("button.primary") == "Send"


async def test_another_model_begins_a_conversation_and_says_so(page: Page, played: Played) -> None:
    await page.fill("[name=message]", "hi")
    await page.press("[name=message]", "Enter")
    await page.wait_for_selector("[data-pane=first] .cost")
    await page.fill("[name=first]", "two")
    await page.fill("[name=message]", "again")
    await page.press("[name=message]", "Enter")
    await page.wait_for_selector("[data-pane=first] .theirs >> text=beta")

    notes = await page.locator("[data-pane=first] .note").all_inner_texts()
    assert notes == ["Another model: a new conversation begins."]
    assert len(played.vendor.bodies[-1]["messages"]) == 1


@pytest.mark.parametrize("kind", ["curl", "python"])
async def test_the_copied_code_sends_the_same_request(page: Page, kind: str) -> None:
    await page.fill("[name=system]", "it's brief")
    await page.fill("[name=message]", "hi")
    await page.click(f"[data-snippet={kind}]")
    await page.wait_for_selector(f"[data-snippet={kind}] >> text=Copied")
    code = str(await page.evaluate("navigator.clipboard.readText()"))

    assert "key-of-ada" not in code
    assert "STROWGER_API_KEY" in code
    if kind == "python":
        compile(code, "copied", "exec")
        assert 'model="one"' in code
    else:
        data = code.partition("-d '")[2].removesuffix("'\n").replace("'\\''", "'")
        assert json.loads(data)["messages"][0]["content"] == "it's brief"
