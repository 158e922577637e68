"""Responses of the MindIE surface: whole answers, streams token by token, and failures."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, UnsetType

from strowger_gateway.gateway.surfaces.mindie.errors import TYPES, error_body
from strowger_gateway.gateway.surfaces.mindie.render import InferTokenRenderer
from strowger_gateway.schemas.errors import (
    Forbidden,
    GatewayError,
    InvalidRequest,
    ModelNotFound,
    Throttled,
    Unavailable,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamTimeout,
)
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    FinishReason,
    Started,
    TextDelta,
    Tokens,
    Usage,
)
from strowger_gateway.schemas.requests import TokenRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.gateway.surfaces.answers import folded, payloads
from tests.gateway.surfaces.mindie.mindie_bodies import (
    EXAMPLE,
    EXAMPLE_ANSWER,
    EXAMPLE_STREAM,
    EXAMPLE_TEXT,
    SEED,
)

DRAWN = 846930886
LENGTH = Finished(reason="length", seed=DRAWN)


class Details(Struct, frozen=True, kw_only=True):
    finish_reason: str
    generated_tokens: int | None
    seed: int | None
    generated_token_ids: list[int] | UnsetType = msgspec.UNSET


class Token(Struct, frozen=True, kw_only=True):
    id: int | None
    text: str | None


class Step(Struct, frozen=True, kw_only=True):
    prefill_time: float | None
    decode_time: float | None
    token: Token
    generated_text: str | UnsetType = msgspec.UNSET
    details: Details | None | UnsetType = msgspec.UNSET


def renderer(*, details: bool = True, sampling: Sampling | None = None) -> InferTokenRenderer:
    sampling = sampling or Sampling()
    return InferTokenRenderer(
        TokenRequest(model="m", tokens=(1,), details=details, sampling=sampling)
    )


def whole(*events: Event, details: bool = True, sampling: Sampling | None = None) -> object:
    return msgspec.json.decode(
        renderer(details=details, sampling=sampling).answer(folded(Started(), *events))
    )


def streamed(batches: Sequence[Sequence[Event]], *, details: bool = True) -> bytes:
    render = renderer(details=details)
    return b"".join([render.events(batch) for batch in batches]) + render.finish()


def steps(data: bytes) -> list[Step]:
    """Every frame, each read strictly."""
    return [msgspec.json.decode(payload, type=Step) for payload in payloads(data)]


def one_by_one(*events: Event) -> list[list[Event]]:
    return [[event] for event in events]


def test_the_documents_own_answer_is_rendered_unchanged() -> None:
    ids = tuple(range(20))

    answer = whole(Tokens(ids=ids, text=EXAMPLE_TEXT), LENGTH)

    details = EXAMPLE_ANSWER["details"]
    assert isinstance(details, dict)
    assert answer == {**EXAMPLE_ANSWER, "details": {**details, "generated_token_ids": list(ids)}}


def test_details_are_there_only_on_request() -> None:
    assert whole(Tokens(ids=(5,), text="x"), LENGTH, details=False) == {"generated_text": "x"}


def test_the_documents_own_stream_is_rendered_unchanged() -> None:
    quoted = steps(EXAMPLE_STREAM)
    (*firsts, last) = quoted
    whole_text = last.generated_text
    assert isinstance(whole_text, str)
    tail = whole_text.removeprefix("".join(step.token.text or "" for step in firsts))

    data = streamed(
        one_by_one(
            Started(),
            *(
                Tokens(
                    ids=(step.token.id or 0,),
                    text=tail if step.token.text is None else step.token.text,
                    elapsed_ms=step.prefill_time or step.decode_time or 0.0,
                )
                for step in quoted
            ),
            LENGTH,
            Usage(prompt_tokens=5, completion_tokens=20),
        )
    )

    assert len(quoted) == 20
    assert [msgspec.json.decode(payload) for payload in payloads(data)] == [
        msgspec.json.decode(payload) for payload in payloads(EXAMPLE_STREAM)
    ]


def test_the_examples_are_the_documents() -> None:
    if not SEED.exists():
        pytest.skip("the seeds are not here")
    document = "".join(SEED.read_text().split())

    assert "".join(EXAMPLE.split()) in document
    assert "".join(EXAMPLE_TEXT.split()) in document
    for payload in payloads(EXAMPLE_STREAM):
        assert "".join(payload.decode().split()) in document


def test_without_details_the_last_frame_has_null_for_them() -> None:
    (only,) = payloads(
        streamed([[Tokens(ids=(7,), text="a", elapsed_ms=1.5), LENGTH]], details=False)
    )

    assert only == (
        b'{"prefill_time":1.5,"decode_time":null,"generated_text":"a","details":null,'
        b'"token":{"id":7,"text":null}}'
    )


def test_a_token_goes_out_when_the_next_one_shows_that_it_is_not_the_last() -> None:
    render = renderer()

    first = render.events([Started(), Tokens(ids=(1,), text="a")])
    second = render.events([Tokens(ids=(2,), text="b")])

    assert first == b""
    assert [step.token for step in steps(second)] == [Token(id=1, text="a")]


def test_tokens_that_arrive_together_have_a_frame_each_and_one_time() -> None:
    data = streamed([[Tokens(ids=(1, 2, 3), text="abc", elapsed_ms=9.0)], [LENGTH]])

    assert [(step.prefill_time, step.decode_time, step.token) for step in steps(data)] == [
        (9.0, None, Token(id=1, text="abc")),
        (None, 0.0, Token(id=2, text="")),
        (None, 0.0, Token(id=3, text=None)),
    ]


def test_text_that_completes_after_its_token_joins_it() -> None:
    data = streamed(
        one_by_one(Tokens(ids=(1,)), Tokens(ids=(), text="é"), Tokens(ids=(2,), text="!"), LENGTH)
    )

    first, last = steps(data)
    assert first.token == Token(id=1, text="é")
    assert last.generated_text == "é!"


def test_an_answer_without_tokens_is_one_frame_without_an_id() -> None:
    (only,) = steps(streamed([[LENGTH]]))

    assert only.token == Token(id=None, text=None)
    assert (only.prefill_time, only.decode_time, only.generated_text) == (None, None, "")
    assert isinstance(only.details, Details)
    assert only.details.generated_tokens == 0


def test_text_without_tokens_has_no_ids_no_times_and_no_count() -> None:
    events = [TextDelta(text="one"), TextDelta(text=" two"), LENGTH]

    first, last = steps(streamed([events]))
    answer = whole(*events)

    assert first == Step(prefill_time=None, decode_time=None, token=Token(id=None, text="one"))
    assert last.generated_text == "one two"
    assert isinstance(last.details, Details)
    assert last.details.generated_tokens is None
    assert answer == {
        "generated_text": "one two",
        "details": {"finish_reason": "length", "generated_tokens": None, "seed": DRAWN},
    }


@pytest.mark.parametrize(
    ("finished", "word"),
    [
        (Finished(reason="stop", native="eos_token"), "eos_token"),
        (Finished(reason="stop", native="stop_sequence"), "stop_sequence"),
        (Finished(reason="length", native="length"), "length"),
        (Finished(reason="stop"), "eos_token"),
        (Finished(reason="stop", stop_match="\n"), "stop_sequence"),
        (Finished(reason="stop", stop_match=2), "eos_token"),
        (Finished(reason="length", native="max_tokens"), "length"),
        (Finished(reason="content_filter"), "stop_sequence"),
        (Finished(reason="tool_calls"), "eos_token"),
        (Finished(reason="function_call"), "eos_token"),
    ],
)
def test_an_answers_end_has_a_finish_reason_of_the_dialect(finished: Finished, word: str) -> None:
    (step,) = steps(streamed([[Tokens(ids=(1,), text="a"), finished]]))
    answer = whole(Tokens(ids=(1,), text="a"), finished)

    assert isinstance(step.details, Details)
    assert isinstance(answer, dict)
    assert step.details.finish_reason == word
    assert answer["details"]["finish_reason"] == word


def test_the_seed_is_the_used_one_or_else_the_requested_one() -> None:
    token, asked = Tokens(ids=(1,), text="a"), Sampling(seed=2**64 - 1)

    used = whole(token, Finished(reason="stop", seed=7), sampling=asked)
    silent = whole(token, Finished(reason="stop"), sampling=asked)
    unknown = whole(token, Finished(reason="stop"))

    assert [
        msgspec.convert(answer, dict[str, object])["details"] for answer in (used, silent, unknown)
    ] == [
        {
            "finish_reason": "eos_token",
            "generated_tokens": 1,
            "generated_token_ids": [1],
            "seed": seed,
        }
        for seed in (7, 2**64 - 1, None)
    ]


def test_the_backends_own_count_is_reported() -> None:
    (step,) = steps(streamed([[Tokens(ids=(1,), text="a"), LENGTH, Usage(completion_tokens=21)]]))

    assert isinstance(step.details, Details)
    assert step.details.generated_tokens == 21


def test_a_failure_in_the_middle_loses_no_token() -> None:
    render = renderer()
    render.events([Tokens(ids=(1,), text="a", elapsed_ms=2.0)])

    token, error = payloads(render.error(UpstreamFailed("out of memory", upstream="npu")))

    assert token == b'{"prefill_time":2.0,"decode_time":null,"token":{"id":1,"text":"a"}}'
    assert error == b'{"error":"npu: out of memory","error_type":"Generation Error"}'


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (InvalidRequest("input_id is required", param="input_id"), "Input Validation Error"),
        (InvalidRequest("the body is not valid JSON"), "Bad Request"),
        (Forbidden("no"), "Forbidden"),
        (ModelNotFound("model: none", param="model"), "NotFoundError"),
        (Throttled("slower"), "Too Many Requests"),
        (Unavailable("draining"), "Service Unavailable"),
        (UpstreamTimeout("late", upstream="npu"), "Incomplete Generation"),
        (GatewayError("a bug"), "Incomplete Generation"),
        (UpstreamRejected("odd", status=418, upstream="npu"), "Bad Request"),
        (
            UpstreamRejected("odd", status=400, upstream="npu", type="Generation Error"),
            "Generation Error",
        ),
        (
            UpstreamRejected("odd", status=400, upstream="gpt", type="invalid_request_error"),
            "Bad Request",
        ),
    ],
)
def test_a_failure_wears_the_dialects_envelope(failure: GatewayError, kind: str) -> None:
    body = msgspec.json.decode(error_body(failure))

    assert body == {"error": failure.message, "error_type": kind}


@pytest.mark.parametrize(
    ("message", "param", "reported"),
    [
        ("tokens[2]: token 9 must be within 0 and 8", "tokens", "input_id[2]: token 9 must be"),
        ("max_tokens: 0 must be 1 or more", "max_tokens", "parameters.max_new_tokens: 0"),
        ("here/tiny: top_k is not supported", "top_k", "here/tiny: parameters.top_k is not"),
        (
            "here/tiny: seed is not supported; top_k has 2 entries",
            "seed",
            "here/tiny: parameters.seed is not supported; parameters.top_k has",
        ),
        ("parameters.seed must be odd", "parameters.seed", "parameters.seed must be odd"),
        ("priority: the key may ask for 3 to 5", "priority", "parameters.priority: the key"),
        ("prompt: 70 tokens are too many tokens: cut", "prompt", "prompt: 70 tokens are too many"),
    ],
)
def test_a_field_is_named_as_this_dialect_writes_it(
    message: str, param: str, reported: str
) -> None:
    body = msgspec.json.decode(error_body(InvalidRequest(message, param=param)))

    assert body["error"].startswith(reported)


def test_the_message_of_an_unnamed_fault_is_not_touched() -> None:
    body = msgspec.json.decode(error_body(UpstreamFailed("seed: lost", upstream="npu")))

    assert body["error"] == "npu: seed: lost"


def test_every_status_has_a_type() -> None:
    assert {400, 401, 403, 404, 413, 415, 429, 500, 502, 503, 504} <= TYPES.keys()


TOKENS = st.builds(
    Tokens,
    ids=st.lists(st.integers(0, 1 << 20), max_size=3).map(tuple),
    text=st.text(max_size=4),
    elapsed_ms=st.floats(0, 1e6),
)
REASONS: st.SearchStrategy[FinishReason] = st.sampled_from(["stop", "length", "content_filter"])


@given(
    batches=st.lists(st.lists(TOKENS, max_size=3), max_size=6),
    reason=REASONS,
)
def test_a_stream_has_the_same_content_as_the_whole_answer(
    batches: list[list[Tokens]], reason: FinishReason
) -> None:
    events: list[Event] = [event for batch in batches for event in batch]
    end = Finished(reason=reason, seed=3)

    said = steps(streamed([*batches, [end]]))
    answer = msgspec.convert(whole(*events, end), dict[str, object])

    *firsts, last = said
    assert isinstance(last.details, Details)
    assert last.token.text is None
    assert last.generated_text == answer["generated_text"]
    shown = "".join(step.token.text or "" for step in firsts)
    assert isinstance(last.generated_text, str)
    assert last.generated_text.startswith(shown)
    ids = [step.token.id for step in said if step.token.id is not None]
    whole_details = msgspec.convert(answer["details"], Details)
    assert whole_details.finish_reason == last.details.finish_reason
    assert whole_details.generated_tokens == last.details.generated_tokens
    assert whole_details.generated_token_ids == (ids or whole_details.generated_token_ids)
    timed = [step for step in said if step.token.id is not None]
    assert [step.prefill_time is None for step in timed] == [False, *[True] * len(timed)][
        : len(timed)
    ]
    assert [step.decode_time is None for step in timed] == [True, *[False] * len(timed)][
        : len(timed)
    ]
    times = sum((step.prefill_time or 0) + (step.decode_time or 0) for step in said)
    measured = sum(event.elapsed_ms for batch in batches for event in batch if event.ids)
    assert times == pytest.approx(measured, abs=0.001 * (len(said) + 1))
