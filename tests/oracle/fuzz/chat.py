"""Requests for chat completions as clients send them, in order and out of it."""

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
    STOPS,
    TEMPERATURE,
    TEXTS,
    TOP_P,
    USERS,
    Json,
    Made,
    some,
)
from tests.oracle.reading import inner

ID: Final = st.sampled_from(IDS)
NAME: Final = st.sampled_from(NAMES)


def _text(said: str) -> Json:
    return {"type": "text", "text": said}


def _image(media: str) -> Json:
    return {"type": "image_url", "image_url": {"url": f"data:{media};base64,{PNG}"}}


def _file(name: str | None) -> Json:
    named = {} if name is None else {"filename": name}
    data = {"file_data": f"data:application/pdf;base64,{PDF}", **named}
    return {"type": "file", "file": data}


FILE: Final = st.sampled_from((None, "a.pdf", "a  b_c.pdf")).map(_file)
PART: Final = TEXTS.map(_text) | MEDIA.map(_image) | FILE
CONTENT: Final = SAID | TEXTS | st.lists(PART, max_size=2)
USER: Made = st.fixed_dictionaries(
    {"role": st.just("user"), "content": CONTENT},
    optional={"name": st.sampled_from(("ada", "Ada L."))},
)
SYSTEM: Made = st.fixed_dictionaries(
    {"role": st.sampled_from(("system", "developer")), "content": SAID | TEXTS}
)


def _call(drawn: tuple[str, str, str]) -> Json:
    id, name, arguments = drawn
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


CALLS: Final = st.lists(st.tuples(ID, NAME, ARGUMENTS).map(_call), min_size=1, max_size=2)
RESULT: Final = TEXTS | st.lists(TEXTS.map(_text) | MEDIA.map(_image), max_size=2)
ANSWER: Made = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": TEXTS | st.none()},
    optional={"tool_calls": CALLS, "reasoning_content": SAID},
)
TOOL: Made = st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": ID, "content": RESULT})


@st.composite
def _loop(draw: st.DrawFn) -> list[Json]:
    """A call with its results, at times one too few or too many."""
    calls = draw(CALLS)
    ids = [one["id"] for one in calls]
    answered = draw(st.sampled_from((ids, ids, ids, ids[:-1], [*ids, ids[0]])))
    said: Json = {"role": "assistant", "content": draw(TEXTS | st.none()), "tool_calls": calls}
    results: list[Json] = [
        {"role": "tool", "tool_call_id": id, "content": draw(RESULT)} for id in answered
    ]
    return [said, *results]


TURNS: Final = st.lists(
    USER.map(lambda one: [one]) | _loop() | (SYSTEM | ANSWER | TOOL).map(lambda one: [one]),
    min_size=1,
    max_size=4,
).map(lambda turns: [one for turn in turns for one in turn])


def _tool(drawn: tuple[str, Json, bool | None]) -> Json:
    name, schema, strict = drawn
    function: Json = {"name": name, "parameters": schema}
    if strict is not None:
        function["strict"] = strict
    return {"type": "function", "function": function}


TOOLS: Final = st.lists(
    st.tuples(NAME, SCHEMA, st.sampled_from((None, None, True, False))).map(_tool),
    min_size=1,
    max_size=2,
)


def _schema(schema: Json) -> Json:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}


def _choice(tools: list[Json]) -> st.SearchStrategy[object]:
    named: Json = {"type": "function", "function": {"name": _name(tools[0])}}
    return st.sampled_from(("auto", "none", "required", named))


def _name(tool: Json) -> object:
    return inner(tool, "function")["name"]


SETTINGS: Made = some(
    temperature=TEMPERATURE,
    top_p=TOP_P,
    max_tokens=LIMIT,
    max_completion_tokens=LIMIT,
    stop=STOPS,
    user=USERS,
    metadata=METADATA,
    reasoning_effort=EFFORTS,
    seed=st.just(7),
    presence_penalty=st.just(0.5),
    frequency_penalty=st.just(-0.5),
    logprobs=st.just(True),
    top_logprobs=st.just(3),
    logit_bias=st.just({"5": 1}),
    n=st.just(2),
    parallel_tool_calls=st.booleans(),
    prompt_cache_key=st.just("k" * 70),
    service_tier=st.sampled_from(("auto", "default")),
    verbosity=st.just("low"),
    store=st.just(False),
    stream_options=st.just({"include_usage": True}),
    response_format=st.just({"type": "json_object"}) | SCHEMA.map(_schema),
)


@st.composite
def chats(draw: st.DrawFn) -> Json:
    """Return a body without its model."""
    body: Json = {"messages": draw(TURNS), **draw(SETTINGS)}
    if draw(st.integers(0, 3)):
        tools = draw(TOOLS)
        body["tools"] = tools
        if draw(st.booleans()):
            body["tool_choice"] = draw(_choice(tools))
    return body
