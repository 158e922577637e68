"""Ollama's answers decode to events."""

import json

import pytest

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.ollama.adapter import OllamaAdapter
from strowger_gateway.adapters.testing import recordings, request_for, translate
from strowger_gateway.schemas.errors import (
    UpstreamBroken,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamRejected,
)
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    OpaqueDelta,
    ReasoningDelta,
    Started,
    TextDelta,
    TokenLogprob,
    ToolDelta,
    Usage,
)
from strowger_gateway.schemas.messages import Message, ToolCall
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, EmbeddingsRequest
from strowger_gateway.schemas.tasks.task import Unsampled
from tests.adapters.chats import only_choice
from tests.adapters.traffic import RECORDINGS, fixture

OLLAMA = OllamaAdapter(Endpoint(name="ollama", base_url="http://gpu.test:11434"))
HELLO = Message(role="user", content="hello")
WHOLE = ChatRequest(model="m", messages=(HELLO,))
STREAM = ChatRequest(model="m", messages=(HELLO,), stream=True)

MOMENT = "2026-03-01T10:20:30.5Z"


def line(**fields: object) -> bytes:
    body = {"model": "m", "created_at": MOMENT, "done": False, **fields}
    return json.dumps(body).encode() + b"\n"


def whole(**fields: object) -> list[Event]:
    message = {"role": "assistant", "content": "hi"}
    last = {"message": message, "done": True, "done_reason": "stop", **fields}
    return translate(OLLAMA, WHOLE, [line(**last)])


def read(name: str) -> list[Event]:
    case = fixture(name)
    request = request_for(case)
    assert not isinstance(request, Unsampled)
    return translate(OLLAMA, request, [case.body])


def finished(events: list[Event]) -> Finished:
    return next(one for one in events if isinstance(one, Finished))


def usage(events: list[Event]) -> Usage:
    return next(one for one in events if isinstance(one, Usage))


PNG, JPEG = "iVBORw0KGgo=", "/9j/4AAQ"


def image(kind: str, data: str, index: int) -> dict[str, object]:
    url = {"url": f"data:{kind};base64,{data}"}
    return {"type": "image_url", "image_url": url, "index": index}


def opaque(events: list[Event]) -> dict[str, object]:
    (found,) = [one for one in events if isinstance(one, OpaqueDelta)]
    return {name: json.loads(bytes(raw)) for name, raw in found.fields.items()}


def test_images_in_an_answer_reach_the_client_as_images_of_its_message() -> None:
    both = {"role": "assistant", "content": "", "images": [PNG, JPEG]}
    expected = {"images": [image("image/png", PNG, 0), image("image/jpeg", JPEG, 1)]}

    assert opaque(whole(message=both)) == expected
    pieces = [{**both, "images": [one]} for one in both["images"]]
    lines = [line(message=one) for one in pieces]
    end = line(message={"role": "assistant", "content": ""}, done=True, done_reason="stop")
    assert opaque(translate(OLLAMA, STREAM, [*lines, end])) == expected


def test_the_image_of_a_model_that_generates_images_reaches_the_client() -> None:
    request = CompletionRequest(model="m", prompts=("a cat",))
    body = line(response="", image=PNG, done=True, done_reason="stop")

    assert opaque(translate(OLLAMA, request, [body])) == {"images": [image("image/png", PNG, 0)]}


def test_thinking_text_and_complete_tool_calls_come_in_their_order() -> None:
    events = read("ollama/chat-stream-thinking-tools")

    assert events[:-1] == [
        Started(model="gpt-oss:20b", created=1772360430),
        ReasoningDelta(text="Two tools"),
        ReasoningDelta(text=" will do."),
        TextDelta(text="Let me look 🔎"),
        ToolDelta(
            tool=0,
            id="call_20260301102030123456780_0",
            name="weather",
            arguments='{"city":"Zürich","days":[1,2]}',
        ),
        ToolDelta(tool=1, id="call_k3v9x0aa", name="clock", arguments="{}"),
        Finished(reason="tool_calls", native="stop"),
    ]
    counts = usage(events)
    assert (counts.prompt_tokens, counts.completion_tokens, counts.total_tokens) == (31, 24, 55)
    assert counts.raw is not None
    assert json.loads(bytes(counts.raw))["eval_duration"] == 1200000000


def test_a_complete_answer_gives_calls_without_ids_generated_ones() -> None:
    found = only_choice(read("ollama/chat-tools-parallel"))

    assert found.text is None
    assert found.reasoning == "Both."
    assert found.tool_calls == [
        ToolCall(id="call_20260301102030123456780_0", name="weather", arguments='{"city":"Bern"}'),
        ToolCall(id="call_20260301102030123456780_1", name="clock", arguments="{}"),
    ]


def test_invented_ids_differ_between_the_turns_of_a_conversation() -> None:
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f"}}]}
    turns = [whole(message=call, created_at=f"2026-03-01T10:20:3{turn}Z") for turn in range(3)]

    ids = {only_choice(events).tool_calls[0].id for events in turns}

    assert len(ids) == 3
    assert only_choice(turns[0]).tool_calls[0].id == "call_20260301102030_0"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(None, "{}"), ("", "{}"), ('{"a": 1}', '{"a": 1}'), ({"a": [None]}, '{"a": [null]}')],
)
def test_arguments_are_text_however_they_came(arguments: object, text: str) -> None:
    calls = [{"function": {"name": "f", "arguments": arguments}}]

    events = whole(message={"role": "assistant", "tool_calls": calls})

    assert only_choice(events).tool_calls[0].arguments == text


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("stop", Finished(reason="stop")),
        ("length", Finished(reason="length")),
        ("something new", Finished(reason="stop", native="something new")),
        (None, Finished(reason="stop")),
    ],
)
def test_reasons_to_end(word: str | None, finish: Finished) -> None:
    assert finished(whole(done_reason=word)) == finish


