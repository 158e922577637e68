"""Prompts from files and from logged payloads: which are replayed, as what, and in which order."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.experiments.replay.answers import read_answer
from strowger_gateway.gateway.experiments.replay.prompts import (
    Api,
    ReplayedPrompt,
    Unusable,
    prompt_of,
    request_body,
)
from strowger_gateway.gateway.experiments.replay.sources.file_lines import (
    MOST_BYTES,
    file_prompts,
)
from strowger_gateway.gateway.experiments.replay.sources.logged import (
    LoggedPayload,
    prompt_of_payload,
)
from strowger_gateway.gateway.experiments.replay.sources.selection import Selection

TURN = {"role": "user", "content": "hello"}


def read(tmp_path: Path, *lines: object) -> list[ReplayedPrompt | Unusable]:
    file = tmp_path / "prompts.jsonl"
    file.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines))
    return [line.found for line in file_prompts(file)]


def test_lines_of_three_kinds_are_prompts_on_their_apis(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {"surface": "openai", "task": "chat", "model": "m", "request": {"messages": [TURN]}},
        {"surface": "anthropic", "request": {"messages": [TURN], "max_tokens": 5}, "status": 200},
        {"custom_id": "1", "method": "POST", "url": "/v1/responses", "body": {"input": "hello"}},
        "",
        {"messages": [TURN], "model": "gpt", "unit": "ada"},
        {"input": [TURN]},
        {"prompt": "Once upon", "unit": 7},
    )

    prompts = [one for one in found if isinstance(one, ReplayedPrompt)]
    assert len(prompts) == len(found), found
    assert [one.api for one in prompts] == [
        "chat", "messages", "responses", "chat", "responses", "completions",
    ]  # fmt: skip


def test_a_request_that_names_a_prompt_needs_no_message(tmp_path: Path) -> None:
    """The prompt may end with a user section."""
    given = {"prompt_id": "sum", "prompt_variables": {"first": 4}}
    prompt = {"id": "sum", "variables": {"first": 4}}
    found = read(
        tmp_path,
        given,
        {"messages": [], **given},
        {"messages": [{"role": "system", "content": "Be brief."}], **given},
        {"surface": "openai", "task": "chat", "request": given},
        {"surface": "anthropic", "request": {"messages": [], "max_tokens": 5, **given}},
        {"prompt": prompt},
        {"input": [], "prompt": prompt},
        {"surface": "responses", "request": {"prompt": prompt}},
    )

    prompts = [one for one in found if isinstance(one, ReplayedPrompt)]
    assert len(prompts) == len(found), found
    assert [one.api for one in prompts] == [
        "chat", "chat", "chat", "chat", "messages", "responses", "responses", "responses",
    ]  # fmt: skip
    others = read(tmp_path, {**given, "prompt_variables": {"first": 5}})
    units = {one.unit for one in (prompts[0], *others) if isinstance(one, ReplayedPrompt)}
    assert len(units) == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[]", "is not a JSON object"),
        ("{", "is not JSON"),
        ({}, "messages: is missing"),
        ({"messages": []}, "messages: has nothing to answer"),
        ({"messages": "hi"}, None),
        ({"messages": [1]}, "messages: has an item that is not an object"),
        ({"messages": {"role": "user"}}, "messages: is not a list or a text"),
        ({"url": "/v1/embeddings", "body": {"input": "x"}}, "url: is none of /v1/chat/completions"),
        ({"url": "/v1/responses", "body": []}, "body: is not an object"),
        ({"messages": [TURN], "unit": {}}, "unit: is not a text"),
        ({"messages": [TURN], "expected": []}, "expected: is not a text or a number"),
        ({"messages": [TURN], "schema": "x"}, "schema: is not a JSON schema"),
        ({"messages": [TURN], "schema": {"type": 3}}, "schema: 3 is not valid"),
        ({"messages": [TURN], "test": 3}, "test: is not a text"),
        ({"input": "x", "previous_response_id": "r"}, "previous_response_id: continues what"),
        ({"prompt": [1, 2]}, "prompt: has token ids, or several prompts"),
        ({"surface": "mindie", "request": {"input_id": [1]}}, "surface: not a conversation"),
        ({"surface": "openai"}, "request: its body is not in the log"),
        ({"surface": 3, "request": {}}, "Expected `str`, got `int`"),
        ({"messages": [TURN], "unit": None}, None),
        ({"messages": [TURN], "test": "a\0b"}, "test: has a NUL"),
        ({"messages": [TURN], "test": "x" * 200_000}, "test: has a NUL, or more than 100 KiB"),
        ({"messages": [TURN], "schema": {"$ref": "#/a"}}, "schema: $ref: nothing is at"),
        ({"messages": [TURN], "schema": {"items": {"$ref": "#/a"}}}, "schema: $ref: nothing is at"),
        ({"messages": [TURN], "schema": {"$ref": "http://127.0.0.1:9/"}}, "schema: $ref: nothing"),
        ({"messages": [TURN], "schema": {"$ref": "#"}}, "schema: refers to itself without end"),
        ({"messages": [TURN], "schema": {"items": {"$ref": "#"}}}, None),
        ({"input": [{"type": "item_reference", "id": "m"}, TURN]}, "input: has an item_reference"),
        ('{"messages": [' + "[" * 500 + "]" * 500 + "]}", "has lists or objects in more than 100"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_line_that_cannot_be_replayed_is_named_with_its_field(
    tmp_path: Path, line: object, told: str | None
) -> None:
    (found,) = read(tmp_path, line)

    if told is None:
        assert isinstance(found, ReplayedPrompt)
    else:
        assert isinstance(found, Unusable)
        assert told in str(found)


def test_a_file_of_a_windows_editor_is_read_as_any_other(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    line = json.dumps({"messages": [TURN]}).encode()
    file.write_bytes(b"\xef\xbb\xbf" + line + b"\r\n\r\n" + line + b"\r\n")

    found = [(one.number, type(one.found)) for one in file_prompts(file)]

    assert found == [(1, ReplayedPrompt), (3, ReplayedPrompt)]


def test_one_line_that_is_too_long_harms_no_other(tmp_path: Path) -> None:
    good = {"messages": [TURN]}
    found = read(tmp_path, good, '"' + "x" * (2 * MOST_BYTES) + '"', good)

    assert [isinstance(one, ReplayedPrompt) for one in found] == [True, False, True]
    assert str(found[1]) == "is longer than 16 MiB"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": 500}, "the request failed"),
        ({"omitted": ("request",)}, "its body is not in the log"),
        ({"truncated": ("request",), "request": '{"mess'}, "its body is cut"),
        ({"client_request_id": "strowger-replay-trial-1-control"}, "a request of a replay"),
        ({"task": "embeddings"}, "not a conversation or a text on an API that replay speaks"),
        (
            {"request": {"messages": [{"role": "user", "content": "my mail is [email]"}]}},
            "redaction has changed it",
        ),
    ],
)
def test_payloads_that_are_not_whole_are_left_out_by_reason(
    changes: Mapping[str, Any], reason: str
) -> None:
    fields: dict[str, Any] = {"surface": "openai", "task": "chat", "request": {"messages": [TURN]}}
    record = LoggedPayload(**{**fields, **changes})

    with pytest.raises(Unusable) as caught:
        prompt_of_payload(record, replacements=("[email]",))

    assert caught.value.reason == reason


def test_a_redacted_user_is_not_a_unit_of_its_own() -> None:
    def unit(text: str) -> str:
        body = {"messages": [{"role": "user", "content": text}], "user": "[redacted]"}
        record = LoggedPayload(surface="openai", task="chat", request=body)
        return prompt_of_payload(record, replacements=("[redacted]",)).unit

    assert unit("one") != unit("two")
    assert unit("one") == unit("one")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"user": "ada"}, {"user": "ada"}, True),
        ({"user": "ada"}, {"user": "ben"}, False),
        ({"metadata": {"user_id": "s"}}, {"metadata": {"user_id": "s"}}, True),
        ({}, {}, False),
    ],
)
def test_the_unit_is_the_user_or_the_session_or_the_conversation(
    one: dict[str, object], other: dict[str, object], same: bool
) -> None:
    first = prompt_of("chat", {"messages": [{"role": "user", "content": "a"}], **one})
    second = prompt_of("chat", {"messages": [{"role": "user", "content": "b"}], **other})

    assert (first.unit == second.unit) == same


def test_the_turns_of_one_conversation_are_one_unit() -> None:
    later = [TURN, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "more"}]

    assert (
        prompt_of("chat", {"messages": [TURN]}).unit == prompt_of("chat", {"messages": later}).unit
    )


@pytest.mark.parametrize(
    ("api", "logged", "sent"),
    [
        (
            "chat",
            {"messages": [TURN], "model": "m", "stream": True, "stream_options": {}, "user": "ada",
             "n": 3, "temperature": 0.5, "max_completion_tokens": 7, "priority": 1},
            {"messages": [TURN], "model": "arm", "stream": False, "temperature": 0.5,
             "max_completion_tokens": 7, "priority": 5},
        ),
        (
            "chat",
            {"messages": [TURN, {"role": "assistant", "content": "I think"}]},
            {"messages": [TURN], "model": "arm", "stream": False, "max_tokens": 99, "priority": 5},
        ),
        (
            "messages",
            {"messages": [TURN], "system": "s", "metadata": {"user_id": "u"}, "max_tokens": 3},
            {"messages": [TURN], "system": "s", "model": "arm", "stream": False, "max_tokens": 3},
        ),
        (
            "responses",
            {"input": "hello", "store": True},
            {"input": "hello", "model": "arm", "stream": False, "max_output_tokens": 99,
             "store": False},
        ),
        (
            "completions",
            {"prompt": "hello", "max_tokens": None, "best_of": 4},
            {"prompt": "hello", "model": "arm", "stream": False, "max_tokens": 99, "priority": 5},
        ),
    ],
)  # fmt: skip
def test_both_arms_get_the_request_without_what_belongs_to_its_client(
    api: Api, logged: dict[str, object], sent: dict[str, object]
) -> None:
    body, most = request_body(prompt_of(api, logged), "arm", 99)

    assert body == sent
    assert most == next((v for k, v in sent.items() if k.startswith("max_")), None)


ANSWERS: list[tuple[Api, dict[str, Any], str]] = [
        ("chat", {"choices": [{"message": {"content": "hi"}}]}, "hi"),
        ("chat", {"choices": [{"message": {"content": None, "refusal": "no"}}]}, "no"),
        ("chat", {"choices": [{"message": {"content": None, "tool_calls": [
            {"function": {"name": "look", "arguments": '{"x":1}'}}]}}]},
         '[calls look with {"x":1}]'),
        ("chat", {"choices": []}, ""),
        ("messages", {"content": [{"type": "thinking", "thinking": "hm"},
                                  {"type": "text", "text": "hi"},
                                  {"type": "tool_use", "name": "look", "input": {"x": 1}}]},
         'hi\n[calls look with {"x":1}]'),
        ("responses", {"output": [{"type": "reasoning", "summary": []}, {"type": "message",
          "content": [{"type": "output_text", "text": "hi"}]},
          {"type": "function_call", "name": "look", "arguments": "{}"}]},
         "hi\n[calls look with {}]"),
        ("completions", {"choices": [{"text": "hi"}]}, "hi"),
        ("chat", {"choices": [{"message": {"content": "hi"}}], "content": "x", "output": 3}, "hi"),
        ("completions", {"choices": [{"text": None}]}, ""),
        ("responses", {"output": [], "content": None, "choices": "x"}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("api", "response", "text"), ANSWERS)
def test_an_answer_is_its_text_and_its_calls_of_tools(
    api: Api, response: dict[str, object], text: str
) -> None:
    assert read_answer(api, json.dumps(response).encode()).text == text


@pytest.mark.parametrize(
    ("api", "data"),
    [
        ("chat", b"<html>"),
        ("chat", b'{"choices": [null]}'),
        ("responses", b'{"output": "x"}'),
        ("messages", b'{"content": [{"type": "tool_use", "input": ' + b"[" * 5000 + b"]" * 5000),
    ],
    ids=["no JSON", "no choice", "no items", "deep"],
)
def test_an_answer_that_cannot_be_read_is_an_error_of_its_own(api: Api, data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_answer(api, data)


@pytest.mark.parametrize(
    ("api", "usage", "counts"),
    [
        ("chat", {"prompt_tokens": 9, "completion_tokens": 2,
                  "prompt_tokens_details": {"cached_tokens": 4}}, (9, 2, 4)),
        ("responses", {"input_tokens": 9, "output_tokens": 2,
                       "input_tokens_details": {"cached_tokens": 4}}, (9, 2, 4)),
        ("messages", {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 4,
                      "cache_creation_input_tokens": 2}, (9, 2, 4)),
        ("chat", None, (None, None, None)),
    ],
)  # fmt: skip
def test_tokens_are_counted_alike_on_all_apis(
    api: Api, usage: object, counts: tuple[int | None, ...]
) -> None:
    found = read_answer(api, json.dumps({"usage": usage}).encode()).usage

    assert (found.prompt_tokens, found.completion_tokens, found.cached_tokens) == counts


def prompts(units: Sequence[int]) -> list[ReplayedPrompt]:
    return [
        prompt_of("chat", {"messages": [{"role": "user", "content": f"{n}"}], "user": f"{unit}"})
        for n, unit in enumerate(units)
    ]


def selected(found: Sequence[ReplayedPrompt], sample: int, per_unit: int) -> list[str]:
    selection = Selection("run", sample, per_unit)
    for one in found:
        selection.add(one)
    chosen = selection.chosen()
    assert len(chosen) + sum(selection.left_out.values()) == len(found)
    return [one.body for one in chosen]


@given(
    st.lists(st.integers(0, 6), max_size=60),
    st.integers(1, 20),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
def test_the_order_of_a_source_decides_nothing(
    units: list[int], sample: int, per_unit: int, random: Any
) -> None:
    found = prompts(units)
    shuffled = list(found)
    random.shuffle(shuffled)

    assert selected(found, sample, per_unit) == selected(shuffled, sample, per_unit)


@given(st.lists(st.integers(0, 6), max_size=60), st.integers(1, 20), st.integers(1, 5))
def test_a_smaller_sample_is_the_beginning_of_a_larger_one(
    units: list[int], sample: int, per_unit: int
) -> None:
    found = prompts(units)
    whole = selected(found, 1_000, per_unit)

    assert selected(found, sample, per_unit) == whole[:sample]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(1, 5))
def test_a_unit_has_no_more_than_its_share_and_its_prompts_follow_each_other(
    units: list[int], per_unit: int
) -> None:
    selection = Selection("run", 1_000, per_unit)
    for one in prompts(units):
        selection.add(one)
    order = [one.unit for one in selection.chosen()]

    assert max(order.count(unit) for unit in set(order)) <= per_unit
    assert len(
        [1 for place, unit in enumerate(order) if order[place - 1 : place] != [unit]]
    ) == len(set(order))


def test_the_same_prompt_of_the_same_unit_is_replayed_once() -> None:
    selection = Selection("run", 10, 10)
    for _ in range(3):
        selection.add(prompt_of("chat", {"messages": [TURN]}))

    assert len(selection.chosen()) == 1
    assert selection.left_out == {"the same prompt of the same unit again": 2}
