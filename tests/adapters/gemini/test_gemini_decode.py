"""Gemini's answers decode to events."""

import json

import pytest

from strowger_gateway.adapters.testing import translate
from strowger_gateway.schemas.errors import UpstreamBroken
from strowger_gateway.schemas.events import (
    Finished,
    OpaqueDelta,
    ReasoningDelta,
    Started,
    TextDelta,
    TokenLogprob,
    ToolDelta,
    Usage,
)
from strowger_gateway.schemas.messages import GEMINI as GEMINIS
from strowger_gateway.schemas.messages import Thought, ToolCall
from strowger_gateway.schemas.requests import EmbeddingsRequest
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.searches import SEARCHES, Search, searches_of
from tests.adapters.chats import folded, only_choice
from tests.adapters.gemini.gemini_doubles import (
    GEMINI,
    VERTEX_URL,
    Json,
    adapter,
    candidate,
    chat,
    read,
    streamed,
    whole,
)
from tests.adapters.traffic import fixture


def test_a_stream_with_reasoning_text_and_calls_becomes_events() -> None:
    events = read("stream-thinking-tools")

    plain = [one for one in events if not isinstance(one, Usage)]
    assert plain == [
        Started(id="aB3_xyZ-9", model="gemini-3-flash-preview", created=1772360430),
        ReasoningDelta(text="Two tools"),
        ReasoningDelta(text=" will do."),
        TextDelta(text="Let me look 🔎"),
        ToolDelta(
            tool=0,
            id="call_aB3_xyZ-9_0_0",
            name="weather",
            arguments='{"city": "Zürich", "days": [1, 2]}',
            signature="c2lnbmVk",
        ),
        ToolDelta(tool=1, id="fc-7", name="clock", arguments="{}"),
        Finished(reason="tool_calls", native="STOP"),
    ]


def test_reasoning_and_the_prompts_of_tools_are_counted() -> None:
    usage = folded(read("stream-thinking-tools")).usage

    assert usage is not None
    assert usage.prompt_tokens == 31 + 3
    assert usage.completion_tokens == 24 + 11
    assert usage.total_tokens == 69
    assert usage.cached_tokens == 16
    assert usage.reasoning_tokens == 11


def test_counts_that_are_not_there_are_not_known() -> None:
    vague = candidate({"text": "a"}, finishReason="STOP")

    usages = [
        folded(whole({**vague, "usageMetadata": counts})).usage
        for counts in ({"trafficType": "ON_DEMAND"}, {"promptTokenCount": 4}, {"x": "y"})
    ]

    assert usages[0] is None
    assert usages[1] is not None
    assert (usages[1].prompt_tokens, usages[1].completion_tokens) == (4, None)
    assert usages[2] is None


def test_a_signature_goes_with_its_reasoning_or_is_a_separate_block() -> None:
    found = only_choice(read("stream-signed-text"))

    assert found.text == "Hi"
    assert found.thoughts == [
        Thought(text="Hm.", signature="Zmlyc3Q=", format=GEMINIS),
        Thought(text="", signature="c2Vjb25k", format=GEMINIS),
    ]


def test_a_signed_text_after_unsigned_reasoning_begins_a_block() -> None:
    found = only_choice(
        streamed(
            candidate({"text": "Hm", "thought": True}),
            candidate({"text": "."}, {"text": "ok", "thoughtSignature": "c2ln"}),
            candidate(finishReason="STOP"),
        )
    )

    assert found.thoughts == [
        Thought(text="Hm"),
        Thought(text="", signature="c2ln", format=GEMINIS),
    ]
    assert found.text == ".ok"


def test_candidates_are_choices_in_their_own_order() -> None:
    case = fixture("gemini/chat-two-candidates")

    events = translate(GEMINI, chat(sampling=Sampling(n=2)), [case.body])

    found = folded(events).choices
    assert [(one.index, one.text) for one in found] == [(0, "A"), (1, "B")]
    assert [one.finish.reason for one in found if one.finish] == ["stop", "length"]


