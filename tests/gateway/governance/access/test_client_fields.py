"""Client fields sent through to providers, over real sockets: withheld fields never get
there, whatever the depth, and the operator's word is the last."""

import json
from pathlib import Path

import httpx
import pytest

from tests.gateway.serving import serving
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

MARK = "planted-0451"


def config(adapter: str, url: str, fields: str = "{}", policy: str = "error") -> str:
    return f"""
providers:
  - {{name: one, adapter: {adapter}, base_url: {url}, api_key: sk-one, client_fields: {fields}}}
models:
  - name: chat
    retry: {{attempts: 1}}
    on_unsupported: {policy}
    backends: [{{provider: one, model: m}}]
"""


def chat(**more: object) -> dict[str, object]:
    return {"model": "chat", "messages": [{"role": "user", "content": "hi"}], **more}


async def ask(url: str, body: object) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(f"{url}/v1/chat/completions", json=body, timeout=60)


def said(**fields: object) -> dict[str, object]:
    return chat(messages=[{"role": "user", "content": "hi", **fields}])


def part(**fields: object) -> dict[str, object]:
    text = {"type": "text", "text": "hi", **fields}
    return chat(messages=[{"role": "user", "content": [text]}])


def tool(**fields: object) -> dict[str, object]:
    return chat(tools=[{"type": "function", "function": {"name": "look"}, **fields}])


WITHHELD = {
    "openrouter": {
        "models": chat(models=["openai/o1-pro"]),
        "provider": chat(provider={"order": ["someone"]}),
        "plugins": chat(plugins=[{"id": "web"}]),
        "tools[].server_url": tool(type="mcp", server_url="https://mine.test"),
    },
    "vllm": {
        "kv_transfer_params": chat(kv_transfer_params={"remote_host": "10.0.0.1"}),
        "logits_processors": chat(logits_processors=["os.system"]),
        "chat_template": chat(chat_template="{{ 1 }}"),
        "guided_regex": chat(guided_regex="a"),
        "chat_template_kwargs.tokenize": chat(
            chat_template_kwargs={"enable_thinking": False, "tokenize": True}
        ),
        "messages[].content[].video_url": chat(
            messages=[
                {
                    "role": "user",
                    "content": [
                        {"type": "video_url", "video_url": {"url": "http://169.254.169.254/"}}
                    ],
                }
            ]
        ),
    },
    "openai": {
        "api_base": chat(api_base="https://mine.test"),
        "store": chat(store=True),
        "service_tier": chat(service_tier="priority"),
        "tomorrows_webhook": chat(tomorrows_webhook="https://mine.test"),
        "messages[].content[].file.file_id": chat(
            messages=[
                {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}
            ]
        ),
    },
    "ollama": {
        "options.num_ctx": chat(options={"num_ctx": 1_000_000, "mirostat": 1}),
        "keep_alive": chat(keep_alive=-1),
    },
}


@pytest.mark.parametrize("adapter", WITHHELD)
async def test_what_is_withheld_is_refused_with_its_reason_and_the_remedy(
    adapter: str, tmp_path: Path
) -> None:
    async with provider() as far, serving(config(adapter, far.base_url), tmp_path) as gateway:
        answers = {field: await ask(gateway.url, one) for field, one in WITHHELD[adapter].items()}

    for field, answer in answers.items():
        error = answer.json()["error"]
        assert answer.status_code == 403, field
        assert error["param"] == field
        assert error["code"] == "field_not_allowed"
        assert f"one/m: {field} is not forwarded: " in error["message"]
        assert "providers[].client_fields.allow" in error["message"]
    assert not far.requests


@pytest.mark.vendor_refuses("schema", because="the operator allows what the schema lacks")
@pytest.mark.parametrize("adapter", WITHHELD)
async def test_what_the_operator_allows_is_passed_on(adapter: str, tmp_path: Path) -> None:
    allowed = json.dumps({"allow": list(WITHHELD[adapter])})

    async with (
        provider() as far,
        serving(config(adapter, far.base_url, allowed), tmp_path) as gateway,
    ):
        for one in WITHHELD[adapter].values():
            await ask(gateway.url, one)

    assert len(far.requests) == len(WITHHELD[adapter])


@pytest.mark.vendor_refuses("schema", because="a model server takes videos, OpenAI does not")
async def test_values_without_effect_and_data_uris_are_passed_on(tmp_path: Path) -> None:
    video: dict[str, object] = {
        "type": "video_url",
        "video_url": {"url": "data:video/mp4;base64,AAAA"},
    }

    async with (
        provider() as far,
        serving(config("openai", far.base_url), tmp_path) as gateway,
    ):
        plain = await ask(gateway.url, chat(store=False, service_tier="auto"))
        shown = await ask(gateway.url, chat(messages=[{"role": "user", "content": [video]}]))

    assert (plain.status_code, shown.status_code) == (200, 200)
    assert far.requests[0].json["store"] is False
    assert json.dumps(video, separators=(",", ":")).encode() in far.requests[1].body


