"""MindIE's token interface on the bundled model, with the examples of its documentation."""

import json
import time
from asyncio import open_connection, sleep, timeout
from typing import cast

import httpx
import pytest
from msgspec import UNSET, Struct, UnsetType
from msgspec import json as wire

from tests.gateway.serving import Serving
from tests.gateway.surfaces.answers import payloads
from tests.gateway.surfaces.mindie.mindie_bodies import EXAMPLE

pytest.importorskip("torch")

pytestmark = pytest.mark.anyio

CONFIG = """
server: {{default_model: tiny-chat}}
auth:
  mode: keys
  keys:
    - {{name: all, key: key-of-all}}
    - {{name: patient, key: key-of-the-patient, max_priority: 3}}
    - {{name: elsewhere, key: key-for-elsewhere, models: [org/endless]}}
providers: [{here}]
models:
  - {{name: tiny-chat, backends: [{{provider: here, model: tiny}}]}}
  - {{name: lenient, on_unsupported: drop, backends: [{{provider: here, model: tiny}}]}}
  - name: org/endless
    defaults: {{ignore_eos: true}}
    backends: [{{provider: here, model: tiny}}]
"""
QUESTION = [1, 4, 434, 230, 317, 230, 26, 32, 230, 20, 230, 27, 30, 40, 2, 5]
"""What is 17 + 25? in the bundled model's vocabulary, as a turn of a conversation."""

ANSWER, ANSWER_IDS = "17 + 25 = 42.", [26, 32, 230, 20, 230, 27, 30, 230, 38, 230, 29, 27, 23, 2]
SOON_S = 120.0


