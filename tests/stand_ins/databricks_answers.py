"""Answers of the fake Databricks workspace, computed from the requests.

The formats are those of the recordings: usage on every chunk with `completion_tokens: null` until
the last, content as a list of parts if the model reasons, choices of a batch by their index.
https://docs.databricks.com/aws/en/machine-learning/foundation-model-apis/api-reference
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import cast

Json = dict[str, object]

SIGNATURE = "c2lnbmF0dXJl"
"""The signature of every reasoning block; blocks sent back without it are rejected."""

THOUGHT = "Let me think"
PROMPT_TOKENS = 7
WIDTH = 4
"""Length of a vector."""

SHARED = frozenset(
    {"max_tokens", "stream", "temperature", "top_p", "top_k", "stop", "n", "model"}
    | {"usage_context", "client_request_id", "extra_params"}
)
KNOWN: Mapping[str, frozenset[str]] = {
    "messages": SHARED
    | {"messages", "tools", "tool_choice", "response_format", "logprobs", "top_logprobs"}
    | {"reasoning_effort", "thinking"},
    "prompt": SHARED | {"prompt", "error_behavior", "suffix", "echo", "use_raw_prompt"},
    "input": frozenset({"input", "instruction", "model", "usage_context", "client_request_id"}),
}
"""Known fields by the field that determines the task; any other field is a 400, as there."""


class Refused(Exception):
    """The request is invalid: `error_code` and `message` of a 400."""

    def __init__(self, message: str, code: str = "BAD_REQUEST") -> None:
        super().__init__(message)
        self.code = code


def checked(body: Json) -> str:
    """Return the task's field. Raises Refused for requests that the service rejects."""
    task = next((field for field in KNOWN if field in body), None)
    if task is None:
        raise Refused("Bad request: one of messages, prompt and input is needed")
    unknown = sorted(body.keys() - KNOWN[task])
    if unknown:
        raise Refused(f'Bad request: json: unknown field "{unknown[0]}"')
    nulls = sorted(name for name, value in body.items() if value is None)
    if nulls:
        raise Refused(f"{nulls[0]} must not be null", "INVALID_PARAMETER_VALUE")
    if task == "messages":
        _check_messages(cast("list[Json]", body["messages"]))
    return task


def whole(body: Json, model: str, task: str) -> Json:
    if task == "input":
        return _embeddings(body, model)
    choices = [_whole_choice(body, task, index) for index in range(_count(body))]
    head = {"id": "msg_1", "model": model, "created": 1_700_000_000, "choices": choices}
    kind = "chat.completion" if task == "messages" else "text_completion"
    return {**head, "object": kind, "usage": _usage(body, task, last=True)}


def chunks(body: Json, model: str, task: str) -> Iterator[Json]:
    """Yield the pieces of every choice in turn, then the end of each."""
    kind = "chat.completion.chunk" if task == "messages" else "text_completion"
    head: Json = {"id": "msg_1", "model": model, "object": kind, "created": 1_700_000_000}
    so_far = _usage(body, task, last=False)
    for index in range(_count(body)):
        for piece in _pieces(body, task, index):
            yield {**head, "choices": [{"index": index, **piece}], "usage": so_far}
    for index in range(_count(body)):
        end: Json = {"text": ""} if task == "prompt" else {"delta": {"content": ""}}
        choice = {"index": index, **end, "finish_reason": _finish(body, task, index)}
        yield {**head, "choices": [choice], "usage": _usage(body, task, last=True)}


def _check_messages(messages: list[Json]) -> None:
    for place, message in enumerate(messages):
        if message.get("role") == "system" and place:
            raise Refused("The system role is only allowed as the first message")
        if message.get("role") == "developer":
            raise Refused("developer is not a role")
        content = message.get("content")
        for part in cast("list[Json]", content) if isinstance(content, list) else []:
            if part.get("type") == "reasoning":
                summary = cast("list[Json]", part["summary"])
                if "text" in summary[0] and summary[0].get("signature") != SIGNATURE:
                    raise Refused("Invalid signature in thinking block")


def _count(body: Json) -> int:
    prompts = body.get("prompt", "")
    return (len(cast("list[str]", prompts)) if isinstance(prompts, list) else 1) * _n(body)


def _n(body: Json) -> int:
    return cast("int", body.get("n", 1))


def _usage(body: Json, task: str, *, last: bool) -> Json:
    """Return usage, with reasoning counted at the top level as Databricks does."""
    tokens = sum(len(_words(body, task, index)) for index in range(_count(body)))
    usage: Json = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": None, "total_tokens": None}
    if not last:
        return usage
    if _thinks(body):
        tokens += 3
        usage["reasoning_tokens"] = 3
    return usage | {"completion_tokens": tokens, "total_tokens": PROMPT_TOKENS + tokens}


def _whole_choice(body: Json, task: str, index: int) -> Json:
    finish = _finish(body, task, index)
    text = "".join(_words(body, task, index))
    if task == "prompt":
        return {"index": index, "text": text, "finish_reason": finish, "logprobs": None}
    message: Json = {"role": "assistant", "content": text}
    call = _call(body)
    if call is not None:
        message |= {"content": None, "tool_calls": [call]}
    elif _thinks(body):
        message["content"] = [_thought(THOUGHT, SIGNATURE), {"type": "text", "text": text}]
    choice: Json = {"index": index, "message": message, "finish_reason": finish}
    if body.get("logprobs") and call is None:
        choice["logprobs"] = {"content": [_logprob(word) for word in _words(body, task, index)]}
    return choice