def test_an_answer_that_was_cut_in_a_tool_call_ends_with_length() -> None:
    calls = [{"function": {"name": "f"}}]

    events = whole(message={"role": "assistant", "tool_calls": calls}, done_reason="length")

    assert finished(events) == Finished(reason="length")


@pytest.mark.parametrize("word", ["load", "unload"])
def test_a_command_to_the_server_is_not_an_answer(word: str) -> None:
    with pytest.raises(UpstreamFailed, match="nothing was generated") as caught:
        whole(done_reason=word)

    assert caught.value.code == word


def test_the_recorded_command_to_unload_a_model_is_not_an_answer() -> None:
    found = [
        one
        for one in recordings(RECORDINGS / "ollama")
        if one.name.endswith("/doc-generate-unload")
    ]
    if not found:
        pytest.skip("the recordings are not here")

    with pytest.raises(UpstreamFailed, match="unload"):
        translate(OLLAMA, WHOLE, [found[0].body])


def test_log_probabilities_go_with_their_text() -> None:
    found = only_choice(read("ollama/chat-stream-logprobs"))

    best = TokenLogprob(token="Hi", logprob=-0.25)
    assert found.text == "Hi!"
    assert found.logprobs == [
        TokenLogprob(token="Hi", logprob=-0.25, top=(best, TokenLogprob(token="Yo", logprob=-1.5))),
        TokenLogprob(token="!", logprob=-0.5),
    ]


def test_a_count_that_is_missing_is_not_known() -> None:
    events = read("ollama/generate-length")

    assert usage(events).prompt_tokens is None
    assert usage(events).completion_tokens == 7
    assert usage(events).total_tokens is None
    assert finished(events).reason == "length"


def test_counts_that_are_not_numbers_do_not_fail_an_answer() -> None:
    assert usage(whole(eval_count="many")) == Usage()


def test_thinking_of_a_completion_is_separate_from_its_text() -> None:
    found = only_choice(read("ollama/generate-stream-thinking"))

    assert (found.reasoning, found.text) == ("A sum.", "4")


def test_an_empty_answer_is_an_empty_text() -> None:
    events = whole(message={"role": "assistant", "content": ""})

    assert only_choice(events).text == ""


def test_the_model_behind_a_cloud_model_is_reported_and_a_moment_may_be_anything() -> None:
    (started,) = (
        one for one in whole(remote_model="big", created_at="now") if isinstance(one, Started)
    )

    assert started.created == 0
    assert bytes(started.extra["remote_model"]) == b'"big"'


def test_an_error_line_after_text_fails_the_stream_with_its_message() -> None:
    with pytest.raises(UpstreamFailed, match="ollama: llama runner process has terminated"):
        read("ollama/error-inside-stream")


@pytest.mark.parametrize(
    ("status", "kind"), [(400, UpstreamRejected), (401, UpstreamRefused), (500, UpstreamFailed)]
)
def test_an_error_line_may_have_a_status(status: int, kind: type[Exception]) -> None:
    body = json.dumps({"error": "no", "status": status}).encode()

    with pytest.raises(kind):
        translate(OLLAMA, STREAM, [body])


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [line(message={"content": "hi"})],
        [line(message={"content": "hi"}), b'{"model":"m","done":true'],
        [line(message={"content": "hi"}), b"<html>\n"],
        [b"[]\n"],
    ],
)
def test_a_stream_without_its_last_line_is_broken(pieces: list[bytes]) -> None:
    with pytest.raises(UpstreamBroken):
        translate(OLLAMA, STREAM, pieces)


def test_what_follows_the_last_line_is_not_read() -> None:
    done = line(message={"content": "hi"}, done=True, done_reason="stop")

    events = translate(OLLAMA, STREAM, [done, line(message={"content": "more"})])

    assert only_choice(events).text == "hi"


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("error-400-thinking", UpstreamRejected, "does not support thinking"),
        ("error-400-context", UpstreamRejected, "exceeds the context length"),
        ("error-401-cloud", UpstreamRefused, "unauthorized"),
        ("error-404-model", UpstreamRefused, "model 'nope' not found"),
        ("error-503-queue", UpstreamFailed, "server busy"),
    ],
)
def test_errors_say_who_must_act(name: str, kind: type[Exception], words: str) -> None:
    case = fixture(f"ollama/{name}")

    error = OLLAMA.error(case.status, case.headers, case.body)

    assert isinstance(error, kind)
    assert words in str(error)


def test_vectors_come_in_the_order_of_their_inputs_with_the_prompts_count() -> None:
    request = EmbeddingsRequest(model="m", inputs=("one", "two"))

    found = OLLAMA.embeddings(request, fixture("ollama/embed-two").body)

    assert found.vectors == ([0.5, -0.25, 1.0], [0.0, 0.125, -1.0])
    assert found.model == "nomic-embed-text"
    assert found.usage.prompt_tokens == 6


def test_too_few_vectors_and_errors_are_not_an_answer() -> None:
    three = EmbeddingsRequest(model="m", inputs=("one", "two", "three"))

    with pytest.raises(UpstreamBroken, match="2 vectors for 3 inputs"):
        OLLAMA.embeddings(three, fixture("ollama/embed-two").body)
    with pytest.raises(UpstreamFailed, match="out of memory"):
        OLLAMA.embeddings(three, b'{"error":"out of memory"}')
