"""Requests of Ollama's `/api/chat` as clients send them, in order and out of it."""

from typing import Final

from hypothesis import strategies as st

from tests.oracle.fuzz.atoms import IDS, LIMIT, NAMES, PNG, SAID, SCHEMA, TEXTS, Json, Made, some

ASKED: Final[Json] = {"role": "user", "content": "hi"}
ID: Final = st.sampled_from((*IDS, None, None))
NAME: Final = st.sampled_from(NAMES)


def _call(drawn: tuple[str | None, str]) -> Json:
    id, name = drawn
    made: Json = {"function": {"name": name, "arguments": {}}}
    return made if id is None else {"id": id, **made}


@st.composite
def _loop(draw: st.DrawFn) -> list[Json]:
    """A turn with calls and their results: at times not all, without ids, or without names."""
    calls = draw(st.lists(st.tuples(ID, NAME).map(_call), min_size=1, max_size=3))
    answered = draw(st.sampled_from((calls, calls, calls[:-1], [*calls, calls[0]])))
    results: list[Json] = []
    for one in answered:
        named: Json = {"tool_name": one["function"]["name"]}  # pyright: ignore[reportIndexIssue, reportUnknownVariableType]  of `_call`
        by_id: Json = {"tool_call_id": one["id"]} if "id" in one else named
        how = draw(st.sampled_from((named, by_id, by_id, {})))
        results.append({"role": "tool", "content": draw(TEXTS), **how})
    turn: Json = {
        "role": "assistant",
        "content": draw(st.sampled_from(("", "Hm."))),
        "tool_calls": calls,
    }
    if draw(st.booleans()):
        turn = {**turn, "thinking": "I look."}
    return [turn, *results]


def _turn(role: str) -> st.SearchStrategy[list[Json]]:
    return (SAID | TEXTS).map(lambda said: [{"role": role, "content": said}])


def _shown(said: str) -> list[Json]:
    return [{"role": "user", "content": said, "images": [PNG]}]


TURNS: Final = st.lists(
    _turn("user")
    | TEXTS.map(_shown)
    | _loop()
    | _turn("assistant")
    | _turn("system")
    | TEXTS.map(lambda said: [{"role": "tool", "content": said}]),
    min_size=1,
    max_size=4,
).map(lambda turns: [ASKED, *[one for turn in turns for one in turn]])

OPTIONS: Made = some(
    temperature=st.sampled_from((0, 0.7, 2.5)),
    top_p=st.sampled_from((0.1, 1)),
    top_k=st.sampled_from((0, 40)),
    min_p=st.just(0.05),
    num_predict=st.sampled_from((-1, -2)) | LIMIT,
    num_ctx=st.just(8192),
    seed=st.sampled_from((-1, 7)),
    stop=st.sampled_from((["\n"], [""], "END", ["a", "b", "c", "d", "e"])),
    repeat_penalty=st.just(1.1),
    mirostat=st.just(2),
)
SETTINGS: Made = some(
    options=OPTIONS,
    keep_alive=st.sampled_from(("5m", 0, -1)),
    think=st.sampled_from((True, False, "low", "high")),
    format=st.just("json") | SCHEMA,
    logprobs=st.just(True),
)


@st.composite
def ollama_chats(draw: st.DrawFn) -> Json:
    """Return a body without its model."""
    body: Json = {"messages": draw(TURNS), "stream": False, **draw(SETTINGS)}
    if draw(st.integers(0, 3)):
        tools = draw(st.lists(st.tuples(NAME, SCHEMA), min_size=1, max_size=2))
        body["tools"] = [
            {"type": "function", "function": {"name": name, "parameters": schema}}
            for name, schema in tools
        ]
    return body