def test_log_probabilities_come_with_their_text() -> None:
    chosen = [{"token": "Hi", "tokenId": 5, "logProbability": -0.25}]
    top = [{"candidates": [*chosen, {"token": "Yo", "tokenId": 6, "logProbability": -1.5}]}]
    result = {"chosenCandidates": chosen, "topCandidates": top}

    found = only_choice(
        whole(candidate({"text": "Hi"}, finishReason="STOP", logprobsResult=result))
    )

    first, other = (
        TokenLogprob(token="Hi", logprob=-0.25, id=5),
        TokenLogprob(token="Yo", logprob=-1.5, id=6),
    )
    assert found.logprobs == [TokenLogprob(token="Hi", logprob=-0.25, id=5, top=(first, other))]


def test_grounding_metadata_is_forwarded_unchanged() -> None:
    found = only_choice(read("chat-grounded"))

    fields = found.opaque.keys() - {SEARCHES}
    assert fields == {"safety_ratings", "citation_metadata", "grounding_metadata"}
    assert searches_of(found.opaque) == (Search(queries=("weather Zürich",)),)
    assert json.loads(bytes(found.opaque["grounding_metadata"])) == {
        "webSearchQueries": ["weather Zürich"]
    }


OWN_CALL: Json = {
    "toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}},
    "thoughtSignature": "c2ln",
}
OWN_RESULT: Json = {"toolResponse": {"id": "t", "response": {"found": [1]}}}


@pytest.mark.parametrize("stream", [False, True])
def test_calls_of_googles_own_tools_are_reported_completely_with_their_signatures(
    stream: bool,
) -> None:
    parts: list[Json] = [OWN_CALL, OWN_RESULT, {"text": "It rains."}]
    if stream:
        frames = [candidate(part) for part in parts]
        found = streamed(*frames, candidate(finishReason="STOP"))
    else:
        found = whole(candidate(*parts, finishReason="STOP"))

    told = only_choice(found)
    assert json.loads(bytes(told.opaque["gemini_parts"])) == [OWN_CALL, OWN_RESULT]
    assert (told.text, told.thoughts, told.tool_calls) == ("It rains.", [], [])


@pytest.mark.parametrize("stream", [False, True])
def test_geminis_fields_of_candidates_and_of_the_answer_are_reported(stream: bool) -> None:
    of_candidate: Json = {"avgLogprobs": -0.25, "continuationToken": "YQ==", "newsOfTomorrow": [1]}
    of_answer: Json = {
        "promptFeedback": {"safetyRatings": [{"category": "HARM", "probability": "LOW"}]},
        "modelStatus": {"modelStage": "PREVIEW"},
    }
    last = {**candidate({"text": "Hi"}, finishReason="CONTINUATION", **of_candidate), **of_answer}

    found = streamed(candidate({"text": "Oh. "}), last) if stream else whole(last)

    told = only_choice(found)
    assert {name: json.loads(bytes(raw)) for name, raw in told.opaque.items()} == {
        "avg_logprobs": -0.25,
        "continuation_token": "YQ==",
        "news_of_tomorrow": [1],
    }
    assert told.finish is not None
    assert told.finish.reason == "length"
    extra = [one for one in found if isinstance(one, Started)][-1].extra
    assert {name: json.loads(bytes(raw)) for name, raw in extra.items()} == {
        "prompt_feedback": of_answer["promptFeedback"],
        "model_status": of_answer["modelStatus"],
    }


def test_parts_without_a_place_are_gathered_in_order() -> None:
    events = read("chat-code")

    (opaque,) = [one for one in events if isinstance(one, OpaqueDelta)]
    parts = json.loads(bytes(opaque.fields["gemini_parts"]))
    assert [list(one) for one in parts] == [["executableCode"], ["codeExecutionResult"]]
    assert only_choice(events).text == "1"