class Token(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: int
    text: str | None


class Details(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    finish_reason: str
    generated_tokens: int
    seed: int
    generated_token_ids: list[int] | UnsetType = UNSET


class Whole(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text answer, with the fields of the document's table and no others."""

    generated_text: str
    details: Details


class Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frame of a stream; the last one has the two fields that the others lack."""

    prefill_time: float | None
    decode_time: float | None
    token: Token
    generated_text: str | UnsetType = UNSET
    details: Details | UnsetType = UNSET


def client(gateway: Serving, key: str = "key-of-all") -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=SOON_S)


def example(**parameters: object) -> dict[str, object]:
    """The document's request with ids of the bundled vocabulary, and `parameters` over its own."""
    body = cast("dict[str, object]", json.loads(EXAMPLE))
    own = cast("dict[str, object]", body["parameters"])
    return {**body, "input_id": QUESTION, "parameters": {**own, **parameters}}


def streamed(**parameters: object) -> dict[str, object]:
    return {**example(**parameters), "stream": True}


async def post(
    gateway: Serving, body: object, path: str = "/infer_token", key: str = "key-of-all"
) -> httpx.Response:
    async with client(gateway, key) as ask:
        return await ask.post(path, json=body)


async def steps(gateway: Serving, body: object) -> tuple[list[Step], float]:
    """The frames of a stream, and the milliseconds that it took."""
    began = time.perf_counter()
    answer = await post(gateway, body)
    took = (time.perf_counter() - began) * 1e3
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [wire.decode(payload, type=Step) for payload in payloads(answer.content)], took


@pytest.mark.parametrize("path", ["/infer_token", "/v1/models/tiny-chat/infer_token"])
async def test_the_documents_request_is_answered_in_the_documents_form(
    gateway: Serving, path: str
) -> None:
    answer = await post(gateway, example(), path)

    whole = wire.decode(answer.content, type=Whole)
    assert answer.status_code == 200
    assert answer.headers["x-gateway-backend"] == "here/tiny"
    assert "x-gateway-dropped-params" not in answer.headers
    assert whole.generated_text == ANSWER
    assert whole.details.finish_reason == "eos_token"
    assert whole.details.generated_tokens == len(ANSWER_IDS)
    assert whole.details.generated_token_ids == ANSWER_IDS
    assert 0 < whole.details.seed < 2**64


async def test_the_same_request_streamed_is_a_frame_a_token(gateway: Serving) -> None:
    (*firsts, last), _ = await steps(gateway, streamed())

    shown = "".join(step.token.text or "" for step in firsts)
    assert [step.token.id for step in (*firsts, last)] == ANSWER_IDS
    assert shown == ANSWER
    assert all(step.generated_text is UNSET and step.details is UNSET for step in firsts)
    assert last.generated_text == ANSWER
    assert last.token.text is None
    assert isinstance(last.details, Details)
    assert last.details.finish_reason == "eos_token"
    assert last.details.generated_tokens == len(ANSWER_IDS)
    assert last.details.generated_token_ids is UNSET


async def test_a_stream_that_reaches_its_bound_has_its_last_text_in_the_whole_one(
    gateway: Serving,
) -> None:
    (*firsts, last), _ = await steps(gateway, streamed(max_new_tokens=4))

    assert "".join(step.token.text or "" for step in firsts) == "17 "
    assert last.generated_text == "17 +"
    assert isinstance(last.details, Details)
    assert last.details.finish_reason == "length"
    assert last.details.generated_tokens == 4


async def test_times_are_measured(gateway: Serving) -> None:
    """Of an answer that repeats nothing: tokens that are drafted arrive together."""
    (first, *others), took = await steps(
        gateway, {**streamed(do_sample=False), "input_id": QUESTION[-2:]}
    )

    assert first.decode_time is None
    assert first.prefill_time is not None
    assert first.prefill_time > 0
    assert all(step.prefill_time is None for step in others)
    decoding = [step.decode_time or 0.0 for step in others]
    assert all(time > 0 for time in decoding)
    assert sum(decoding) > 0
    assert first.prefill_time + sum(decoding) <= took


async def test_without_details_only_the_text_is_returned(gateway: Serving) -> None:
    answer = await post(gateway, {"input_id": QUESTION})

    assert answer.json() == {"generated_text": ANSWER}


async def test_twenty_tokens_are_generated_by_default(gateway: Serving) -> None:
    body = {"input_id": QUESTION, "parameters": {"details": True}}

    answer = await post(gateway, body, "/v1/models/org/endless/infer_token")

    details = wire.decode(answer.content, type=Whole).details
    assert (details.generated_tokens, details.finish_reason) == (20, "length")


async def test_a_seed_repeats_its_answer_and_is_reported(gateway: Serving) -> None:
    seed = 2**64 - 1
    hot = {"temperature": 3.0, "top_k": 2**31 - 1, "top_p": 0.999, "typical_p": 1.0, "seed": seed}
    request = {**example(**hot), "input_id": QUESTION[:3]}

    one, two = [wire.decode((await post(gateway, request)).content, type=Whole) for _ in range(2)]

    assert one == two
    assert one.details.seed == seed


async def test_silence_takes_the_likeliest_tokens_and_a_temperature_draws(
    gateway: Serving,
) -> None:
    async def ids(**parameters: object) -> tuple[int, ...]:
        body = {"input_id": [0, 1], "parameters": {"details": True, **parameters}}
        details = wire.decode((await post(gateway, body)).content, type=Whole).details
        return tuple(details.generated_token_ids or ())

    silent = {await ids() for _ in range(3)}
    switched_off = await ids(do_sample=False, temperature=9.0)
    drawn = {await ids(temperature=9.0) for _ in range(3)}

    assert silent == {switched_off}
    assert len(drawn) > 1


async def test_a_watermark_is_not_an_error_and_its_absence_is_reported(gateway: Serving) -> None:
    answer = await post(gateway, example(watermark=True))

    assert answer.status_code == 200
    assert answer.headers["x-gateway-dropped-params"] == "parameters.watermark"


async def test_what_is_dropped_is_named_in_a_header_for_any_name(gateway: Serving) -> None:
    body = example(**{"beams": 2, "é, \r\nx": 1})

    answer = await post(gateway, body, "/v1/models/lenient/infer_token")

    assert answer.status_code == 200
    assert answer.headers["x-gateway-dropped-params"] == (
        "parameters.beams, parameters.%C3%A9%2C%20%0D%0Ax"
    )


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"input_id": [5618, 19678]}, "input_id[0]: token 5618 must be within 0 and 1023"),
        (example(top_p=1.0), "parameters.top_p must be a number above 0 and below 1"),
        (example(seed=0), "parameters.seed must be an integer from 1 to 2^64-1, or null"),
        (example(beams=2), "parameters.beams is not known"),
        ({**example(), "user": "me"}, "user is not known"),
        ({"inputs": "What is 17 + 25?"}, "/v1/completions"),
        ({"input_id": QUESTION * 100}, "and the prompt has 1600; shorten"),
    ],
)
async def test_errors_are_in_the_dialects_envelope(
    gateway: Serving, body: object, says: str
) -> None:
    answer = await post(gateway, body)

    reported = answer.json()
    assert answer.status_code == 400
    assert reported.keys() == {"error", "error_type"}
    assert says in reported["error"]
    assert reported["error_type"] == "Input Validation Error"


