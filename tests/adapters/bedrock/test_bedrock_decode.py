"""Converse's answers and errors decode to events and errors of ours."""

import json
from base64 import b64encode
from typing import cast

import pytest
from msgspec import Raw

from strowger_gateway.adapters.bedrock.decode import FINISH, MALFORMED
from strowger_gateway.adapters.testing import translate
from strowger_gateway.schemas.errors import (
    GatewayError,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamOverloaded,
    UpstreamRefused,
    UpstreamRejected,
    UpstreamTimeout,
)
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    OpaqueDelta,
    ReasoningDelta,
    Started,
    Usage,
)
from strowger_gateway.schemas.messages import CLAUDE
from tests.adapters.bedrock.bedrock_doubles import BEDROCK, KEY, answered
from tests.adapters.chats import chat, only_choice
from tests.adapters.traffic import RECORDINGS
from tests.stand_ins.bedrock_server import (
    REQUEST_ID,
    USAGE,
    Json,
    call_starts,
    delta,
    ends,
    error,
    event,
    exception,
    starts,
    stops,
    whole,
)


def events(*pieces: bytes, **fields: object) -> list[Event]:
    return translate(BEDROCK, chat(stream=True, **fields), [b"".join(pieces)])


def ended(word: str, *, stream: bool) -> list[Event]:
    if stream:
        return events(starts(), delta(0, {"text": "a"}), *ends(word))
    return answered(whole(word, {"text": "a"}))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("word", FINISH)
def test_every_stop_reason_has_its_meaning(word: str, stream: bool) -> None:
    found = ended(word, stream=stream)

    (finished,) = (one for one in found if isinstance(one, Finished))
    means = "stop" if word == "tool_use" else FINISH[word]  # there is no call in it
    assert (finished.reason, finished.native) == (means, word)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("word", sorted(MALFORMED))
def test_an_unusable_answer_is_a_failure_with_its_usage(word: str, stream: bool) -> None:
    with pytest.raises(UpstreamFailed, match=f"aws: the answer ended with '{word}'") as caught:
        ended(word, stream=stream)

    assert caught.value.code == word
    assert caught.value.usage is not None, "it is charged for"
    assert (caught.value.usage.prompt_tokens, caught.value.usage.completion_tokens) == (31, 5)


def test_an_unusable_answer_is_a_failure_without_its_counts_too() -> None:
    failed, *_ = ends("malformed_tool_use")

    with pytest.raises(UpstreamFailed, match="ended with 'malformed_tool_use'"):
        events(starts(), delta(0, {"text": "a"}), failed)


def test_an_unknown_stop_reason_is_an_end_and_is_reported() -> None:
    (finished,) = (
        one for one in answered(whole("bored", {"text": "a"})) if isinstance(one, Finished)
    )

    assert (finished.reason, finished.native) == ("stop", "bored")


def test_the_stop_string_is_reported_if_the_model_reports_it() -> None:
    stop: Json = {
        "stopReason": "stop_sequence",
        "additionalModelResponseFields": {"stop_sequence": "END"},
    }

    counts = event("metadata", {"usage": USAGE})
    found = events(starts(), delta(0, {"text": "a"}), event("messageStop", stop), counts)

    assert only_choice(found).finish is not None
    assert cast("Finished", only_choice(found).finish).stop_match == "END"


def test_an_answer_is_known_by_the_id_of_its_request() -> None:
    decoder = BEDROCK.decoder_of(chat(stream=True), {"x-amzn-requestid": REQUEST_ID})

    assert decoder.feed("messageStart", b'{"role":"assistant"}') == [Started(id=REQUEST_ID)]


def test_prompts_are_counted_with_what_the_cache_held() -> None:
    usage = answered(whole("end_turn", {"text": "a"}))[-1]

    assert isinstance(usage, Usage)
    assert (usage.prompt_tokens, usage.cached_tokens, usage.cache_write_tokens) == (31, 20, 0)
    assert (usage.completion_tokens, usage.total_tokens) == (5, 36)
    assert usage.raw is not None
    assert json.loads(bytes(usage.raw)) == USAGE


def test_cache_writes_of_an_hour_are_counted_apart() -> None:
    details = [{"ttl": "1h", "inputTokens": 40}, {"ttl": "5m", "inputTokens": 10}]
    counts = {**USAGE, "cacheWriteInputTokens": 50, "cacheDetails": details}

    usage = answered({**whole("end_turn", {"text": "a"}), "usage": counts})[-1]

    assert isinstance(usage, Usage)
    assert (usage.cache_write_tokens, usage.cache_write_1h_tokens) == (50, 40)


@pytest.mark.parametrize("usage", [None, "many", {"inputTokens": "one"}])
def test_counts_that_cannot_be_read_do_not_fail_an_answer(usage: object) -> None:
    found = answered({**whole("end_turn", {"text": "a"}), "usage": usage})[-1]

    assert isinstance(found, Usage)
    assert found.prompt_tokens is None


