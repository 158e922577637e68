"""A request's fields have names by which they can be omitted."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.fields import (
    FIELDS,
    NEUTRAL,
    NOT_OMITTABLE,
    SAMPLING,
    extra_fields,
    field_value,
    is_neutral,
    sent_fields,
    task_of,
    without,
)
from strowger_gateway.schemas.messages import (
    FunctionTool,
    ImagePart,
    Message,
    OpaquePart,
    OpaqueTool,
    ResponseFormat,
    TextPart,
    ToolChoice,
)
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling

HELLO = Message(role="user", content="hello")
CHAT = ChatRequest(model="m", messages=(HELLO,))
COMPLETION = CompletionRequest(model="m", prompts=("x",))
EMBEDDINGS = EmbeddingsRequest(model="m", inputs=("x",))
TOKENS = TokenRequest(model="m", tokens=(1,))

SET = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.floats(0, 2),
        "top_k": st.none() | st.integers(1, 9),
        "max_tokens": st.none() | st.integers(1, 9),
        "stop": st.just(("a",)),
        "logit_bias": st.just({1: 2.0}),
        "ignore_eos": st.booleans(),
    },
)


@pytest.mark.parametrize(
    ("request_", "task"),
    [(CHAT, "chat"), (COMPLETION, "completion"), (EMBEDDINGS, "embeddings"), (TOKENS, "tokens")],
)
def test_a_bare_request_sends_no_fields(
    request_: ChatRequest | CompletionRequest | EmbeddingsRequest | TokenRequest, task: str
) -> None:
    assert task_of(request_) == task
    assert sent_fields(request_) == frozenset()
    assert extra_fields(request_) == frozenset()


@given(SET)
def test_what_is_set_is_sent_and_null_is_not(values: dict[str, object]) -> None:
    sampling = msgspec.structs.replace(Sampling(), **values)

    for request in (CHAT, COMPLETION, TOKENS):
        sent = sent_fields(msgspec.structs.replace(request, sampling=sampling))
        assert sent == {name for name, value in values.items() if value is not None}


@given(SET, st.sets(st.sampled_from(["temperature", "top_k", "stop", "ignore_eos", "user"])))
def test_omitted_fields_are_gone_and_the_rest_stays(
    values: dict[str, object], fields: set[str]
) -> None:
    sampling = msgspec.structs.replace(Sampling(), **values)
    request = msgspec.structs.replace(CHAT, sampling=sampling, user="u")

    left = without(request, fields)

    assert sent_fields(left) == sent_fields(request) - fields
    assert left.messages == request.messages


def test_a_chat_lists_its_own_fields_and_the_kinds_of_its_content() -> None:
    parts = (
        TextPart(text="a"),
        ImagePart(url="data:image/png;base64,AA=="),
        ImagePart(url="https://a.test/a.png"),
        OpaquePart(type="file", raw=Raw(b"{}")),
    )
    request = ChatRequest(
        model="m",
        messages=(HELLO, Message(role="user", content=parts)),
        tools=(FunctionTool(name="f"), OpaqueTool(type="t", raw=Raw(b"{}"))),
        parallel_tool_calls=False,
        stream=True,
        timeout_s=3.0,
        extra={"x": Raw(b"1")},
    )

    assert sent_fields(request) == {
        "tools",
        "tools.opaque",
        "parallel_tool_calls",
        "messages.image",
        "messages.remote_image",
        "messages.opaque",
    }
    assert extra_fields(request) == {"x"}


def test_token_prompts_and_templates_are_listed() -> None:
    prompts = CompletionRequest(model="m", prompts=("a", (1, 2)), template=True)
    inputs = EmbeddingsRequest(model="m", inputs=((1,),), dimensions=3)

    assert sent_fields(prompts) == {"prompt.tokens", "prompt.batch", "template"}
    assert sent_fields(inputs) == {"input.tokens", "dimensions"}


def test_every_name_of_a_task_is_a_field_or_a_kind_of_content() -> None:
    for request in (CHAT, COMPLETION, EMBEDDINGS, TOKENS):
        own = {*request.__struct_fields__, *SAMPLING}
        assert {name for name in FIELDS[task_of(request)] if "." not in name} <= own


def test_neutral_values_have_no_effect() -> None:
    request = msgspec.structs.replace(CHAT, sampling=Sampling(n=1, top_p=0.5, logprobs=False))

    assert is_neutral(request, "n")
    assert is_neutral(request, "logprobs")
    assert not is_neutral(request, "top_p")
    assert set(NEUTRAL) <= frozenset().union(*FIELDS.values())


def test_tools_that_may_be_called_at_will_and_together_are_the_usual_way() -> None:
    usual = msgspec.structs.replace(
        CHAT, tool_choice=ToolChoice(mode="auto"), parallel_tool_calls=True
    )
    forced = msgspec.structs.replace(
        CHAT, tool_choice=ToolChoice(mode="none"), parallel_tool_calls=False
    )

    for field in ("tool_choice", "parallel_tool_calls"):
        assert is_neutral(usual, field)
        assert not is_neutral(forced, field)


def test_values_are_found_in_every_place() -> None:
    request = msgspec.structs.replace(CHAT, user="u", sampling=Sampling(top_k=4))

    assert field_value(request, "user") == "u"
    assert field_value(request, "top_k") == 4
    assert field_value(request, "messages.image") is UNSET
    assert field_value(EMBEDDINGS, "dimensions") is UNSET


def test_unknown_tools_and_extra_fields_can_be_omitted() -> None:
    known, unknown = FunctionTool(name="f"), OpaqueTool(type="t", raw=Raw(b"{}"))
    request = msgspec.structs.replace(
        CHAT, tools=(known, unknown), extra={"x": Raw(b"1"), "y": Raw(b"2")}
    )

    left = without(request, {"tools.opaque", "x"})

    assert left.tools == (known,)
    assert left.extra.keys() == {"y"}
    assert without(request, {"tools"}).tools is UNSET
    only = msgspec.structs.replace(CHAT, tools=(unknown,))
    assert without(only, {"tools.opaque"}).tools is UNSET


def test_an_omitted_template_is_off() -> None:
    assert without(msgspec.structs.replace(COMPLETION, template=True), {"template"}) == COMPLETION


@pytest.mark.parametrize("field", sorted(NOT_OMITTABLE & FIELDS["chat"]))
def test_content_cannot_be_omitted(field: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{field}: this content cannot be omitted") as caught:
        without(CHAT, {field})

    assert caught.value.param == "messages"


def test_a_conversation_that_a_vendor_stores_cannot_be_omitted() -> None:
    thread = Raw(b'{"type":"continue","previous_message_id":"msg_1"}')

    with pytest.raises(InvalidRequest, match="thread: this content cannot be omitted"):
        without(msgspec.structs.replace(CHAT, extra={"thread": thread}), {"thread"})


def test_a_task_cannot_be_omitted() -> None:
    with pytest.raises(InvalidRequest, match="chat: no backend of this model offers it"):
        without(CHAT, {"chat"})


def test_an_unknown_name_cannot_be_omitted() -> None:
    with pytest.raises(InvalidRequest, match="tempature: this kind of request has no such field"):
        without(CHAT, {"tempature"})


def test_requesting_plain_text_has_no_effect() -> None:
    text = ChatRequest(model="m", messages=(), response_format=ResponseFormat(type="text"))
    json = ChatRequest(model="m", messages=(), response_format=ResponseFormat(type="json_object"))

    assert is_neutral(text, "response_format")
    assert not is_neutral(json, "response_format")