def _pieces(body: Json, task: str, index: int) -> Iterator[Json]:
    if task == "prompt":
        for word in _words(body, task, index):
            yield {"text": word, "finish_reason": None}
        return
    call = _call(body)
    if call is not None:
        name = {**cast("Json", call["function"]), "arguments": ""}
        yield _delta({"content": None, "tool_calls": [{**call, "index": 0, "function": name}]})
        arguments = cast("str", cast("Json", call["function"])["arguments"])
        for half in (arguments[:3], arguments[3:]):
            piece = {"index": 0, "function": {"arguments": half}}
            yield _delta({"content": None, "tool_calls": [piece]})
        return
    if _thinks(body):
        yield _delta({"content": [_thought(THOUGHT, "")]})
        yield _delta({"content": [_thought("", SIGNATURE)]})
    for word in _words(body, task, index):
        piece = _delta({"content": word})
        if body.get("logprobs"):
            piece["logprobs"] = {"content": [_logprob(word)]}
        yield piece


def _delta(fields: Json) -> Json:
    return {"delta": {"role": "assistant", **fields}, "finish_reason": None}


def _thought(text: str, signature: str) -> Json:
    summary = {"type": "summary_text", "text": text, "signature": signature}
    return {"type": "reasoning", "summary": [summary]}


def _logprob(word: str) -> Json:
    return {"token": word, "logprob": -0.5, "bytes": list(word.encode()), "top_logprobs": []}


def _thinks(body: Json) -> bool:
    return "thinking" in body or "reasoning_effort" in body


def _finish(body: Json, task: str, index: int) -> str:
    if task == "messages" and _call(body) is not None:
        return "tool_calls"
    return "length" if len(_said(body, task, index)) > len(_words(body, task, index)) else "stop"


def _words(body: Json, task: str, index: int) -> list[str]:
    """Return the generated text by token; a completion's echo and suffix count no tokens here."""
    words = _said(body, task, index)[: cast("int | None", body.get("max_tokens"))]
    stops = body.get("stop", [])
    text = "".join(words)
    for stop in [stops] if isinstance(stops, str) else cast("list[str]", stops):
        if stop in text:
            words, text = [text.partition(stop)[0]], text.partition(stop)[0]
    if task == "prompt":
        before = [_prompt(body, index)] if body.get("echo") else []
        return [*before, *words, *([cast("str", body["suffix"])] if body.get("suffix") else [])]
    return words


def _said(body: Json, task: str, index: int) -> list[str]:
    if task == "prompt":
        how = "raw" if body.get("use_raw_prompt") else "templated"
        return [how, " answer", " to ", _prompt(body, index), f" #{index % _n(body)}"]
    if "response_format" in body:
        form = cast("Json", body["response_format"])
        schema = cast("Json", cast("Json", form.get("json_schema", {})).get("schema", {}))
        if form["type"] != "text":
            return [json.dumps(_instance(schema))]
    messages = cast("list[Json]", body["messages"])
    said = _text(messages[-1].get("content"))
    if messages[-1]["role"] == "tool":
        return ["The", " tool", " said ", said]
    return ["You", " said ", said]


def _prompt(body: Json, index: int) -> str:
    prompts = body["prompt"]
    return cast("list[str]", prompts if isinstance(prompts, list) else [prompts])[index // _n(body)]


def _text(content: object) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(cast("str", part.get("text", "")) for part in cast("list[Json]", content))


def _call(body: Json) -> Json | None:
    """Return a call of the first or the named function; none once there is a result."""
    choice = body.get("tool_choice", "auto")
    messages = cast("list[Json]", body["messages"])
    if "tools" not in body or choice == "none" or messages[-1]["role"] == "tool":
        return None
    functions = [cast("Json", tool["function"]) for tool in cast("list[Json]", body["tools"])]
    if isinstance(choice, dict):
        wanted = cast("Json", cast("Json", choice)["function"])["name"]
        functions = [one for one in functions if one["name"] == wanted]
    arguments = json.dumps(_instance(cast("Json", functions[0].get("parameters", {}))))
    called = {"name": functions[0]["name"], "arguments": arguments}
    return {"id": "call_1", "type": "function", "function": called}


def _instance(schema: Json) -> object:
    """Return a value that a plain schema allows."""
    if "enum" in schema:
        return cast("Sequence[object]", schema["enum"])[0]
    match schema.get("type", "object"):
        case "string":
            return "Paris"
        case "integer" | "number":
            return 42
        case "boolean":
            return True
        case "array":
            return [_instance(cast("Json", schema.get("items", {"type": "string"})))]
        case _:
            properties = cast("dict[str, Json]", schema.get("properties", {}))
            return {name: _instance(one) for name, one in properties.items()}


def _embeddings(body: Json, model: str) -> Json:
    """Return vectors that depend only on the input and the instruction."""
    given = body["input"]
    inputs = cast("list[str]", given if isinstance(given, list) else [given])
    before = cast("str", body.get("instruction", ""))
    data = [
        {"object": "embedding", "index": place, "embedding": vector(before + text)}
        for place, text in enumerate(inputs)
    ]
    usage = {"prompt_tokens": PROMPT_TOKENS, "total_tokens": PROMPT_TOKENS}
    return {"id": "emb_1", "object": "list", "model": model, "data": data, "usage": usage}


def vector(text: str) -> list[float]:
    """Return the fake embedding model's vector: exact in float32."""
    return [byte / 256 for byte in sha256(text.encode()).digest()[:WIDTH]]