def test_pieces_of_encrypted_reasoning_are_joined_and_come_last() -> None:
    pieces = [b64encode(one).decode() for one in (b"s", b"ecret")]

    found = events(
        starts(),
        *(delta(0, {"reasoningContent": {"redactedContent": one}}) for one in pieces),
        stops(0),
        delta(2, {"reasoningContent": {"text": "Hm."}}),
        delta(2, {"reasoningContent": {"signature": "a"}}),
        delta(2, {"reasoningContent": {"signature": "b"}}),
        *ends("end_turn"),
    )

    assert [one for one in found if isinstance(one, ReasoningDelta)] == [
        ReasoningDelta(text="", block=0, data=b64encode(b"secret").decode(), format=CLAUDE),
        ReasoningDelta(text="Hm.", block=1),
        ReasoningDelta(text="", block=1, signature="ab", format=CLAUDE),
    ]


def test_citations_are_reported_with_the_texts_that_they_support() -> None:
    cited: Json = {
        "citationsContent": {"content": [{"text": "Bern."}], "citations": [{"title": "Atlas"}]}
    }
    streamed = (
        delta(0, {"text": "Bern."}),
        delta(0, {"citation": {"title": "Atlas"}}),
        *ends("end_turn"),
    )

    for found in (answered(whole("end_turn", cited)), events(starts(), *streamed)):
        (opaque,) = (one for one in found if isinstance(one, OpaqueDelta))
        assert json.loads(bytes(opaque.fields["citations"])) == [{"title": "Atlas"}]
        assert only_choice(found).text == "Bern."


SEARCH: Json = {"toolUseId": "s", "name": "search", "type": "server_tool_use"}
RESULT: Json = {"toolUseId": "s", "type": "nova_grounding_result", "status": "success"}


def begins(block: int, start: Json) -> bytes:
    return event("contentBlockStart", {"contentBlockIndex": block, "start": start})


def opaque(found: list[Event]) -> Json:
    """Return the message's fields that have no event of their own."""
    return {name: json.loads(bytes(raw)) for name, raw in only_choice(found).opaque.items()}


def test_results_of_awss_own_tools_are_reported_and_are_not_calls_for_the_client() -> None:
    called: Json = {"toolUse": {**SEARCH, "input": {"q": "Bern"}}}
    result: Json = {"toolResult": {**RESULT, "content": [{"text": "a"}, {"json": {"b": 1}}]}}
    streamed = events(
        starts(),
        begins(0, {"toolUse": SEARCH}),
        *(delta(0, {"toolUse": {"input": piece}}) for piece in ('{"q":', '"Bern"}')),
        stops(0),
        begins(1, {"toolResult": RESULT}),
        delta(1, {"toolResult": [{"text": "a"}]}),
        delta(1, {"toolResult": [{"json": {"b": 1}}]}),
        stops(1),
        delta(2, {"text": "Found."}),
        *ends("end_turn"),
    )

    for found in (streamed, answered(whole("end_turn", called, result, {"text": "Found."}))):
        choice = only_choice(found)
        assert (choice.text, choice.tool_calls) == ("Found.", [])
        assert opaque(found) == {"bedrock_blocks": [called, result]}


