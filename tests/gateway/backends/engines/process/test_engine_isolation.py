"""No client of the local engine can harm another one over HTTP."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.backends.engines.process.environment import passes
from tests.gateway.backends.engines.link.transports import TRANSPORTS, reached
from tests.gateway.serving import Serving, serving
from tests.gateway.shared_engine import SharedEngine

pytest.importorskip("torch")

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {here}
models:
  - {{name: tiny, retry: {{attempts: 1}}, backends: [{{provider: here, model: tiny}}]}}
  - {{name: caller, retry: {{attempts: 1}}, backends: [{{provider: here, model: caller}}]}}
  - {{name: mini, retry: {{attempts: 1}}, backends: [{{provider: here, model: mini}}]}}
"""
Json = dict[str, object]
CHAT, COMPLETIONS, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
LONG = "abcdefghij" * 100_000
DEEP = 500
"""Objects within objects that the JSON parser still reads."""


def user(text: str, **more: object) -> Json:
    return {"model": "tiny", "messages": [{"role": "user", "content": text}], **more}


def prompt(text: object, **more: object) -> Json:
    return {"model": "tiny", "prompt": text, **more}


def called(arguments: str) -> Json:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {
        "model": "caller",
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "y"},
        ],
    }


def one_of(count: int) -> Json:
    objects = [
        {
            "type": "object",
            "properties": {f"p{n}": {"type": "string", "pattern": f"^[a-z]{{{n},40}}$"}},
            "required": [f"p{n}"],
        }
        for n in range(count)
    ]
    schema = {"name": "s", "schema": {"oneOf": objects}}
    return user("x", response_format={"type": "json_schema", "json_schema": schema}, max_tokens=40)


REFUSED: dict[str, tuple[str, Json, str]] = {
    "a long conversation": (CHAT, user(LONG), "which need more than the"),
    "long special tokens": (CHAT, user("<|end|>" * 150_000), "which need more than the"),
    "a long prompt": (COMPLETIONS, prompt(LONG), "prompt has 1000000 characters"),
    "one of several prompts": (COMPLETIONS, prompt(["a", LONG]), "prompt[1] has 1000000 char"),
    "many tokens": (COMPLETIONS, prompt([5] * 300_000), "and the prompt has 300000; shorten"),
    "many stop strings": (CHAT, user("x", stop=[str(n) for n in range(5000)]), "stop: 5000"),
    "long stop strings": (CHAT, user("x", stop=["a" * 5000]), "stop: 5000 characters"),
    "many bad words": (COMPLETIONS, prompt("x", bad_words=["a"] * 5000), "bad_words: 5000"),
    "many biases": (
        CHAT,
        user("x", logit_bias={str(n): 1 for n in range(40_000)}),
        "logit_bias: 40000 entries",
    ),
    "arguments nested deeper": (
        CHAT,
        called('{"a":' * 50_000 + "1" + "}" * 50_000),
        "messages[1].tool_calls[0].function.arguments: nested too deep",
    ),
    "long inputs": (EMBEDDINGS, {"model": "mini", "input": [5] * 100_000}, "tokens"),
}


@pytest.fixture(scope="module", params=TRANSPORTS)
async def gateway(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, engine: SharedEngine
) -> AsyncGenerator[Serving, None]:
    """In front of the shared engine, over its socket and over TCP."""
    folder = tmp_path_factory.mktemp("run")
    async with reached(request.param, engine, folder) as here:
        config = CONFIG.format(here=here.provider)
        async with serving(config, folder, engine=here) as running:
            yield running


async def posted(gateway: Serving, path: str, body: Json) -> httpx.Response:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return await client.post(path, json=body)


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_too_much_is_refused_by_name_before_work(gateway: Serving, name: str) -> None:
    path, body, message = REFUSED[name]

    answer = await posted(gateway, path, body)

    error = answer.json()["error"]
    assert (answer.status_code, message in error["message"]) == (400, True), error


async def test_arguments_that_the_template_can_nest_are_rendered(gateway: Serving) -> None:
    """A template's own recursion was the limit; the engine's renderer has none of that depth."""
    body = {**called('{"a":' * DEEP + "1" + "}" * DEEP), "max_tokens": 1}

    answer = await posted(gateway, CHAT, body)

    assert answer.status_code == 200, answer.text


async def test_a_grammar_that_meets_a_limit_is_the_clients_fault(gateway: Serving) -> None:
    answer = await posted(gateway, CHAT, one_of(200))

    error = answer.json()["error"]
    assert answer.status_code == 400, error
    assert error["param"] == "response_format.json_schema.schema"


async def test_a_grammar_that_meets_a_limit_after_content_ends_its_stream(gateway: Serving) -> None:
    """And no breaker counts it."""
    body = {**one_of(200), "stream": True}
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        text = (await client.post(CHAT, json=body)).text

    last = json.loads(text.strip().split("data: ")[-1]) if "data: " in text else json.loads(text)
    assert "upstream" not in last["error"]["code"]


def test_an_engine_inherits_no_variable_that_it_does_not_need(engine: SharedEngine) -> None:
    pid = engine.process.pid
    environment = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")

    names = {entry.partition("=")[0] for entry in environment if entry}

    assert {"PATH", "PYTHONPATH"} <= names
    assert [name for name in names if not passes(name)] == []


@pytest.mark.parametrize(
    ("name", "gets"),
    [
        ("STROWGER_ADMIN_KEY", False),
        ("OPENAI_API_KEY", False),
        ("HF_TOKEN", False),
        ("HF_HOME", True),
        ("ASCEND_RT_VISIBLE_DEVICES", True),
        ("CUDA_VISIBLE_DEVICES", True),
        ("AWS_SECRET_ACCESS_KEY", False),
        ("DATABASE_URL", False),
    ],
)
def test_an_engine_gets_what_its_libraries_read_and_no_secret(name: str, gets: bool) -> None:
    assert passes(name) is gets
    assert passes(name, frozenset({name}))
