"""Conversations are encoded as Anthropic's turns and blocks; unsupported fields are rejected."""

import base64
import json
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from strowger_gateway.schemas.messages import (
    FunctionTool,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    Role,
    TextPart,
    Thought,
    ToolCall,
)
from tests.adapters.anthropic.anthropic_doubles import (
    CACHE,
    CALL,
    HELLO,
    Json,
    chat,
    content_of,
    file,
    raw,
    refused,
    sent,
    turns,
    user,
)


def test_system_and_developer_messages_are_the_system_in_order() -> None:
    body = sent(
        chat(
            Message(role="system", content="One."),
            Message(role="developer", content=(TextPart(text="Two."), TextPart(text=""))),
            HELLO,
            Message(role="system", content="Three."),
        )
    )

    assert body["system"] == [{"type": "text", "text": one} for one in ("One.", "Two.", "Three.")]
    assert len(cast("list[Json]", body["messages"])) == 1


def test_a_conversation_of_only_instructions_is_refused() -> None:
    assert refused(chat(Message(role="system", content="One."))) == "messages"


def test_neighbours_of_one_role_become_one_message() -> None:
    found = turns(
        HELLO,
        Message(role="user", content="again"),
        Message(role="assistant", content="yes"),
        Message(role="assistant", content="?"),
    )

    assert [one["role"] for one in found] == ["user", "assistant"]
    assert [len(cast("list[Json]", one["content"])) for one in found] == [2, 2]


def test_results_of_tools_are_one_message_of_the_user_with_the_results_first() -> None:
    found = turns(
        HELLO,
        Message(
            role="assistant",
            tool_calls=(CALL, ToolCall(id="toolu_2", name="now", arguments=" ")),
        ),
        Message(role="tool", content="19", tool_call_id="toolu_1", name="look"),
        Message(role="user", content="And?"),
        Message(
            role="tool",
            content=(TextPart(text="noon"), ImagePart(url="https://a.test/clock.png")),
            tool_call_id="toolu_2",
            raw=raw({"role": "tool", "is_error": True}),
        ),
    )

    assert found[1]["content"] == [
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "Bern"}},
        {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
    ]
    assert found[2] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "19"},
            {
                "type": "tool_result",
                "tool_use_id": "toolu_2",
                "content": [
                    {"type": "text", "text": "noon"},
                    {
                        "type": "image",
                        "source": {"type": "url", "url": "https://a.test/clock.png"},
                    },
                ],
                "is_error": True,
            },
            {"type": "text", "text": "And?"},
        ],
    }


@given(st.lists(st.sampled_from(["system", "user", "assistant", "tool"]), max_size=12))
def test_turns_alternate_and_lose_nothing_in_any_order(roles: list[Role]) -> None:
    messages = [
        Message(role=role, content=f"t{at}", tool_call_id=f"id{at}")
        for at, role in enumerate(roles)
    ]

    body = sent(chat(HELLO, *messages))

    found = cast("list[Json]", body["messages"])
    assert all(one["role"] != two["role"] for one, two in pairwise(found))
    text = json.dumps(body)
    assert all(f'"t{at}"' in text for at in range(len(roles)))


def test_reasoning_is_sent_back_unchanged_before_text_and_calls() -> None:
    turn = Message(
        role="assistant",
        content="One moment.",
        thoughts=(
            Thought(text="Hm.", signature="c2ln"),
            Thought(data="ZW5j"),
            Thought(text="This is unsigned."),
            Thought(signature="aGlkZGVu"),
        ),
        tool_calls=(CALL,),
    )

    content = cast("list[Json]", turns(HELLO, turn)[1]["content"])

    assert content == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZW5j"},
        {"type": "thinking", "thinking": "", "signature": "aGlkZGVu"},
        {"type": "text", "text": "One moment."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "Bern"}},
    ]


def handed(text: str, *blocks: Json) -> Message:
    return Message(
        role="assistant",
        content=text,
        tool_calls=(CALL,),
        raw=raw({"role": "assistant", "content_blocks": blocks}),
    )


def test_an_answers_own_blocks_are_sent_back_as_they_are_until_the_answer_is_edited() -> None:
    search: Json = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    text: Json = {"type": "text", "text": "Hm.", "citations": [{"type": "x"}]}
    call: Json = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "Bern"}}

    kept = turns(HELLO, handed("Hm.", search, text, call))
    edited = turns(HELLO, handed("Ha.", search, text, call))

    assert kept[1]["content"] == [search, text, call]
    assert edited[1]["content"] == [{"type": "text", "text": "Ha."}, call]


def test_blank_text_next_to_calls_is_not_a_block() -> None:
    found = turns(HELLO, Message(role="assistant", content="\n", tool_calls=(CALL,)))

    assert [one["type"] for one in cast("list[Json]", found[1]["content"])] == ["tool_use"]


