"""Requests of the Messages API as clients send them, in order and out of it."""

from typing import Final

from hypothesis import strategies as st

from tests.oracle.fuzz.atoms import (
    IDS,
    LIMIT,
    MEDIA,
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

ID: Final = st.sampled_from(IDS)
NAME: Final = st.sampled_from(NAMES)
MARK: Final[Json] = {"type": "ephemeral"}


def marked(blocks: Made) -> Made:
    """Return the blocks, some with a cache mark."""
    return st.tuples(blocks, st.integers(0, 4)).map(
        lambda drawn: drawn[0] if drawn[1] else {**drawn[0], "cache_control": MARK}
    )


def _text(said: str) -> Json:
    return {"type": "text", "text": said}


def _image(media: str) -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": PNG}}


def _document(title: str | None) -> Json:
    source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    named = {} if title is None else {"title": title}
    return {"type": "document", "source": source, **named}


def _thought(proof: str) -> Json:
    return {"type": "thinking", "thinking": "Hm.", "signature": proof}


def _call(drawn: tuple[str, str]) -> Json:
    return {"type": "tool_use", "id": drawn[0], "name": drawn[1], "input": {}}


TEXT: Final = TEXTS.map(_text)
MEDIUM: Final = MEDIA.map(_image) | st.sampled_from((None, "a  b")).map(_document)
THOUGHT: Final = st.sampled_from(
    ("", "own", "google-gemini-v1:AAAA", "openai-responses-v1:rs_1:A")
).map(_thought)
CALL: Final = st.tuples(ID, NAME).map(_call)
OUTPUT: Final = TEXTS | st.lists(TEXT | MEDIA.map(_image), max_size=2)


@st.composite
def _loop(draw: st.DrawFn) -> list[Json]:
    """A turn with calls and the one with their results, at times not all and not first."""
    calls = draw(st.lists(CALL, min_size=1, max_size=2))
    ids = [one["id"] for one in calls]
    answered = draw(st.sampled_from((ids, ids, ids, ids[:-1], [*ids, ids[0]])))
    before = draw(st.lists(THOUGHT | TEXT, max_size=2))
    results: list[Json] = [
        {"type": "tool_result", "tool_use_id": id, "content": draw(OUTPUT)} for id in answered
    ]
    more = draw(st.lists(marked(TEXT), max_size=1))
    content = draw(st.sampled_from(([*results, *more], [*results, *more], [*more, *results])))
    return [
        {"role": "assistant", "content": [*before, *calls]},
        {"role": "user", "content": content},
    ]


def _turn(role: str, content: st.SearchStrategy[object]) -> st.SearchStrategy[list[Json]]:
    return content.map(lambda said: [{"role": role, "content": said}])


TURNS: Final = st.lists(
    _turn("user", SAID | TEXTS | st.lists(marked(TEXT | MEDIUM), max_size=2))
    | _loop()
    | _turn("assistant", TEXTS | st.lists(TEXT | THOUGHT, max_size=2)),
    min_size=1,
    max_size=4,
).map(lambda turns: [one for turn in turns for one in turn])


def _tool(drawn: tuple[str, Json, bool | None]) -> Json:
    name, schema, strict = drawn
    made: Json = {"name": name, "input_schema": schema}
    return made if strict is None else {**made, "strict": strict}


TOOLS: Final = st.lists(
    marked(st.tuples(NAME, SCHEMA, st.sampled_from((None, None, True))).map(_tool)),
    min_size=1,
    max_size=2,
)


def _format(schema: Json) -> Json:
    return {"format": {"type": "json_schema", "schema": schema}}


SETTINGS: Made = some(
    temperature=TEMPERATURE,
    top_p=TOP_P,
    top_k=st.just(5),
    stop_sequences=STOPS,
    metadata=USERS.map(lambda user: {"user_id": user}),
    thinking=st.sampled_from(
        (
            {"type": "enabled", "budget_tokens": 1024},
            {"type": "enabled", "budget_tokens": 9000},
            {"type": "adaptive"},
            {"type": "disabled"},
        )
    ),
    output_config=st.sampled_from(({"effort": "low"}, {"effort": "max"})) | SCHEMA.map(_format),
    service_tier=st.just("auto"),
)


@st.composite
def messages(draw: st.DrawFn) -> Json:
    """Return a body without its model."""
    body: Json = {"messages": draw(TURNS), "max_tokens": draw(LIMIT), **draw(SETTINGS)}
    if draw(st.booleans()):
        body["system"] = draw(SAID | TEXTS | st.lists(marked(TEXT), max_size=3))
    if draw(st.integers(0, 3)):
        tools = draw(TOOLS)
        body["tools"] = tools
        if draw(st.booleans()):
            named: Json = {"type": "tool", "name": tools[0]["name"]}
            choices: tuple[Json, ...] = ({"type": "auto"}, {"type": "any"}, named, {"type": "none"})
            body["tool_choice"] = draw(st.sampled_from(choices))
    return body