@pytest.mark.parametrize(
    ("path", "key", "parameters", "status", "kind"),
    [
        ("/infer_token", "", {}, 401, "Unauthorized"),
        ("/infer_token", "key-for-elsewhere", {}, 400, "Input Validation Error"),
        ("/infer_token", "key-of-the-patient", {"priority": 2}, 200, ""),
        ("/infer_token", "key-of-the-patient", {"priority": 3}, 200, ""),
        ("/v1/models/none/infer_token", "key-of-all", {}, 404, "NotFoundError"),
        ("/infer_token/more", "key-of-all", {}, 404, "NotFoundError"),
    ],
)
async def test_models_that_a_key_may_use(
    gateway: Serving, path: str, key: str, parameters: dict[str, object], status: int, kind: str
) -> None:
    answer = await post(gateway, example(**parameters), path, key)

    assert answer.status_code == status
    assert answer.json().get("error_type", "") == kind


async def test_a_priority_above_the_keys_is_lowered_and_named_as_it_was_sent(
    gateway: Serving,
) -> None:
    answer = await post(gateway, example(priority=2), "/infer_token", "key-of-the-patient")

    assert answer.headers["x-gateway-repairs"] == "parameters.priority:max_priority"


async def test_other_methods_and_types_wear_the_same_envelope(gateway: Serving) -> None:
    async with client(gateway) as ask:
        got = await ask.get("/infer_token")
        text = await ask.post(
            "/infer_token", content=b"{}", headers={"content-type": "application/xml"}
        )

    assert (got.status_code, got.json()["error_type"]) == (405, "Method Not Allowed")
    assert (text.status_code, text.json()["error_type"]) == (415, "Unsupported Media Type")


async def test_a_client_that_disconnects_frees_its_sequence(gateway: Serving) -> None:
    body = json.dumps(streamed(max_new_tokens=1000)).encode()
    head = (
        "POST /v1/models/org/endless/infer_token HTTP/1.1\r\nhost: [::1]\r\n"
        "authorization: Bearer key-of-all\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    reader, writer = await open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
    writer.write(head.encode() + body)
    await reader.readuntil(b"prefill_time")
    before = (await gateway.state.runtime.links["here"].stats())["tiny"]
    writer.close()

    async with timeout(SOON_S):
        while True:
            stats = (await gateway.state.runtime.links["here"].stats())["tiny"]
            if stats.running == 0:
                break
            await sleep(0.005)

    assert before.running == 1
    assert stats.num_output_tokens - before.num_output_tokens < 900


async def test_the_routes_are_documented_with_their_bodies(gateway: Serving) -> None:
    async with client(gateway) as ask:
        document = (await ask.get("/openapi.json")).json()

    schemas = document["components"]["schemas"]
    for path in ("/infer_token", "/v1/models/{model}/infer_token"):
        content = document["paths"][path]["post"]["requestBody"]["content"]
        schema = schemas[content["application/json"]["schema"]["$ref"].rpartition("/")[2]]
        assert schema["required"] == ["input_id"]
        assert set(schema["properties"]) == {"input_id", "stream", "parameters"}
        assert "ParametersWire" in json.dumps(schema["properties"]["parameters"])
        assert "max_new_tokens" in schemas["ParametersWire"]["properties"]