def test_images_come_as_openai_compatible_clients_know_them() -> None:
    image: Json = {"image": {"format": "png", "source": {"bytes": b64encode(b"picture").decode()}}}
    stored: Json = {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://b/k"}}}}
    pieces = [b64encode(one).decode() for one in (b"pict", b"ure")]
    streamed = events(
        starts(),
        begins(0, {"image": {"format": "png"}}),
        *(delta(0, {"image": {"source": {"bytes": piece}}}) for piece in pieces),
        stops(0),
        begins(1, {"image": {"format": "png"}}),
        delta(1, {"image": {"source": {"s3Location": {"uri": "s3://b/k"}}}}),
        *ends("end_turn"),
    )

    url = f"data:image/png;base64,{b64encode(b'picture').decode()}"
    for found in (streamed, answered(whole("end_turn", image, stored))):
        assert opaque(found) == {
            "images": [{"type": "image_url", "image_url": {"url": url}, "index": 0}],
            "bedrock_blocks": [stored],
        }


def test_fields_at_the_end_of_a_stream_are_reported() -> None:
    about: Json = {
        "trace": {"guardrail": {"x": 1}},
        "serviceTier": {"type": "flex"},
        "performanceConfig": {"latency": "optimized"},
    }
    stop: Json = {"stopReason": "end_turn", "additionalModelResponseFields": {"x": [1]}, "p": "ab"}

    found = events(
        starts(),
        delta(0, {"text": "a"}),
        event("messageStop", stop),
        event("metadata", {"usage": USAGE, "metrics": {"latencyMs": 7}, **about}),
    )

    last = [one for one in found if isinstance(one, Started)][-1]
    assert {name: json.loads(bytes(raw)) for name, raw in last.extra.items()} == {
        **about,
        "additionalModelResponseFields": {"x": [1]},
    }


def test_a_stream_without_its_usage_is_cut_short() -> None:
    with pytest.raises(UpstreamBroken, match="ended before its usage"):
        events(starts(), delta(0, {"text": "a"}), *ends("end_turn")[:1])


def test_unknown_blocks_are_reported_and_unknown_events_skipped() -> None:
    found = events(
        starts(),
        event("weatherReport", {"sky": "blue"}),
        delta(0, {"smell": "roses"}),
        delta(1, {"text": "a"}),
        *ends("end_turn"),
    )

    assert only_choice(found).text == "a"
    assert opaque(found) == {"bedrock_blocks": [{"smell": "roses"}]}


def test_an_answer_without_anything_is_an_empty_text() -> None:
    assert only_choice(answered(whole("end_turn"))).text == ""


def test_a_guardrails_trace_of_a_complete_answer_is_passed_on() -> None:
    trace: Json = {"guardrail": "abc"}
    body = {**whole("guardrail_intervened", {"text": "No."}), "trace": trace}

    assert answered(body)[0] == Started(extra={"trace": Raw(b'{"guardrail": "abc"}')})


@pytest.mark.parametrize(
    ("failure", "kind", "said"),
    [
        (exception("throttlingException", {"message": "slow"}), UpstreamBusy, "slow"),
        (exception("validationException", {"message": "bad"}), UpstreamRejected, "bad"),
        (exception("internalServerException", {"message": "oh"}), UpstreamFailed, "oh"),
        (exception("serviceUnavailableException", {}), UpstreamOverloaded, "ServiceUnavailable"),
        (
            exception("modelStreamErrorException", {"message": "x", "originalMessage": "model"}),
            UpstreamFailed,
            "model",
        ),
        (error("InternalFailure", "it broke"), UpstreamFailed, "it broke"),
        (call_starts(0, "a", "f")[:-1] + b"x", UpstreamBroken, "checksum"),
        (delta(3, {"toolUse": {"input": "{"}}), UpstreamBroken, "never started"),
        (event("messageStop", {}), UpstreamBroken, "cannot read the answer"),
        (b"", UpstreamBroken, "ended early"),
    ],
)
def test_a_stream_that_fails_is_never_an_answer(
    failure: bytes, kind: type[GatewayError], said: str
) -> None:
    with pytest.raises(kind, match=said):
        events(starts(), delta(0, {"text": "a"}), failure)


@pytest.mark.parametrize(
    ("status", "type", "kind"),
    [
        (400, "ValidationException", UpstreamRejected),
        (400, "ServiceQuotaExceededException", UpstreamRefused),
        (403, "AccessDeniedException", UpstreamRefused),
        (403, "UnrecognizedClientException:http://internal.amazon.com/coral/", UpstreamRefused),
        (404, "ResourceNotFoundException", UpstreamRefused),
        (408, "ModelTimeoutException", UpstreamTimeout),
        (424, "ModelErrorException", UpstreamFailed),
        (424, "ModelStreamErrorException", UpstreamFailed),
        (429, "ThrottlingException", UpstreamBusy),
        (429, "ModelNotReadyException", UpstreamBusy),
        (500, "InternalServerException", UpstreamFailed),
        (503, "ServiceUnavailableException", UpstreamOverloaded),
        (424, "", UpstreamFailed),
    ],
)
@pytest.mark.parametrize("name", ["message", "Message"])
def test_a_failures_type_decides_what_it_means(
    status: int, type: str, kind: type[GatewayError], name: str
) -> None:
    headers = {"x-amzn-errortype": type, "retry-after": "3"} if type else {}
    body = json.dumps({name: f"no, with {KEY}"}).encode()

    found = BEDROCK.error(status, headers, body)

    assert isinstance(found, kind)
    assert found.logged.removeprefix("aws: ") == "no, with ***"
    if isinstance(found, UpstreamBusy):
        assert found.retry_after == 3.0


def test_the_type_may_be_in_the_body() -> None:
    body = b'{"__type": "com.amazon.coral#ThrottlingException", "message": "slow"}'

    assert isinstance(BEDROCK.error(400, {}, body), UpstreamBusy)


def test_recorded_bytes_that_are_not_an_event_stream_fail_cleanly() -> None:
    file = RECORDINGS / "bedrock" / "stream-broken" / "response.bin"
    if not file.is_file():
        pytest.skip("the recordings are not here")

    with pytest.raises(UpstreamBroken, match="not an event stream"):
        translate(BEDROCK, chat(stream=True), [file.read_bytes()])