@pytest.mark.parametrize("stream", [False, True])
def test_images_come_as_openai_compatible_clients_know_them(stream: bool) -> None:
    parts: tuple[dict[str, object], ...] = (
        {"text": "Look:"},
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}},
        {"inlineData": {"mimeType": "image/jpeg", "data": "/9j/"}, "thought": True},
        {"inlineData": {"mimeType": "image/jpeg", "data": "/9k="}},
    )
    if stream:
        frames = [candidate(part) for part in parts[:-1]]
        found = only_choice(streamed(*frames, candidate(parts[-1], finishReason="STOP")))
    else:
        found = only_choice(whole(candidate(*parts, finishReason="STOP")))

    assert found.text == "Look:"
    assert json.loads(bytes(found.opaque["images"])) == [
        {"type": "image_url", "image_url": {"url": url}, "index": index}
        for index, url in enumerate(
            ["data:image/png;base64,iVBORw0KGgo=", "data:image/jpeg;base64,/9k="]
        )
    ]
    others = json.loads(bytes(found.opaque["gemini_parts"]))
    assert [one["inlineData"]["mimeType"] for one in others] == ["audio/wav", "image/jpeg"]


def test_arguments_that_come_in_pieces_make_one_call() -> None:
    def piece(path: str, **value: object) -> object:
        return {"jsonPath": path, **value}

    found = only_choice(
        streamed(
            candidate(
                {
                    "functionCall": {"name": "look", "willContinue": True},
                    "thoughtSignature": "c2ln",
                }
            ),
            candidate(
                {
                    "functionCall": {
                        "partialArgs": [
                            piece("$.at.city", stringValue="Zü", willContinue=True),
                            piece("$.at.city", stringValue="rich"),
                            piece("$.days[1]", numberValue=2),
                        ],
                        "willContinue": True,
                    }
                }
            ),
            candidate(
                {
                    "functionCall": {
                        "partialArgs": [
                            piece("$.days[0]", numberValue=1),
                            piece("$['a b']", boolValue=True),
                            piece("$.none", nullValue="NULL_VALUE"),
                        ],
                        "willContinue": True,
                    }
                }
            ),
            candidate({"functionCall": {}}, finishReason="STOP"),
        )
    )

    (call,) = found.tool_calls
    assert call == ToolCall(
        id="call_r1_0_0", name="look", arguments=call.arguments, signature="c2ln"
    )
    assert json.loads(call.arguments) == {
        "at": {"city": "Zürich"},
        "days": [1, 2],
        "a b": True,
        "none": None,
    }


@pytest.mark.parametrize("path", ["city", "$", "$.a.b"])
def test_a_piece_without_a_place_breaks_the_answer(path: str) -> None:
    pieces = [{"jsonPath": "$.a", "numberValue": 1}, {"jsonPath": path, "stringValue": "x"}]
    call = {"name": "look", "partialArgs": pieces, "willContinue": True}

    with pytest.raises(UpstreamBroken, match="cannot assemble a call's arguments"):
        streamed(candidate({"functionCall": call}))


@pytest.mark.parametrize(
    ("case", "prompt_tokens"),
    [("embeddings-two", None), ("embeddings-predict", 5), ("embeddings-vertex-one", 3)],
)
def test_vectors_come_by_each_route(case: str, prompt_tokens: int | None) -> None:
    answer = fixture(f"gemini/{case}").body
    expected = ([0.5, -0.25], [0.0, 1.0])[: 1 if case.endswith("one") else 2]
    request = EmbeddingsRequest(model="m", inputs=("x",) * len(expected))

    found = adapter(VERTEX_URL).embeddings(request, answer)

    assert found.vectors == expected
    assert found.usage.prompt_tokens == prompt_tokens


def test_too_few_vectors_are_not_an_answer() -> None:
    request = EmbeddingsRequest(model="m", inputs=("x", "y", "z"))

    with pytest.raises(UpstreamBroken, match="2 vectors for 3 inputs"):
        GEMINI.embeddings(request, fixture("gemini/embeddings-two").body)