def test_marks_for_the_cache_are_sent_from_parts_messages_and_tools() -> None:
    marked = {"type": "text", "text": "long", "cache_control": CACHE}
    body = sent(
        chat(
            Message(role="system", content="One.", raw=raw({"cache_control": CACHE})),
            user(
                TextPart(text="long", raw=raw(marked)),
                ImagePart(url="https://a.test/a.png", raw=raw({"cache_control": CACHE})),
                TextPart(text="short"),
            ),
            Message(role="assistant", tool_calls=(CALL,)),
            Message(
                role="tool",
                content="19",
                tool_call_id="toolu_1",
                raw=raw({"cache_control": CACHE}),
            ),
            tools=(
                FunctionTool(
                    name="look",
                    raw=raw({"type": "function", "function": {}, "cache_control": CACHE}),
                ),
            ),
        )
    )

    messages = cast("list[Json]", body["messages"])
    first, _, last = (cast("list[Json]", one["content"]) for one in messages)
    assert cast("list[Json]", body["system"])[0]["cache_control"] == CACHE
    assert [one.get("cache_control") for one in first] == [CACHE, CACHE, None]
    assert last[0]["cache_control"] == CACHE
    assert cast("list[Json]", body["tools"])[0]["cache_control"] == CACHE


def test_images_are_sent_as_bytes_or_as_addresses() -> None:
    found = content_of(
        ImagePart(url="data:image/png;base64,iVBORw0KGgo=", detail="auto"),
        ImagePart(url="https://a.test/cat.png"),
    )

    assert [one["source"] for one in found] == [
        {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
        {"type": "url", "url": "https://a.test/cat.png"},
    ]


def test_documents_are_sent_as_bytes_text_addresses_and_files() -> None:
    note = base64.b64encode("größer".encode()).decode()
    found = content_of(
        file(file_data="data:application/pdf;base64,JVBERi0=", filename="a.pdf"),
        file(file_data=f"data:text/markdown;base64,{note}"),
        file(file_url="https://a.test/a.pdf"),
        file(file_id="file_1"),
        file(file_data="data:image/png;base64,iVBORw0KGgo=", filename="a.png"),
    )

    assert found[0] == {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
        "title": "a.pdf",
    }
    assert [one["source"] for one in found[1:4]] == [
        {"type": "text", "media_type": "text/plain", "data": "größer"},
        {"type": "url", "url": "https://a.test/a.pdf"},
        {"type": "file", "file_id": "file_1"},
    ]
    assert found[4]["type"] == "image"


@pytest.mark.parametrize("kind", ["document", "search_result", "web_search_tool_result"])
def test_blocks_in_anthropics_format_are_sent_unchanged(kind: str) -> None:
    block = {"type": kind, "source": {"type": "text", "data": "x"}, "citations": {"enabled": True}}

    assert content_of(OpaquePart(type=kind, raw=raw(block))) == [block]


@pytest.mark.parametrize(
    ("part", "path"),
    [
        (ImagePart(url="https://a.test/a.png", detail="high"), ".image_url.detail"),
        (ImagePart(url="data:;base64,AAAA"), ".image_url.url"),
        (ImagePart(url="data:image/png,AAAA"), ".image_url.url"),
        (file(), ".file"),
        (file(file_data="JVBERi0="), ".file.file_data"),
        (file(file_data="data:audio/wav;base64,AAAA"), ".file.file_data"),
        (file(file_data="data:text/plain;base64,/w=="), ".file.file_data"),
        (OpaquePart(type="file", raw=Raw(b'{"file":[]}')), ".file"),
        (OpaquePart(type="video_url", raw=Raw(b"{}")), ""),
    ],
)
def test_a_part_that_cannot_be_expressed_is_refused_by_its_path(part: Part, path: str) -> None:
    request = chat(HELLO, user(TextPart(text="What?"), part))

    assert refused(request) == f"messages[1].content[1]{path}"


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (Message(role="user", content="hi", name="ann"), "messages[1].name"),
        (Message(role="function", content="1", name="look"), "messages[1].role"),
        (Message(role="tool", content="1"), "messages[1].tool_call_id"),
        (
            Message(role="system", content=(ImagePart(url="https://a.test/a.png"),)),
            "messages[1].content[0]",
        ),
        *(
            (
                Message(
                    role="assistant",
                    tool_calls=(CALL, ToolCall(id="x", name="look", arguments=arguments)),
                ),
                "messages[1].tool_calls[1].function.arguments",
            )
            for arguments in ('{"at":', "[1]", "word", "1", "[" * 100_000)
        ),
    ],
)
def test_a_message_that_cannot_be_expressed_is_refused_by_its_path(
    message: Message, path: str
) -> None:
    assert refused(chat(HELLO, message)) == path