async def test_a_hint_without_which_the_answer_is_the_same_is_left_out_and_named(
    tmp_path: Path,
) -> None:
    async with provider() as far, serving(config("openai", far.base_url), tmp_path) as gateway:
        answer = await ask(gateway.url, chat(prompt_cache_key=MARK))

    assert answer.status_code == 200
    assert answer.headers["x-gateway-dropped-params"] == "prompt_cache_key"
    assert "prompt_cache_key" not in far.requests[0].json


PLACES = {
    "x_new": chat(x_new={"a": MARK}),
    "messages[].x_new": said(x_new=MARK),
    "messages[].content[].x_new": part(x_new=[{"deep": MARK}]),
    "tools[].x_new": tool(x_new=MARK),
    "tools[].function.x_new": tool(function={"name": "look", "x_new": MARK}),
    "tool_choice.x_new": {
        **tool(),
        "tool_choice": {"type": "function", "function": {"name": "look"}, "x_new": MARK},
    },
    "response_format.x_new": chat(response_format={"type": "json_object", "x_new": MARK}),
    "stream_options": chat(stream=True, stream_options={"include_usage": True, "x_new": MARK}),
}


@pytest.mark.parametrize("place", PLACES)
async def test_where_all_is_denied_no_unknown_field_of_any_depth_gets_there(
    place: str, tmp_path: Path
) -> None:
    closed = '{deny: ["*"]}'
    async with (
        provider() as far,
        provider() as dropping,
        provider() as as_ever,
        serving(config("openai", far.base_url, closed), tmp_path) as refuses,
        serving(config("openai", dropping.base_url, closed, "drop"), tmp_path) as drops,
        serving(config("openai", as_ever.base_url), tmp_path) as opens,
    ):
        refused = await ask(refuses.url, PLACES[place])
        dropped = await ask(drops.url, PLACES[place])
        passed = await ask(opens.url, PLACES[place])

    assert refused.status_code == 403
    assert refused.json()["error"]["param"] == place
    assert not far.requests
    assert dropped.status_code == 200
    assert dropped.headers["x-gateway-dropped-params"] == place
    assert MARK not in dropping.requests[0].body.decode()
    assert passed.status_code == 200
    assert MARK in as_ever.requests[0].body.decode()


@pytest.mark.parametrize(
    "body",
    [
        '{"role":"user","content":"hi","x_new":"planted-0451","x_new":null}',
        '{"role":"user","content":"hi","x\\u005fnew":"planted-0451"}',
        '{"role":"user","content":[{"type":"text","text":"hi","x_new":1,"x_new":"planted-0451"}]}',
    ],
)
async def test_no_spelling_of_a_field_gets_it_past(body: str, tmp_path: Path) -> None:
    whole = f'{{"model":"chat","messages":[{body}]}}'

    async with (
        provider() as far,
        serving(
            config("openai", far.base_url, '{deny: ["messages[].x_new", "messages[].*[].x_new"]}'),
            tmp_path,
        ) as gateway,
        httpx.AsyncClient(timeout=60) as client,
    ):
        answer = await client.post(
            f"{gateway.url}/v1/chat/completions",
            content=whole,
            headers={"content-type": "application/json"},
        )

    assert answer.status_code == 403
    assert not far.requests


async def test_another_backend_that_takes_the_field_gets_the_request(tmp_path: Path) -> None:
    async with provider() as a, provider() as b:
        both = f"""
providers:
  - {{name: a, adapter: openai, base_url: {a.base_url}}}
  - {{name: b, adapter: openai, base_url: {b.base_url}, client_fields: {{allow: [provider]}}}}
models:
  - name: chat
    policy: in_order
    backends: [{{provider: a, model: m}}, {{provider: b, model: m}}]
"""
        async with serving(both, tmp_path) as gateway:
            answer = await ask(gateway.url, chat(provider={"order": ["x"]}))

    assert answer.headers["x-gateway-backend"] == "b/m"
    assert not a.requests


async def test_a_known_field_can_be_denied_too(tmp_path: Path) -> None:
    async with (
        provider() as far,
        serving(config("openai", far.base_url, "{deny: [seed]}"), tmp_path) as gateway,
    ):
        answer = await ask(gateway.url, chat(seed=1))

    assert answer.status_code == 403
    assert "seed is not forwarded: the operator denies it" in answer.json()["error"]["message"]
    assert not far.requests


async def test_a_hint_that_is_denied_is_left_out_and_named(tmp_path: Path) -> None:
    async with (
        provider() as far,
        serving(config("openai", far.base_url, "{deny: [user]}"), tmp_path) as gateway,
    ):
        answer = await ask(gateway.url, chat(user="me"))

    assert answer.status_code == 200
    assert answer.headers["x-gateway-dropped-params"] == "user"
    assert "user" not in far.requests[0].json
