"""Every vendor behind the gateway gives Google's client the same result."""

import base64
import json
from collections.abc import AsyncGenerator, Sequence

import httpx
import pytest
from google import genai
from google.genai import errors, types
from msgspec import Struct

from tests.gateway.backends.vendors.backend import Setting, answering, every_vendor
from tests.gateway.backends.vendors.dialect import USAGE, Call, Json, ReceivedRequest, Said
from tests.gateway.backends.vendors.rows import VENDORS, Vendor, of_every_dialect
from tests.gateway.surfaces.gemini.google_client import (
    Heard,
    ask,
    google_client,
    without_thoughts,
)

pytestmark = pytest.mark.anyio

PIXEL = "iVBORw0KGgo="
PLACE: Json = {"type": "object", "properties": {"at": {"type": "string"}}}
SCHEMA: Json = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
THOUGHT, PROOF = "Hm, let me see.", "cHJvb2Y="
HI = "hi"
MADE = {
    "single": (Call(id="abcdefgh1", name="weather", arguments={"at": "A"}, proof=PROOF),),
    "parallel": (
        Call(id="abcdefgh1", name="weather", arguments={"at": "A"}, proof=PROOF),
        Call(id="abcdefgh2", name="weather", arguments={"at": "B"}),
    ),
    "no argument": (Call(id="abcdefgh1", name="clock", proof=PROOF),),
}
CHATTING = [one for one in VENDORS if one.task == "chat"]
TOOLS = [
    types.Tool(
        function_declarations=[
            types.FunctionDeclaration(
                name="weather",
                parameters=types.Schema(
                    type=types.Type.OBJECT, properties={"at": types.Schema(type=types.Type.STRING)}
                ),
            ),
            types.FunctionDeclaration(
                name="clock", parameters_json_schema={"type": "object", "properties": {}}
            ),
        ]
    )
]
WITH_TOOLS = types.GenerateContentConfig(tools=[*TOOLS])

of_all = pytest.mark.parametrize("vendor", CHATTING, ids=lambda one: one.name)
of_chats = of_every_dialect(CHATTING)
either_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


class GoogleOf(Struct, frozen=True, kw_only=True, eq=False):
    """Google's client, and the setting that it is a client of."""

    setting: Setting
    client: genai.Client

    def plays(self, vendor: Vendor, said: Said) -> None:
        self.setting.plays(answering(vendor, said))

    def received(self, vendor: Vendor) -> ReceivedRequest:
        return self.setting.received(vendor)

    async def ask(
        self,
        vendor: Vendor,
        contents: Sequence[types.Content | str] = (HI,),
        config: types.GenerateContentConfig | None = None,
        *,
        stream: bool,
    ) -> Heard:
        return await ask(self.client, vendor.name, contents, config, stream=stream)


