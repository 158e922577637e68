"""Answers of vendors that speak OpenAI's dialect, each with what only that vendor adds to it.

The formats are those of the recordings in tests/adapters/fixtures and of the vendors' documents.
"""

from collections.abc import Callable, Sequence
from typing import Final

from strowger_gateway.schemas.messages import CLAUDE
from tests.gateway.backends.vendors.dialect import Json, dicts, inner, sse
from tests.switching.scene import ALONE, CALLS, CITED, Scene, compact, halves, proof

SAID: Final = "I look both up 🔎."
DONE: Final = b"data: [DONE]\n\n"
COUNTS: Final[Json] = {"prompt_tokens": 31, "completion_tokens": 24, "total_tokens": 55}
PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAA"
"""An image that a model made."""


def answered(message: Json, model: str, choice: Json | None = None) -> Json:
    """Return a whole answer. choice: further members of the choice."""
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    only = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-CbV3nR1xQ",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": model,
        "choices": [{**only, **(choice or {})}],
        "usage": COUNTS,
    }


def streamed(whole: Json, parts: Callable[[Json], list[Json]] | None = None) -> list[bytes]:
    """Return a whole answer as its stream. parts: the deltas of the content, if it is no text."""
    (choice,) = dicts(whole["choices"])
    message = inner(choice, "message")
    more = {name: value for name, value in whole.items() if name not in ("choices", "usage")}
    head = {**more, "object": "chat.completion.chunk"}
    kept = {name: value for name, value in choice.items() if name not in ("message", "logprobs")}

    def chunk(delta: Json, finish: object = None) -> bytes:
        return sse({**head, "choices": [{**kept, "delta": delta, "finish_reason": finish}]})

    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    for name, value in message.items():
        match name:
            case "role":
                pass
            case "tool_calls":
                deltas += _call_deltas(dicts(value))
            case "content" if parts is not None:
                deltas += parts(message)
            case "reasoning" if "reasoning_details" in message:
                pass
            case "reasoning_details":
                deltas += [piece for one in dicts(value) for piece in _detail_deltas(one)]
            case _ if isinstance(value, str):
                deltas += [{name: half} for half in halves(value)]
            case _ if value is not None:
                deltas.append({name: value})
            case _:
                pass
    end = chunk({}, choice["finish_reason"])
    usage = sse({**head, "choices": (), "usage": whole["usage"]})
    return [*map(chunk, deltas), end, usage, DONE]


def _detail_deltas(detail: Json) -> list[Json]:
    """Return a block of reasoning in pieces, next to their text; its signature comes last."""
    if "text" not in detail:
        return [{"reasoning_details": [detail]}]
    plain = {name: value for name, value in detail.items() if name not in ("text", "signature")}
    pieces: list[Json] = [
        {"reasoning": half, "reasoning_details": [{**plain, "text": half}]}
        for half in halves(str(detail["text"]))
    ]
    ended = {**plain, "signature": detail["signature"]}
    return [*pieces, {"reasoning_details": [ended]}]


