"""Vendor profiles: requests to and answers from each vendor."""

from collections.abc import Iterable

import msgspec
import pytest
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.adapters.conformance.recordings import Recording, request_for
from strowger_gateway.adapters.conformance.replay import translate
from strowger_gateway.adapters.openai.adapter import OpenAIAdapter
from strowger_gateway.adapters.openai.vendor_profile import REFERENCE_ONLY, VendorProfile
from strowger_gateway.adapters.openai.vendor_profiles import OPENAI, VENDORS
from strowger_gateway.schemas.answers import Answer, Fold
from strowger_gateway.schemas.errors import (
    GatewayError,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamRejected,
)
from strowger_gateway.schemas.events import Event, Finished, Started
from strowger_gateway.schemas.fields import FIELDS, MESSAGES
from strowger_gateway.schemas.requests import ChatRequest, EmbeddingsRequest
from strowger_gateway.schemas.tasks.task import Unsampled
from tests.adapters.openai.openai_doubles import CHAT, WHOLE_CHAT, Json, body, sampled
from tests.adapters.openai.vendor_profile_table import table
from tests.adapters.traffic import ROOT, fixture

ROWS = {vendor.name: vendor for vendor in VENDORS}
LOCAL = {"llama-cpp", "lm-studio", "lmdeploy"}


def adapter(name: str) -> OpenAIAdapter:
    row = ROWS[name]
    return OpenAIAdapter(Endpoint(name=name, base_url=row.base_url), row)


def named(name: str, request: ChatRequest) -> set[str]:
    return {one.field for one in unsupported(request, adapter(name).supports)}


def events_of(case: Recording) -> list[Event]:
    vendor = case.name.partition("/")[0]
    request = request_for(case)
    assert not isinstance(request, Unsampled)
    return translate(adapter(vendor), request, [case.body])


def answer(name: str) -> Answer:
    fold = Fold()
    fold.add(events_of(fixture(name)))
    return fold.answer()


def error(name: str) -> GatewayError:
    case = fixture(name)
    return adapter(name.partition("/")[0]).error(case.status, case.headers, case.body)


def decoded(raw: Raw | None) -> object:
    return None if raw is None else msgspec.json.decode(raw)


@pytest.mark.parametrize("vendor", [OPENAI, *VENDORS], ids=lambda one: one.name)
def test_a_row_has_its_sources_and_names_only_existing_fields(
    vendor: VendorProfile,
) -> None:
    everything = frozenset[str]().union(*FIELDS.values())

    assert vendor.sources
    assert all(one.url.startswith("https://") and one.edition for one in vendor.sources)
    assert vendor.unsupported <= everything
    assert (vendor.extra_fields or frozenset()) <= REFERENCE_ONLY
    assert set(vendor.names) | set(vendor.ranges) <= everything
    assert not vendor.unsupported & {*vendor.names, *(vendor.extra_fields or ())}
    assert not vendor.unsupported & (MESSAGES - {"messages.remote_image"}) or not vendor.base_url


def test_every_row_has_its_own_name() -> None:
    names = [vendor.name for vendor in VENDORS]

    assert len(set(names)) == len(names)
    assert "openai" not in names


@pytest.mark.parametrize("name", sorted(LOCAL))
def test_a_local_server_needs_no_key_and_no_address(name: str) -> None:
    sent = adapter(name).encode(WHOLE_CHAT, "m")

    assert ROWS[name].base_url.startswith("http://localhost:")
    assert sent.target == "/v1/chat/completions"
    assert "authorization" not in dict(sent.headers)


