"""What the service rejects, with which field, and how incomplete answers end."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
import pytest

from strowger_gateway.local_engine.child_process.text_encoder import INLINE
from strowger_gateway.local_engine.requests.request_limits import characters
from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.errors import (
    DeadlineExceeded,
    GatewayError,
    InvalidRequest,
    ModelNotFound,
    UpstreamBusy,
    UpstreamLost,
)
from strowger_gateway.schemas.messages import (
    FunctionTool,
    ImagePart,
    Message,
    ResponseFormat,
    TextPart,
    ToolCall,
)
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    GenerateRequest,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.services import MODEL, ask, chat, completion, config, serving
from tests.local_engine.tiny import VOCABULARY

pytestmark = pytest.mark.anyio

ENDLESS = Sampling(temperature=0.0, ignore_eos=True)
HELLO = chat("hello", Sampling(max_tokens=3))
PROMPT = completion("hello", Sampling(max_tokens=3))
LONG = (7,) * 300
PICTURE = Message(role="user", content=(TextPart(text="see"), ImagePart(url="data:,")))


@pytest.fixture(scope="module")
async def service(folder: Folder) -> AsyncGenerator[Service, None]:
    async with serving(config(folder("llama"))) as service:
        yield service


def chatting(**changes: object) -> ChatRequest:
    return msgspec.structs.replace(HELLO, **changes)


def completing(**changes: object) -> CompletionRequest:
    return msgspec.structs.replace(PROMPT, **changes)


def sampling(**changes: object) -> ChatRequest:
    return chatting(sampling=msgspec.structs.replace(HELLO.sampling, **changes))


SCHEMA = "response_format.json_schema.schema"
REGEX = "response_format.pattern"
LARK = "response_format.definition"


def schema(text: bytes, *, strict: bool = False) -> ResponseFormat:
    return ResponseFormat(type="json_schema", schema=msgspec.Raw(text), strict=strict)


def other(text: bytes) -> ResponseFormat:
    return ResponseFormat(type="opaque", raw=msgspec.Raw(text))


def grammar(definition: str, syntax: str = "lark") -> ResponseFormat:
    wire = {"type": "grammar", "syntax": syntax, "definition": definition}
    return other(msgspec.json.encode(wire))


REFUSED: list[tuple[GenerateRequest, str]] = [
    (chatting(tools=(FunctionTool(name="f"),)), "tools"),
    (chatting(response_format=ResponseFormat(type="opaque")), "response_format.type"),
    (chatting(response_format=ResponseFormat(type="json_schema")), SCHEMA),
    (chatting(response_format=schema(b'{"type":"strin"}')), SCHEMA),
    (chatting(response_format=schema(b'{"not":{}}', strict=True)), SCHEMA),
    (chatting(response_format=schema(b'{"$ref":"https://example.com/s.json"}')), SCHEMA),
    (chatting(response_format=schema(b'{"description":"' + b"x" * (1 << 17) + b'"}')), SCHEMA),
    (chatting(response_format=other(b'{"type":"regex"}')), "response_format"),
    (chatting(response_format=other(b'{"type":"regex","pattern":"(a"}')), REGEX),
    (chatting(response_format=other(b'{"type":"regex","pattern":"a(?=b)"}')), REGEX),
    (chatting(response_format=grammar("start: nothing")), LARK),
    (chatting(response_format=grammar('start: "a" ' + "(" * 70_000)), LARK),
    (chatting(response_format=grammar("%llguidance {}\nstart: /a/")), LARK),
    (chatting(response_format=grammar("root ::= nothing", "ebnf")), LARK),
    (chatting(response_format=grammar('root ::= "a"' + " " * (1 << 14), "ebnf")), LARK),
    (chatting(extra={"mystery": msgspec.Raw(b"1")}), "mystery"),
    (chatting(messages=(PICTURE,)), "messages.image"),
    (chatting(messages=(Message(role="function", content="x"),), priority=0), "priority"),
    (sampling(beam_width=65), "beam_width"),
    (sampling(n=0), "n"),
    (sampling(n=3, best_of=2), "best_of"),
    (sampling(max_tokens=0), "max_tokens"),
    (sampling(min_tokens=9), "min_tokens"),
    (sampling(top_p=1.5), "top_p"),
    (sampling(logit_bias={VOCABULARY: 1.0}), "logit_bias"),
    (sampling(stop_words=((),)), "stop_words"),
    (sampling(bad_words=(" ",)), "bad_words"),
    (sampling(seed=1 << 64), "seed"),
    (completing(suffix="fill"), "suffix"),
    (completing(prompts=((1, VOCABULARY),)), "prompt"),
    (completing(prompts=((),)), "prompt"),
    (completing(prompts=(LONG,)), "prompt"),
    (TokenRequest(model=MODEL, tokens=(-1,)), "tokens"),
]


@pytest.mark.parametrize(("request_", "field"), REFUSED, ids=[field for _, field in REFUSED])
async def test_an_invalid_request_is_rejected_with_the_fields_name(
    request_: GenerateRequest, field: str, service: Service
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await ask(service, request_)

    assert caught.value.param == field
    assert caught.value.message.startswith(field) or field == "prompt"


async def test_neutral_values_of_unsupported_fields_change_nothing(service: Service) -> None:
    neutral = sampling(beam_width=1, watermark=False, temperature=0.0)

    assert (await ask(service, neutral)).choices[0].finish is not None


async def test_a_conversation_that_the_template_rejects_fails_with_its_reason(
    folder: Folder,
) -> None:
    async with serving(config(folder("strict"))) as service:
        with pytest.raises(InvalidRequest, match=r"messages: .*only the user may speak") as caught:
            await ask(service, chatting(messages=(Message(role="assistant", content="x"),)))

    assert caught.value.param == "messages"


async def test_a_model_without_a_template_cannot_chat(folder: Folder) -> None:
    async with serving(config(folder("untemplated"))) as service:
        with pytest.raises(InvalidRequest, match="no chat template; use completions"):
            await ask(service, HELLO)


async def test_an_unknown_model_is_not_found(service: Service) -> None:
    with pytest.raises(ModelNotFound, match=f"'other'; it has {MODEL}"):
        await anext(service.generate(HELLO, model="other"))


async def test_a_timeout_is_an_error_unless_the_client_accepts_a_truncated_answer(
    service: Service,
) -> None:
    late = completing(timeout_s=0.0, sampling=ENDLESS)

    with pytest.raises(DeadlineExceeded):
        await ask(service, late)
    cut = await ask(service, msgspec.structs.replace(late, error_behavior="truncate"))

    assert cut.choices[0].finish is not None
    assert cut.choices[0].finish.reason == "length"


async def test_a_prompt_that_is_too_long_is_cut_on_the_left_if_requested(service: Service) -> None:
    prompt = tuple(range(5, 300))
    cut = completing(prompts=(prompt,), error_behavior="truncate", sampling=ENDLESS)
    fitting = completing(prompts=(prompt[-240:],), sampling=ENDLESS)

    answers = [await ask(service, one) for one in (cut, fitting)]

    assert answers[0].choices[0].text == answers[1].choices[0].text
    assert answers[0].usage is not None
    assert answers[0].usage.prompt_tokens == 240


async def test_answers_beyond_the_queue_are_rejected_as_busy(folder: Folder) -> None:
    async with serving(config(folder("llama"), max_sequences=1, max_waiting=1)) as service:
        with pytest.raises(InvalidRequest, match="n: 3 answers exceed this engine"):
            await ask(service, sampling(n=3))
        one = service.generate(chat("on and on", ENDLESS), model=MODEL)
        async with aclosing(one):
            await anext(one)
            with pytest.raises(UpstreamBusy):
                await ask(service, sampling(n=2))

        await ask(service, sampling(n=2))


async def test_an_abandoned_answer_is_freed_whether_it_has_begun_or_not(service: Service) -> None:
    begun = service.generate(chat("on and on", ENDLESS), model=MODEL)
    async with aclosing(begun):
        await anext(begun)
        await anext(begun)
    waiting = service.generate(chat("on and on", ENDLESS), model=MODEL)
    async with aclosing(waiting):
        await anext(waiting)

    await ask(service, HELLO)

    stats = service.stats()[MODEL]
    assert (stats.running, stats.waiting) == (0, 0)
    assert stats.blocks_free == stats.blocks_total


async def test_stopping_fails_unfinished_requests_and_rejects_later_ones(
    folder: Folder,
) -> None:
    outcomes: list[GatewayError] = []

    async with serving(config(folder("llama"), max_seq_len=200)) as service:
        tasks = [asyncio.ensure_future(ask(service, chat("x", ENDLESS))) for _ in range(3)]
        await ask(service, HELLO)
        tasks = [task for task in tasks if not task.done()]
        await service.stop()
        with pytest.raises(UpstreamLost, match="stopped"):
            await ask(service, HELLO)
        for task in tasks:
            with pytest.raises(UpstreamLost, match="stopped") as caught:
                await task
            outcomes.append(caught.value)

    assert not service.alive
    assert outcomes


def test_arguments_nested_deep_are_work_for_a_thread_in_turn_by_key() -> None:
    call = ToolCall(id="c", name="f", arguments='{"a":' * 500 + "1" + "}" * 500)
    flat = ToolCall(id="c", name="f", arguments='{"a":"' + "x" * 2994 + '"}')
    sizes = [
        characters(chatting(messages=(Message(role="assistant", tool_calls=(one,)),)))
        for one in (call, flat)
    ]

    assert sizes[1] < INLINE < sizes[0]
