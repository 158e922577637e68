"""Azure's addresses and content filters, compared with OpenAI's own client for Azure."""

import json
from collections.abc import Awaitable, Callable

import msgspec
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.adapters.openai_compatible.azure import AzureAdapter
from strowger_gateway.adapters.testing import request_for, translate
from strowger_gateway.schemas.errors import (
    InvalidConfig,
    UpstreamBusy,
    UpstreamRefused,
    UpstreamRejected,
)
from strowger_gateway.schemas.events import Event, Finished, OpaqueDelta, Started, TextDelta, Usage
from strowger_gateway.schemas.requests import CompletionRequest, EmbeddingsRequest, Request
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret
from strowger_gateway.schemas.tasks.task import Unsampled
from tests.adapters.chats import folded
from tests.adapters.openai.openai_doubles import CHAT, WHOLE_CHAT, body, sampled
from tests.adapters.traffic import fixture
from tests.stand_ins.provider import answers, provider

pytestmark = pytest.mark.anyio

ORIGIN = "https://acme.openai.azure.com"
GA = "2024-10-21"
ROUTE = "chat/completions"
DEPLOYED = f"/openai/deployments/my%20d/{ROUTE}?api-version={GA}"
HELLO: ChatCompletionMessageParam = {"role": "user", "content": "hello"}


def azure(base_url: str = f"{ORIGIN}/openai?api-version={GA}") -> AzureAdapter:
    return AzureAdapter(Endpoint(name="az", base_url=base_url, key=Secret("0123456789abcdef")))


def answer(name: str) -> list[Event]:
    case = fixture(f"azure/{name}")
    request = request_for(case)
    assert not isinstance(request, Unsampled)
    return translate(azure(), request, [case.body])


@pytest.mark.parametrize(
    ("base_url", "target"),
    [
        (f"{ORIGIN}?api-version={GA}", DEPLOYED),
        (
            f"{ORIGIN}/openai?api-version={GA}",
            DEPLOYED,
        ),
        (
            f"https://apim.test/team/openai?api-version={GA}",
            f"/team{DEPLOYED}",
        ),
        (
            f"{ORIGIN}/openai/deployments/d1?api-version={GA}",
            f"/openai/deployments/d1/chat/completions?api-version={GA}",
        ),
        (f"{ORIGIN}/openai/v1", "/openai/v1/chat/completions"),
        (f"{ORIGIN}/openai/v1?api-version=preview", f"/openai/v1/{ROUTE}?api-version=preview"),
        (
            "https://acme.services.ai.azure.com/models?api-version=2024-05-01-preview",
            "/models/chat/completions?api-version=2024-05-01-preview",
        ),
    ],
)  # fmt: skip
def test_the_address_decides_where_the_deployment_is_named(base_url: str, target: str) -> None:
    outbound = azure(base_url).encode(WHOLE_CHAT, "my d")

    assert outbound.target == target
    assert msgspec.json.decode(outbound.body)["model"] == "my d"


def test_an_address_without_a_version_is_refused_when_it_is_configured() -> None:
    with pytest.raises(InvalidConfig, match=r"az: base_url has no api-version.*/openai/v1"):
        azure(ORIGIN)


def test_the_key_has_its_own_header_and_is_absent_with_tokens() -> None:
    keyed = dict(azure().encode(WHOLE_CHAT, "d").headers)
    bare = AzureAdapter(Endpoint(name="az", base_url=f"{ORIGIN}/openai/v1"))

    assert keyed["api-key"] == "0123456789abcdef"
    assert not {"api-key", "authorization"} & dict(bare.encode(WHOLE_CHAT, "d").headers).keys()
    assert "authorization" not in keyed


def test_old_versions_get_no_fields_that_they_do_not_know() -> None:
    old = azure(f"{ORIGIN}/openai?api-version=2024-06-01")
    bounded = sampled(max_tokens=5)
    modern = msgspec.structs.replace(bounded, max_tokens_field="max_completion_tokens")
    one_call = msgspec.structs.replace(WHOLE_CHAT, parallel_tool_calls=False)

    assert "stream_options" not in body(old, CHAT)
    assert body(azure(), CHAT)["stream_options"] == {"include_usage": True}
    assert body(old, modern)["max_tokens"] == 5
    assert body(azure(), bounded)["max_completion_tokens"] == 5
    assert [one.field for one in unsupported(one_call, old.supports)] == ["parallel_tool_calls"]
    assert not unsupported(one_call, azure().supports)