@pytest.mark.parametrize(
    ("name", "field", "wire"),
    [
        ("llama-cpp", "repetition_penalty", "repeat_penalty"),
        ("lm-studio", "repetition_penalty", "repeat_penalty"),
        ("together", "repetition_penalty", "repetition_penalty"),
        ("llama-cpp", "typical_p", "typical_p"),
        ("fireworks", "typical_p", "typical_p"),
        ("openrouter", "min_p", "min_p"),
    ],
)
def test_sampling_goes_out_under_the_vendors_name(name: str, field: str, wire: str) -> None:
    request = sampled(**{field: 0.5})

    assert not named(name, request)
    assert body(adapter(name), request)[wire] == 0.5
    assert wire == field or field not in body(adapter(name), request)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("groq", {"top_k": 5}),
        ("groq", {"presence_penalty": 0.5}),
        ("groq", {"frequency_penalty": 0.5}),
        ("sambanova", {"presence_penalty": 0.5}),
        ("perplexity", {"seed": 1}),
        ("openrouter", {"n": 2}),
        ("xai", {"logit_bias": {5: 1.0}}),
        ("lm-studio", {"min_p": 0.1}),
        ("together", {"priority": 1}),
        ("fireworks", {"top_k": 101}),
        ("huggingface", {"logprobs": True, "top_logprobs": 6}),
        ("llama-cpp", {"top_p": 1.5}),
        ("deepseek", {"stop": ("x",) * 17}),
    ],
)
def test_what_a_vendor_would_refuse_or_ignore_is_reported(name: str, fields: Json) -> None:
    sampling = {key: value for key, value in fields.items() if key != "priority"}
    own = {key: value for key, value in fields.items() if key == "priority"}

    request = msgspec.structs.replace(sampled(**sampling), **own)

    assert named(name, request) == {list(fields)[-1]}


@pytest.mark.parametrize(
    ("name", "asked", "sent"),
    [
        ("groq", "", "max_completion_tokens"),
        ("groq", "max_tokens", "max_tokens"),
        ("together", "max_completion_tokens", "max_tokens"),
        ("lm-studio", "max_completion_tokens", "max_tokens"),
        ("llama-cpp", "max_completion_tokens", "max_completion_tokens"),
    ],
)
def test_the_token_limit_has_a_name_that_the_vendor_reads(name: str, asked: str, sent: str) -> None:
    request = msgspec.structs.replace(sampled(max_tokens=9), max_tokens_field=asked)

    written = body(adapter(name), request)

    assert {key: written[key] for key in written if key.startswith("max_")} == {sent: 9}


@pytest.mark.parametrize(
    ("fields", "count"),
    [({"logprobs": True, "top_logprobs": 3}, 3), ({"logprobs": True}, 1), ({}, None)],
)
def test_togethers_logprobs_are_a_number_in_chats_too(fields: Json, count: int | None) -> None:
    written = body(adapter("together"), sampled(**fields))

    assert written.get("logprobs") == count
    assert "top_logprobs" not in written


@pytest.mark.parametrize(("name", "asked"), [("fireworks", False), ("groq", True)])
def test_usage_is_requested_where_it_is_not_sent_by_default(name: str, asked: bool) -> None:
    assert ("stream_options" in body(adapter(name), CHAT)) == asked


def test_fields_of_llama_cpp_are_sent_unchanged() -> None:
    extra = {"mirostat": Raw(b"2"), "grammar": Raw(b'"root ::= [0-9]+"'), "json_schema": Raw(b"{}")}
    request = msgspec.structs.replace(WHOLE_CHAT, extra=extra)

    assert not named("llama-cpp", request)
    assert {"mirostat": 2, "grammar": "root ::= [0-9]+", "json_schema": {}}.items() <= body(
        adapter("llama-cpp"), request
    ).items()


def test_perplexitys_sources_come_after_the_first_frame_and_once() -> None:
    found = events_of(fixture("perplexity/chat-stream-sources"))

    started = [event for event in found if isinstance(event, Started)]
    assert [decoded(one.extra.get("citations")) for one in started] == [
        None,
        *[["https://tides.test/fundy"]] * 2,
    ]
    assert decoded(started[-1].extra["status"]) == "COMPLETED"
    assert started[-1].model == "m"
    assert found.index(started[-1]) < next(
        place for place, event in enumerate(found) if isinstance(event, Finished)
    )
    assert answer("perplexity/chat-stream-sources").choices[0].text == "In the Bay of Fundy.[1]"


def test_perplexitys_whole_answer_is_its_message_and_not_the_empty_delta_beside_it() -> None:
    told = answer("perplexity/chat-whole")

    assert told.choices[0].text == "**2 + 2 = 4**.[3]\n\n"
    assert {"citations", "search_results"} <= told.started.extra.keys()
    assert told.usage is not None
    assert told.usage.total_tokens == 21


def test_llama_cpps_timings_and_cached_tokens_are_reported() -> None:
    told = answer("llama-cpp/chat-stream-timings")

    timings = decoded(told.started.extra["timings"])
    assert isinstance(timings, dict)
    assert timings["predicted_n"] == 4
    assert told.choices[0].reasoning == "Fundy, I think."
    assert told.usage is not None
    assert told.usage.cached_tokens == 3