@pytest.fixture(scope="module")
async def google(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[GoogleOf, None]:
    async with every_vendor(tmp_path_factory.mktemp("run"), failing=False) as setting:
        async with google_client(setting.gateway.url) as client:
            yield GoogleOf(setting=setting, client=client)


def results(asked: Heard, *, ids: bool = True) -> types.Content:
    """What came of the calls. ids: the client returns them, as not all do."""
    parts = [
        types.Part(
            function_response=types.FunctionResponse(
                id=one.id if ids else None, name=one.name, response={"output": "21 degrees"}
            )
        )
        for one in asked.calls
    ]
    return types.Content(role="user", parts=[*parts, types.Part(text="And?")])


@of_all
@either_way
async def test_an_answer_has_its_text_its_end_and_its_usage(
    google: GoogleOf, vendor: Vendor, stream: bool
) -> None:
    google.plays(vendor, Said())

    config = types.GenerateContentConfig(system_instruction="Be brief.", max_output_tokens=50)
    answer = await google.ask(vendor, config=config, stream=stream)

    assert (answer.text, answer.finish) == ("Hello 🌍", "STOP")
    counts = answer.counts
    if vendor.usages:
        assert counts is not None
        assert (counts.prompt_token_count, counts.candidates_token_count) == USAGE
    turns = [one for one in google.received(vendor).turns if one.role == "user"]
    assert [one.text for one in turns] == ["hi"]


@of_chats
@either_way
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
async def test_functions_are_called_and_their_results_go_back(
    google: GoogleOf, vendor: Vendor, stream: bool, made: tuple[Call, ...]
) -> None:
    google.plays(vendor, Said(text=(), calls=made))
    asked = await google.ask(vendor, config=WITH_TOOLS, stream=stream)
    google.plays(vendor, Said())

    turns = [HI, asked.content, results(asked)]
    answer = await google.ask(vendor, turns, WITH_TOOLS, stream=stream)

    assert asked.finish == "STOP"
    assert [(one.name, one.args) for one in asked.calls] == [
        (one.name, one.arguments) for one in made
    ]
    assert answer.text == "Hello 🌍"
    received = google.received(vendor)
    assert received.tools == ("weather", "clock")
    (called,) = [one for one in received.turns if one.calls]
    assert [(one.name, one.arguments) for one in called.calls] == [
        (one.name, one.arguments) for one in made
    ]
    if vendor.name == "gemini":
        assert called.calls[0].proof == PROOF
    else:
        ids = [one.id for one in called.calls]
        told = [result for one in received.turns for result in one.results]
        assert told == [(id, "21 degrees") for id in ids]


@of_chats
async def test_calls_and_results_without_ids_belong_together_by_their_names(
    google: GoogleOf, vendor: Vendor
) -> None:
    made = (Call(id="a", name="weather"), Call(id="b", name="clock"), Call(id="c", name="weather"))
    calls = [types.FunctionCall(name=one.name, args={"n": at}) for at, one in enumerate(made)]
    told = [
        types.FunctionResponse(name=name, response={"result": text})
        for name, text in (("clock", "noon"), ("weather", "rain"), ("weather", "sun"))
    ]
    google.plays(vendor, Said())

    turns = [
        HI,
        types.Content(role="model", parts=[types.Part(function_call=one) for one in calls]),
        types.Content(role="user", parts=[types.Part(function_response=one) for one in told]),
    ]
    answer = await google.ask(vendor, turns, WITH_TOOLS, stream=False)

    assert answer.text == "Hello 🌍"
    if vendor.name != "gemini":
        received = google.received(vendor)
        (called,) = [one for one in received.turns if one.calls]
        found = dict(result for one in received.turns for result in one.results)
        assert [found[one.id] for one in called.calls] == ["rain", "noon", "sun"]


@of_chats
@either_way
async def test_an_answer_keeps_to_a_schema(google: GoogleOf, vendor: Vendor, stream: bool) -> None:
    google.plays(vendor, Said(text=('{"a"', ": 1}")))
    config = types.GenerateContentConfig(
        response_mime_type="application/json", response_json_schema=SCHEMA
    )

    answer = await google.ask(vendor, config=config, stream=stream)

    assert json.loads(answer.text) == {"a": 1}
    assert google.received(vendor).schema == SCHEMA


@of_chats
async def test_googles_own_form_of_a_schema_arrives_as_a_json_schema(
    google: GoogleOf, vendor: Vendor
) -> None:
    google.plays(vendor, Said(text=('{"a": 1}',)))
    schema = types.Schema(
        type=types.Type.OBJECT,
        properties={"a": types.Schema(type=types.Type.INTEGER, nullable=True)},
        required=["a"],
    )
    config = types.GenerateContentConfig(
        response_mime_type="application/json", response_schema=schema
    )

    answer = await google.ask(vendor, config=config, stream=False)

    assert json.loads(answer.text) == {"a": 1}
    sent = google.setting.server.requests[-1].body
    if vendor.name == "gemini":
        assert b'"INTEGER"' in sent
    else:
        assert b"INTEGER" not in sent
        assert b"nullable" not in sent


@of_chats
async def test_an_image_travels_with_its_message(google: GoogleOf, vendor: Vendor) -> None:
    google.plays(vendor, Said())
    blob = types.Blob(mime_type="image/png", data=base64.b64decode(PIXEL))
    turn = types.Content(
        role="user", parts=[types.Part(text="What is it?"), types.Part(inline_data=blob)]
    )

    answer = await google.ask(vendor, [turn], stream=False)

    assert answer.text == "Hello 🌍"
    turns = [(one.text, one.images) for one in google.received(vendor).turns]
    assert turns == [("What is it?", (PIXEL,))]


SHOWN = types.GenerateContentConfig(
    thinking_config=types.ThinkingConfig(include_thoughts=True), tools=[*TOOLS]
)
HIDDEN = types.GenerateContentConfig(tools=[*TOOLS])


@of_chats
@either_way
async def test_thoughts_come_out_and_go_back_as_they_were(
    google: GoogleOf, vendor: Vendor, stream: bool
) -> None:
    google.plays(vendor, Said(thought=THOUGHT, proof=PROOF))
    first = await google.ask(vendor, config=SHOWN, stream=stream)

    await google.ask(vendor, [HI, first.content, HI], SHOWN, stream=stream)

    assert (first.thought, first.text) == (THOUGHT, "Hello 🌍")
    _, said, _ = google.received(vendor).turns
    assert said.text == "Hello 🌍"
    assert said.thoughts == ((THOUGHT, PROOF if vendor.proofs else ""),)


@of_every_dialect([one for one in CHATTING if one.proofs and one.name != "gemini"])
@either_way
@pytest.mark.parametrize("config", [SHOWN, HIDDEN], ids=["shown", "hidden"])
async def test_a_proven_thought_goes_back_although_the_client_keeps_no_thoughts(
    google: GoogleOf, vendor: Vendor, stream: bool, config: types.GenerateContentConfig
) -> None:
    google.plays(vendor, Said(thought=THOUGHT, proof=PROOF))
    first = await google.ask(vendor, config=config, stream=stream)

    turns = [HI, without_thoughts(first.content), HI]
    await google.ask(vendor, turns, config, stream=stream)

    assert first.thought == (THOUGHT if config is SHOWN else "")
    _, said, _ = google.received(vendor).turns
    assert (said.text, said.thoughts) == ("Hello 🌍", ((THOUGHT, PROOF),))


@of_chats
@either_way
async def test_a_thought_before_calls_goes_back_although_the_client_keeps_no_thoughts(
    google: GoogleOf, vendor: Vendor, stream: bool
) -> None:
    calls = MADE["parallel"]
    google.plays(vendor, Said(text=(), thought=THOUGHT, proof=PROOF, calls=calls))
    asked = await google.ask(vendor, config=SHOWN, stream=stream)

    turns = [HI, without_thoughts(asked.content), results(asked, ids=False)]
    await google.ask(vendor, turns, SHOWN, stream=stream)

    (said,) = [one for one in google.received(vendor).turns if one.calls]
    if vendor.name != "gemini":  # its proof is the call's, and it needs no more
        assert said.thoughts == ((THOUGHT, PROOF if vendor.proofs else ""),)
    assert len(said.calls) == 2


CLI: Json = {
    "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
    "generationConfig": {
        "temperature": 1,
        "topP": 0.95,
        "maxOutputTokens": 100,
        "mediaResolution": "MEDIA_RESOLUTION_LOW",
        "responseModalities": ["TEXT"],
    },
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"}],
    "labels": {"team": "a"},
}


@of_chats
@either_way
async def test_what_only_google_has_costs_no_one_the_answer_and_is_named(
    google: GoogleOf, vendor: Vendor, stream: bool
) -> None:
    google.plays(vendor, Said())
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    url = f"{google.setting.gateway.url}/v1beta/models/{vendor.name}:{verb}"
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(url, json=CLI)

    assert answer.status_code == 200, answer.text
    dropped = answer.headers.get("x-gateway-dropped-params", "").split(", ")
    sent = google.setting.server.requests[-1].body
    if vendor.name == "gemini":
        assert json.loads(sent) == CLI
    else:
        assert {"safetySettings", "labels", "generationConfig.mediaResolution"} <= set(dropped)
        assert b"safetySettings" not in sent


@of_chats
@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"cachedContent": "cachedContents/a"}, "cachedContent"),
        ({"tools": [{"fileSearch": {"fileSearchStoreNames": ["s"]}}]}, "file_search|fileSearch"),
        ({"generationConfig": {"responseModalities": ["IMAGE"]}}, "responseModalities"),
        ({"generationConfig": {"responseMimeType": "text/x.enum"}}, "responseMimeType"),
    ],
    ids=["cache", "file search", "images", "enum"],
)
async def test_what_only_google_can_do_is_refused_by_name(
    google: GoogleOf, vendor: Vendor, more: Json, named: str
) -> None:
    if vendor.name == "gemini" and named in ("responseModalities", "responseMimeType"):
        pytest.skip("it has it")
    google.plays(vendor, Said())
    body = {**CLI, **more}
    if "tools" in more:
        body["toolConfig"] = {"functionCallingConfig": {"mode": "ANY"}}
        body["tools"] = [{"fileSearch": {}}]
    url = f"{google.setting.gateway.url}/v1beta/models/{vendor.name}:generateContent"
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(url, json=body)

    assert answer.status_code in (400, 403), answer.text
    error = answer.json()["error"]
    assert error["status"] in ("INVALID_ARGUMENT", "PERMISSION_DENIED")
    assert not google.setting.server.requests


async def test_an_error_is_googles_and_its_client_reads_it(google: GoogleOf) -> None:
    with pytest.raises(errors.ClientError) as refused:
        await ask(google.client, "nothing", ["hi"], stream=False)

    assert (refused.value.code, refused.value.status) == (404, "NOT_FOUND")
    assert "nothing" in (refused.value.message or "")