def test_a_limit_keeps_the_name_that_the_client_gave_it() -> None:
    named = msgspec.structs.replace(sampled(max_tokens=5), max_tokens_field="max_tokens")

    assert body(azure(), named)["max_tokens"] == 5


def test_the_first_chunk_has_no_choices_and_its_prompt_filter_results_are_kept() -> None:
    started = answer("chat-stream-filtered")[0]

    assert isinstance(started, Started)
    assert (started.id, started.model) == ("chatcmpl-a1", "gpt-4o-2024-11-20")
    assert b'"severity":"safe"' in bytes(started.extra["prompt_filter_results"])


def test_verdicts_of_the_filters_are_reported_when_they_change_and_before_the_end() -> None:
    found = answer("chat-stream-filtered")

    assert [type(one) for one in found] == [
        Started,
        TextDelta,
        OpaqueDelta,
        TextDelta,
        OpaqueDelta,
        OpaqueDelta,
        Finished,
        Usage,
    ]
    told = [one.fields for one in found if isinstance(one, OpaqueDelta)]
    assert [list(one) for one in told] == [
        ["(choice).content_filter_results"],
        ["(choice).content_filter_offsets"],
        ["(choice).content_filter_results"],
    ]
    assert b"high" in bytes(told[2]["(choice).content_filter_results"])
    assert found[-2] == Finished(reason="content_filter")


def test_a_call_without_arguments_has_empty_ones_and_parallel_calls_differ() -> None:
    folded_answer = folded(answer("chat-tools-no-arguments"))

    (choice,) = folded_answer.choices
    assert [(call.name, call.arguments) for call in choice.tool_calls] == [
        ("now", "{}"),
        ("weather", '{"city": "Bern"}'),
    ]
    assert folded_answer.usage is not None
    assert folded_answer.usage.reasoning_tokens == 12


@pytest.mark.parametrize(
    ("name", "kind", "code", "param"),
    [
        ("error-400-prompt-filtered", UpstreamRejected, "content_filter", "prompt"),
        ("error-400-reasoning-max-tokens", UpstreamRejected, "unsupported_parameter", "max_tokens"),
    ],
)
def test_a_refusal_that_the_caller_can_fix_reaches_the_caller(
    name: str, kind: type[Exception], code: str, param: str
) -> None:
    case = fixture(f"azure/{name}")

    error = azure().error(case.status, case.headers, case.body)

    assert isinstance(error, kind)
    assert (error.status, error.code, error.param) == (400, code, param)


def test_a_rate_limit_has_a_wait_and_a_missing_deployment_is_the_operators() -> None:
    case = fixture("azure/error-429")
    missing = b'{"error":{"code":"DeploymentNotFound","message":"It does not exist."}}'

    busy = azure().error(case.status, case.headers, case.body)

    assert isinstance(busy, UpstreamBusy)
    assert busy.retry_after == 2.5
    assert isinstance(azure().error(404, {}, missing), UpstreamRefused)


Ask = Callable[[openai.AsyncAzureOpenAI], Awaitable[object]]

ASKED: dict[str, tuple[Ask, Request]] = {
    "chat": (
        lambda sdk: sdk.chat.completions.create(
            model="d", messages=[HELLO], max_completion_tokens=9, temperature=0.5, seed=1, n=2
        ),
        sampled(max_tokens=9, temperature=0.5, seed=1, n=2),
    ),
    "stream": (
        lambda sdk: sdk.chat.completions.create(
            model="d", messages=[HELLO], stream=True, stream_options={"include_usage": True}
        ),
        CHAT,
    ),
    "completion": (
        lambda sdk: sdk.completions.create(model="d", prompt="x", max_tokens=3, echo=True),
        CompletionRequest(model="m", prompts=("x",), sampling=Sampling(max_tokens=3), echo=True),
    ),
    "embeddings": (
        lambda sdk: sdk.embeddings.create(
            model="d", input=["a", "b"], dimensions=8, encoding_format="base64"
        ),
        EmbeddingsRequest(
            model="m", inputs=("a", "b"), batch=True, dimensions=8, base64=True
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
async def test_the_client_and_the_adapter_send_the_same(name: str) -> None:
    ask, request = ASKED[name]
    async with provider(answers) as server:
        sdk = openai.AsyncAzureOpenAI(
            azure_endpoint=server.origin, api_version=GA, api_key="0123456789abcdef", max_retries=0
        )
        async with sdk:
            await ask(sdk)

    (theirs,) = server.requests
    sent = azure().encode(request, "d")
    headers = dict(sent.headers)
    assert sent.target == theirs.path
    assert headers["api-key"] == theirs.headers["api-key"]
    assert json.loads(sent.body) == theirs.json