def test_groqs_usage_counts_in_every_place() -> None:
    told = answer("groq/chat-stream-usage-aside")

    assert told.usage is not None
    assert (told.usage.prompt_tokens, told.usage.completion_tokens) == (11, 4)
    assert told.choices[0].reasoning == "Fundy."
    assert b'"queue_time"' in bytes(told.started.extra["x_groq"])


@pytest.mark.parametrize(
    ("case", "kind", "text"),
    [
        ("groq/chat-stream-error-aside", UpstreamFailed, "the model was taken down"),
        ("deepseek/chat-error-resources", UpstreamFailed, "insufficient_system_resource"),
        ("openrouter/chat-error-in-a-200", UpstreamFailed, "Provider returned error"),
        ("openrouter/chat-stream-error-finish", UpstreamFailed, "Provider disconnected"),
        ("cerebras/chat-error-inside-stream", UpstreamBusy, "The queue is full"),
    ],
)
def test_a_failure_inside_a_200_is_a_failure(
    case: str, kind: type[GatewayError], text: str
) -> None:
    with pytest.raises(kind, match=text):
        events_of(fixture(case))


def test_xais_reasoning_is_counted_with_the_completion() -> None:
    usage = answer("xai/chat-reasoning-apart").usage

    assert usage is not None
    assert (usage.completion_tokens, usage.reasoning_tokens, usage.total_tokens) == (24, 20, 35)


def test_reasoning_that_is_counted_already_is_not_counted_again() -> None:
    usage = answer("deepseek/chat-stream-cached").usage

    assert usage is not None
    assert (usage.completion_tokens, usage.reasoning_tokens) == (4, 2)
    assert usage.cached_tokens == 8


def test_finish_reasons_and_formats_of_ends_are_understood() -> None:
    eos, empty = answer("together/chat-eos-logprobs"), answer("xai/chat-tool-empty-finish")

    assert [reasons(eos), reasons(empty)] == [["stop"], ["tool_calls"]]
    assert eos.choices[0].finish is not None
    assert eos.choices[0].finish.native == "eos"
    assert eos.choices[0].finish.seed == 1234567
    assert [(one.token, one.logprob) for one in eos.choices[0].logprobs] == [
        ("Fun", -0.5),
        ("dy", -0.125),
        (".", -0.25),
    ]


@pytest.mark.parametrize(
    ("case", "kind", "text"),
    [
        ("xai/error-404-model", UpstreamRefused, "The model m does not exist"),
        ("llama-cpp/error-503-loading", UpstreamFailed, "Loading model"),
        ("llama-cpp/error-400-echo", UpstreamRejected, "Only no echo is supported"),
        ("lmdeploy/error-400-flat", UpstreamRejected, "The temperature 9.0"),
    ],
)
def test_a_vendors_own_error_body_is_read(case: str, kind: type[GatewayError], text: str) -> None:
    found = error(case)

    assert isinstance(found, kind)
    assert text in found.message


def reasons(told: Answer) -> Iterable[str]:
    return [choice.finish.reason for choice in told.choices if choice.finish]


def test_the_documented_table_is_the_catalogue() -> None:
    page = (ROOT / "docs" / "providers" / "compatible.md").read_text()

    assert table() in page


@pytest.mark.parametrize(("name", "inputs"), [("dashscope", 10), ("nvidia-nim", None)])
def test_embeddings_that_a_vendor_documents_are_offered(name: str, inputs: int | None) -> None:
    vendor = next(one for one in VENDORS if one.name == name)
    adapter = OpenAIAdapter(Endpoint(name="acme", base_url=vendor.base_url), vendor)
    request = EmbeddingsRequest(
        model="m", inputs=("a",), dimensions=64, extra={"input_type": Raw(b'"query"')}
    )

    sent = adapter.encode(request, "m")

    assert sent.target.endswith("/v1/embeddings")
    body = decoded(Raw(sent.body))
    assert isinstance(body, dict)
    assert (body["input"], body["dimensions"], body["input_type"]) == ("a", 64, "query")
    assert adapter.supports.inputs == inputs
    assert "input.tokens" not in (adapter.supports.embeddings or ())