def _call_deltas(calls: Sequence[Json]) -> list[Json]:
    deltas: list[Json] = []
    for index, call in enumerate(calls):
        function = inner(call, "function")
        begun = {**call, "index": index, "function": {**function, "arguments": ""}}
        deltas.append({"tool_calls": [begun]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": half}}]}
            for half in halves(str(function["arguments"]))
        ]
    return deltas


def calls_with(*ids: str, **more: object) -> list[Json]:
    """Return the scene's calls under these ids. more: further members of each."""
    return [
        {
            "id": id,
            "type": "function",
            "function": {"name": name, "arguments": compact(arguments)},
            **more,
        }
        for id, (name, arguments) in zip(ids, CALLS, strict=True)
    ]


def called(message: Json, model: str, choice: Json | None = None) -> Json:
    return answered({"role": "assistant", **message}, model, choice)


def openai() -> list[Scene]:
    """Chat completions show no reasoning; a search model cites with `url_citation`."""
    calls = calls_with("call_9Vbz2GkQm7uTnR4cYh0wLd1A", "call_Kd83hTfQ0aXn5Wc1RsPj7uZe")
    asked = called({"content": SAID, "tool_calls": calls, "refusal": None}, "gpt-5.2")
    url = "https://weather.example/zurich?utm_source=openai"
    found = {"start_index": 0, "end_index": 16, "title": "Weather in Zürich", "url": url}
    note = {"type": "url_citation", "url_citation": found}
    cited = called({"content": CITED, "refusal": None, "annotations": [note]}, "gpt-5.2")
    thought = called({"content": "Hello 🌍.", "refusal": None, "annotations": []}, "gpt-5.2")
    return [
        Scene(name="calls", whole=asked, streamed=streamed(asked), text=SAID, calls=CALLS),
        Scene(name="thought", whole=thought, streamed=streamed(thought), text="Hello 🌍."),
        Scene(name="cited", whole=cited, streamed=streamed(cited), text=CITED, more=(url,)),
    ]


def azure() -> list[Scene]:
    """Each choice has the verdicts of a filter, and answers from own data have a context."""
    safe = {"hate": {"filtered": False, "severity": "safe"}}
    filters = {"content_filter_results": safe}
    calls = calls_with("call_Az3dN0pQ7rS1tU5vW9xY2zB4", "call_Az8hT2fQ6aXn0Wc4RsPj1uZe")
    asked = called({"content": SAID, "tool_calls": calls}, "gpt-5.2", choice=filters)
    file = "https://own-data.example/zurich.pdf"
    source = {"content": "19 degrees", "title": "zurich", "url": file, "chunk_id": "0"}
    context = {"citations": [source], "intent": '["weather in Zürich"]'}
    cited = called({"content": CITED, "context": context}, "gpt-5.2", choice=filters)
    thought = called({"content": "Hello 🌍.", "refusal": None}, "gpt-5.2", choice=filters)
    return [
        Scene(name="calls", whole=asked, streamed=streamed(asked), text=SAID, calls=CALLS),
        Scene(name="thought", whole=thought, streamed=streamed(thought), text="Hello 🌍."),
        Scene(name="cited", whole=cited, streamed=streamed(cited), text=CITED, more=(file,)),
    ]


def mistral() -> list[Scene]:
    """Reasoning and references are chunks of the content; ids have nine characters."""
    model = "magistral-medium-2509"
    signed = proof("mistral")
    thinking = {
        "type": "thinking",
        "thinking": [{"type": "text", "text": "Mistral ponders."}],
        "signature": signed,
        "closed": True,
    }
    calls = calls_with("D681PevKs", "a7Qz0Lm3X")
    asked = called(
        {"content": [thinking, {"type": "text", "text": SAID}], "tool_calls": calls}, model
    )
    thought = called({"content": [thinking, {"type": "text", "text": "Hello 🌍."}]}, model)
    parts = [
        {"type": "text", "text": "It is"},
        {"type": "reference", "reference_ids": [17]},
        {"type": "text", "text": " 19 degrees."},
    ]
    cited = called({"content": parts}, model)
    proofs = {signed: ALONE}
    return [
        Scene(
            name="calls",
            whole=asked,
            streamed=streamed(asked, _chunks),
            text=SAID,
            thought="Mistral ponders.",
            calls=CALLS,
            proofs=proofs,
        ),
        Scene(
            name="thought",
            whole=thought,
            streamed=streamed(thought, _chunks),
            text="Hello 🌍.",
            thought="Mistral ponders.",
            proofs=proofs,
        ),
        Scene(
            name="cited",
            whole=cited,
            streamed=streamed(cited, _chunks),
            text=CITED,
            own=("reference_ids",),
        ),
    ]


def _chunks(message: Json) -> list[Json]:
    """Return each chunk of the content as a delta; text is a string there."""
    found: list[Json] = []
    for one in dicts(message["content"]):
        if one["type"] == "text":
            found += [{"content": half} for half in halves(str(one["text"]))]
        elif one["type"] == "thinking":
            begun = {"type": "thinking", "thinking": one["thinking"]}
            ended = {**one, "thinking": ()}
            found += [{"content": [begun]}, {"content": [ended]}]
        else:
            found.append({"content": [one]})
    return found


def deepseek() -> list[Scene]:
    """Reasoning is `reasoning_content`."""
    model = "deepseek-v4-flash"
    thinking = {"reasoning_content": "DeepSeek ponders."}
    calls = calls_with("call_00_qqFO2kPoRsCKj1gErJfK8460", "call_01_tXw7VbNm2RkQzL5sHdPa9313")
    asked = called({**thinking, "content": SAID, "tool_calls": calls}, model)
    thought = called({**thinking, "content": "Hello 🌍."}, model)
    return [
        Scene(
            name="calls",
            whole=asked,
            streamed=streamed(asked),
            text=SAID,
            thought="DeepSeek ponders.",
            calls=CALLS,
        ),
        Scene(
            name="thought",
            whole=thought,
            streamed=streamed(thought),
            text="Hello 🌍.",
            thought="DeepSeek ponders.",
        ),
    ]


def openrouter() -> list[Scene]:
    """Reasoning comes as text and in `reasoning_details`, with proofs of the model's maker."""
    model = "anthropic/claude-sonnet-4.5"
    signed, hidden = proof("openrouter claude"), proof("openrouter redacted")
    details = [
        {
            "type": "reasoning.text",
            "text": "OpenRouter ponders.",
            "signature": signed,
            "format": CLAUDE,
            "index": 0,
        },
        {"type": "reasoning.encrypted", "data": hidden, "format": CLAUDE, "index": 1},
    ]
    thinking = {"reasoning": "OpenRouter ponders.", "reasoning_details": details}
    native = {"native_finish_reason": "completed"}
    calls = calls_with("toolu_vrtx_015QAXScZzRDPttiPoc34AdD", "toolu_vrtx_01Kq7PzNmVbX2RtYw9LsHd")
    asked = called({**thinking, "content": SAID, "tool_calls": calls}, model, choice=native)
    thought = called({**thinking, "content": "Hello 🌍."}, model, choice=native)
    url = "https://weather.example/openrouter"
    found = {"url": url, "title": "Zürich", "content": "19", "start_index": 0, "end_index": 16}
    notes = [{"type": "url_citation", "url_citation": found}]
    cited = called({"content": CITED, "annotations": notes}, model, choice=native)
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    drawn = called({"content": "There it is.", "images": [image]}, model, choice=native)
    proofs = {signed: CLAUDE, hidden: CLAUDE}
    return [
        Scene(
            name="calls",
            whole=asked,
            streamed=streamed(asked),
            text=SAID,
            thought="OpenRouter ponders.",
            calls=CALLS,
            proofs=proofs,
            sealed=(hidden,),
        ),
        Scene(
            name="thought",
            whole=thought,
            streamed=streamed(thought),
            text="Hello 🌍.",
            thought="OpenRouter ponders.",
            proofs=proofs,
            sealed=(hidden,),
        ),
        Scene(name="cited", whole=cited, streamed=streamed(cited), text=CITED, more=(url,)),
        Scene(
            name="pictured",
            whole=drawn,
            streamed=streamed(drawn),
            text="There it is.",
            more=(PIXEL,),
        ),
    ]


def vllm() -> list[Scene]:
    """Reasoning is `reasoning`; ids are those that the model writes, here Kimi's."""
    model = "moonshotai/Kimi-K2-Thinking"
    own = {"stop_reason": None, "token_ids": None}
    thinking = {"reasoning": "The server ponders."}
    calls = calls_with("functions.weather:0", "functions.clock:1")
    asked = called({**thinking, "content": SAID, "tool_calls": calls}, model, choice=own)
    thought = called({**thinking, "content": "Hello 🌍.", "tool_calls": []}, model, choice=own)
    return [
        Scene(
            name="calls",
            whole=asked,
            streamed=streamed(asked),
            text=SAID,
            thought="The server ponders.",
            calls=CALLS,
        ),
        Scene(
            name="thought",
            whole=thought,
            streamed=streamed(thought),
            text="Hello 🌍.",
            thought="The server ponders.",
        ),
    ]


def databricks() -> list[Scene]:
    """Reasoning is a part of the content with Claude's signature, or encrypted."""
    model = "databricks-claude-sonnet-4-5"
    signed, hidden = proof("databricks claude"), proof("databricks redacted")
    readable = {"type": "summary_text", "text": "Databricks ponders.", "signature": signed}
    secret = {"type": "summary_encrypted_text", "data": hidden}
    thinking = {"type": "reasoning", "summary": [readable]}
    calls = calls_with("toolu_bdrk_01NMNeqWfCpMx5CvJTiZ7aVG", "toolu_bdrk_01Tz8QvLrX3mWk6YpHsGd4Ja")
    text = {"type": "text", "text": SAID}
    asked = called({"content": [thinking, text], "tool_calls": calls}, model)
    both = {"type": "reasoning", "summary": [secret]}
    thought = called({"content": [thinking, both, {"type": "text", "text": "Hello 🌍."}]}, model)
    return [
        Scene(
            name="calls",
            whole=asked,
            streamed=streamed(asked, _reasoning_parts),
            text=SAID,
            thought="Databricks ponders.",
            calls=CALLS,
            proofs={signed: CLAUDE},
        ),
        Scene(
            name="thought",
            whole=thought,
            streamed=streamed(thought, _reasoning_parts),
            text="Hello 🌍.",
            thought="Databricks ponders.",
            proofs={signed: CLAUDE, hidden: CLAUDE},
            sealed=(hidden,),
        ),
    ]


def _reasoning_parts(message: Json) -> list[Json]:
    """Return reasoning as lists of parts, the signature last, and text as strings."""
    found: list[Json] = []
    for one in dicts(message["content"]):
        if one["type"] == "text":
            found += [{"content": half} for half in halves(str(one["text"]))]
            continue
        (summary,) = dicts(one["summary"])
        pieces: list[Json] = [summary]
        if "signature" in summary:
            empty = {"type": "summary_text", "text": "", "signature": summary["signature"]}
            texts = halves(str(summary["text"]))
            pieces = [
                *({"type": "summary_text", "text": half, "signature": ""} for half in texts),
                empty,
            ]
        found += [{"content": [{"type": "reasoning", "summary": [piece]}]} for piece in pieces]
    return found
