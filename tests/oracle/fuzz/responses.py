"""Requests of the Responses API as clients send them, in order and out of it."""

from typing import Final

from hypothesis import strategies as st

from tests.oracle.fuzz.atoms import (
    ARGUMENTS,
    EFFORTS,
    IDS,
    LIMIT,
    MEDIA,
    METADATA,
    NAMES,
    PDF,
    PNG,
    SAID,
    SCHEMA,
    TEMPERATURE,
    TEXTS,
    TOP_P,
    USERS,
    Json,
    Made,
    some,
)

ID: Final = st.sampled_from(IDS)
NAME: Final = st.sampled_from(NAMES)


def _image(media: str) -> Json:
    return {"type": "input_image", "image_url": f"data:{media};base64,{PNG}"}


def _file(name: str | None) -> Json:
    named = {} if name is None else {"filename": name}
    return {"type": "input_file", "file_data": f"data:application/pdf;base64,{PDF}", **named}


PART: Final = (
    TEXTS.map(lambda said: {"type": "input_text", "text": said})
    | MEDIA.map(_image)
    | st.sampled_from((None, "a.pdf")).map(_file)
)
SAYS: Made = st.fixed_dictionaries(
    {
        "role": st.sampled_from(("user", "user", "system", "developer")),
        "content": SAID | TEXTS | st.lists(PART, max_size=2),
    },
    optional={"type": st.just("message")},
)
ANSWERS: Made = TEXTS.map(
    lambda said: {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": said}],
    }
)
REASONS: Made = st.fixed_dictionaries(
    {"type": st.just("reasoning"), "summary": st.just([])},
    optional={
        "id": st.sampled_from(("rs_1", "item_1")),
        "encrypted_content": st.sampled_from(("AAAA", "anthropic-claude-v1:AAAA")),
    },
)
OUTPUT: Final = TEXTS | st.lists(
    TEXTS.map(lambda said: {"type": "input_text", "text": said}) | MEDIA.map(_image), max_size=2
)


@st.composite
def _loop(draw: st.DrawFn) -> list[Json]:
    """Calls with their outputs, at times one too few or too many."""
    ids = draw(st.lists(ID, min_size=1, max_size=2))
    calls: list[Json] = [
        {"type": "function_call", "call_id": id, "name": draw(NAME), "arguments": draw(ARGUMENTS)}
        for id in ids
    ]
    answered = draw(st.sampled_from((ids, ids, ids, ids[:-1], [*ids, ids[0]])))
    outputs: list[Json] = [
        {"type": "function_call_output", "call_id": id, "output": draw(OUTPUT)} for id in answered
    ]
    return [*draw(st.lists(REASONS, max_size=1)), *calls, *outputs]


ITEMS: Final = st.lists(
    SAYS.map(lambda one: [one]) | _loop() | (ANSWERS | REASONS).map(lambda one: [one]),
    min_size=1,
    max_size=4,
).map(lambda turns: [one for turn in turns for one in turn])


def _tool(drawn: tuple[str, Json, bool | None]) -> Json:
    name, schema, strict = drawn
    made: Json = {"type": "function", "name": name, "parameters": schema}
    return made if strict is None else {**made, "strict": strict}


TOOLS: Final = st.lists(
    st.tuples(NAME, SCHEMA, st.sampled_from((None, True, False))).map(_tool),
    min_size=1,
    max_size=2,
)


def _format(schema: Json) -> Json:
    return {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}


SETTINGS: Made = some(
    temperature=TEMPERATURE,
    top_p=TOP_P,
    max_output_tokens=LIMIT,
    instructions=SAID | TEXTS,
    user=USERS,
    metadata=METADATA,
    reasoning=EFFORTS.map(lambda effort: {"effort": effort}),
    parallel_tool_calls=st.booleans(),
    prompt_cache_key=st.just("k" * 70),
    service_tier=st.just("auto"),
    store=st.just(False),
    include=st.just(["reasoning.encrypted_content"]),
    text=st.sampled_from(({"verbosity": "low"}, {"format": {"type": "json_object"}}))
    | SCHEMA.map(_format),
)


@st.composite
def responses(draw: st.DrawFn) -> Json:
    """Return a body without its model."""
    body: Json = {"input": draw(SAID | ITEMS), **draw(SETTINGS)}
    if draw(st.integers(0, 3)):
        tools = draw(TOOLS)
        body["tools"] = tools
        if draw(st.booleans()):
            named: Json = {"type": "function", "name": tools[0]["name"]}
            choices: tuple[object, ...] = ("auto", "none", "required", named)
            body["tool_choice"] = draw(st.sampled_from(choices))
    return body
