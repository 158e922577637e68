"""Clients of five dialects that keep a conversation as real ones do: they send answers back.

An answer goes back in one of three ways: `everything`, each member as it was received, streams put
together member by member, as libraries do that know no vendor; `sdk`, what the official client's
types make of it; `plain`, text and calls alone.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final, cast

from anthropic.types import Message
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from tests.gateway.backends.vendors.dialect import Json, dicts, inner
from tests.switching.gemini_client import CliClient, GeminiClient
from tests.switching.ollama_client import OllamaClient
from tests.switching.reply import (
    Client,
    Echo,
    Item,
    NamesModelInBody,
    Parameters,
    Reply,
    events,
)


class ChatClient(NamesModelInBody):
    """Chat completions."""

    path = "/v1/chat/completions"
    proves = True

    def user(self, text: str, image: str = "") -> Json:
        if not image:
            return {"role": "user", "content": text}
        url = {"url": f"data:image/png;base64,{image}"}
        parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": url}]
        return {"role": "user", "content": parts}

    def results(self, reply: Reply, texts: Sequence[str]) -> list[Json]:
        return [
            {"role": "tool", "tool_call_id": id, "content": text}
            for (id, _, _), text in zip(reply.calls, texts, strict=True)
        ]

    def body(self, conversation: Sequence[Json], functions: Parameters) -> Json:
        tools = [
            {"type": "function", "function": {"name": name, "parameters": schema}}
            for name, schema in functions.items()
        ]
        return {"messages": conversation, "max_tokens": 2000, **({"tools": tools} if tools else {})}

    def reply(self, answer: bytes, echo: Echo, *, stream: bool) -> Reply:
        message = _merged(events(answer)) if stream else _message(json.loads(answer))
        calls = [(one, inner(one, "function")) for one in dicts(message.get("tool_calls"))]
        text = str(message.get("content") or "")
        kept = message
        if echo == "sdk":
            kept = _by_openai(answer, stream=stream)
        elif echo == "plain":
            kept: Item = {"role": "assistant", "content": message.get("content")}
            if calls:
                kept["tool_calls"] = [
                    {
                        "id": one["id"],
                        "type": "function",
                        "function": {"name": f["name"], "arguments": f["arguments"]},
                    }
                    for one, f in calls
                ]
        return Reply(
            items=[kept],
            text=text,
            calls=[
                (str(one["id"]), str(f["name"]), json.loads(str(f["arguments"])))
                for one, f in calls
            ],
        )


def _message(answer: Json) -> Item:
    (choice,) = dicts(answer["choices"])
    return inner(choice, "message")


def _by_openai(answer: bytes, *, stream: bool) -> Item:
    """Return the message as OpenAI's types hold it, with a `None` for each absent member."""
    if not stream:
        return ChatCompletion.model_validate_json(answer).choices[0].message.model_dump()
    state = ChatCompletionStreamState()
    for one in events(answer):
        state.handle_chunk(ChatCompletionChunk.model_validate(one))
    return state.get_final_completion().choices[0].message.model_dump()


def _merged(chunks: Sequence[Json]) -> Item:
    """Put deltas together: texts are joined, lists extended, calls merged by their index."""
    message: Item = {"role": "assistant", "content": ""}
    calls: dict[object, Item] = {}
    for chunk in chunks:
        for choice in dicts(chunk["choices"]):
            for name, value in inner(choice, "delta").items():
                if name == "tool_calls":
                    for piece in dicts(value):
                        _merge(calls.setdefault(piece["index"], {}), piece)
                else:
                    _merge(message, {name: value})
    if calls:
        message["tool_calls"] = [
            {name: value for name, value in one.items() if name != "index"}
            for one in calls.values()
        ]
    return message


_NAMES: Final = frozenset({"id", "type", "role", "name"})
"""Texts that come whole, and not in pieces."""


def _merge(into: Item, piece: Json) -> None:
    for name, value in piece.items():
        known = into.get(name)
        if isinstance(value, str) and isinstance(known, str) and name not in _NAMES:
            into[name] = known + value
        elif isinstance(value, list) and isinstance(known, list):
            into[name] = [*cast("list[object]", known), *cast("list[object]", value)]
        elif isinstance(value, dict) and isinstance(known, dict):
            _merge(cast("Item", known), cast("Item", value))
        elif isinstance(value, dict):
            into[name] = {**cast("Item", value)}
        elif value is not None or name not in into:
            into[name] = value


class MessagesClient(NamesModelInBody):
    """Anthropic's Messages API."""

    path = "/v1/messages"
    proves = True

    def user(self, text: str, image: str = "") -> Json:
        if not image:
            return {"role": "user", "content": text}
        source = {"type": "base64", "media_type": "image/png", "data": image}
        blocks = [{"type": "text", "text": text}, {"type": "image", "source": source}]
        return {"role": "user", "content": blocks}

    def results(self, reply: Reply, texts: Sequence[str]) -> list[Json]:
        blocks = [
            {"type": "tool_result", "tool_use_id": id, "content": text}
            for (id, _, _), text in zip(reply.calls, texts, strict=True)
        ]
        return [{"role": "user", "content": blocks}] if blocks else []

    def body(self, conversation: Sequence[Json], functions: Parameters) -> Json:
        tools = [{"name": name, "input_schema": schema} for name, schema in functions.items()]
        return {
            "messages": _joined(conversation),
            "max_tokens": 2000,
            **({"tools": tools} if tools else {}),
        }

    def reply(self, answer: bytes, echo: Echo, *, stream: bool) -> Reply:
        message = _assembled(events(answer)) if stream else cast("Item", json.loads(answer))
        blocks = dicts(message["content"])
        kept = blocks
        if echo == "sdk":
            typed = Message.model_validate(message)
            kept = dicts(typed.model_dump(exclude_unset=True, mode="json")["content"])
        elif echo == "plain":
            named = {"text": ("type", "text"), "tool_use": ("type", "id", "name", "input")}
            kept = [
                {name: one[name] for name in named[str(one["type"])]}
                for one in blocks
                if one["type"] in named
            ]
        return Reply(
            items=[{"role": "assistant", "content": kept}],
            text="".join(str(one["text"]) for one in blocks if one["type"] == "text"),
            calls=[
                (str(one["id"]), str(one["name"]), inner(one, "input"))
                for one in blocks
                if one["type"] == "tool_use"
            ],
        )


def _joined(conversation: Sequence[Json]) -> list[Json]:
    """Return the turns with consecutive ones of the user as one: results, then the text."""
    turns: list[Json] = []
    for one in conversation:
        if turns and one["role"] == "user" == turns[-1]["role"]:
            before, content = dicts(turns[-1]["content"]), one["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            turns[-1] = {"role": "user", "content": [*before, *dicts(blocks)]}
        else:
            turns.append(one)
    return turns


def _assembled(stream: Sequence[Json]) -> Item:
    """Put a stream's events together, as Anthropic's client does."""
    message: Item = {}
    blocks: list[Item] = []
    for event in stream:
        match event["type"]:
            case "message_start":
                message = {**inner(event, "message")}
            case "content_block_start":
                blocks.append({**inner(event, "content_block"), "_json": ""})
            case "content_block_delta":
                _add_delta(blocks[-1], inner(event, "delta"))
            case "content_block_stop":
                text = str(blocks[-1].pop("_json"))
                if text:
                    blocks[-1]["input"] = json.loads(text)
            case "message_delta":
                message |= inner(event, "delta")
            case _:
                pass
    return {**message, "content": blocks}


def _add_delta(block: Item, delta: Json) -> None:
    match delta["type"]:
        case "input_json_delta":
            block["_json"] = f"{block['_json']}{delta['partial_json']}"
        case "citations_delta":
            block["citations"] = [*dicts(block.get("citations")), delta["citation"]]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "text_delta" | "thinking_delta":
            name = str(delta["type"]).removesuffix("_delta")
            block[name] = f"{block[name]}{delta[name]}"
        case other:
            raise AssertionError(f"a client does not know the delta {other}")


class ResponsesClient(NamesModelInBody):
    """OpenAI's Responses API."""

    path = "/v1/responses"
    proves = True

    def user(self, text: str, image: str = "") -> Json:
        if not image:
            return {"type": "message", "role": "user", "content": text}
        url = f"data:image/png;base64,{image}"
        parts = [
            {"type": "input_text", "text": text},
            {"type": "input_image", "image_url": url, "detail": "auto"},
        ]
        return {"type": "message", "role": "user", "content": parts}

    def results(self, reply: Reply, texts: Sequence[str]) -> list[Json]:
        return [
            {"type": "function_call_output", "call_id": id, "output": text}
            for (id, _, _), text in zip(reply.calls, texts, strict=True)
        ]

    def body(self, conversation: Sequence[Json], functions: Parameters) -> Json:
        tools = [
            {"type": "function", "name": name, "parameters": schema, "strict": False}
            for name, schema in functions.items()
        ]
        return {
            "input": conversation,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            **({"tools": tools} if tools else {}),
        }

    def reply(self, answer: bytes, echo: Echo, *, stream: bool) -> Reply:
        whole = inner(events(answer)[-1], "response") if stream else json.loads(answer)
        output = dicts(inner(whole)["output"])
        kept = output
        if echo == "sdk":
            typed = Response.model_validate(whole).output
            kept = [one.model_dump(exclude_unset=True, mode="json") for one in typed]
        elif echo == "plain":
            kept = [one for item in output for one in _plain_item(item)]
        return Reply(
            items=kept,
            text="".join(
                str(part.get("text", ""))
                for one in output
                if one["type"] == "message"
                for part in dicts(one["content"])
            ),
            calls=[
                (str(one["call_id"]), str(one["name"]), json.loads(str(one["arguments"])))
                for one in output
                if one["type"] == "function_call"
            ],
        )


def _plain_item(item: Json) -> list[Item]:
    match item["type"]:
        case "message":
            text = "".join(str(part.get("text", "")) for part in dicts(item["content"]))
            return [{"role": "assistant", "content": text}]
        case "function_call":
            return [{name: item[name] for name in ("type", "call_id", "name", "arguments")}]
        case _:
            return []


CLIENTS: Final[Mapping[str, Client]] = {
    "chat": ChatClient(),
    "messages": MessagesClient(),
    "responses": ResponsesClient(),
    "ollama": OllamaClient(),
    "gemini": GeminiClient(),
}


class ReferringClient(ResponsesClient):
    """Vercel's AI SDK with its default: of its answers, it returns ids, and calls as a whole.

    https://github.com/vercel/ai: packages/openai/src/responses/convert-to-openai-responses-input.ts
    """

    def body(self, conversation: Sequence[Json], functions: Parameters) -> Json:
        whole = super().body(conversation, functions)
        return {name: value for name, value in whole.items() if name not in ("include", "store")}

    def reply(self, answer: bytes, echo: Echo, *, stream: bool) -> Reply:
        whole = super().reply(answer, "everything", stream=stream)
        items = whole.items
        if stream:  # it collects items as they end, and does not read the response at the end
            ended = [one for one in events(answer) if one["type"] == "response.output_item.done"]
            items = [inner(one, "item") for one in ended]
            places = [one["output_index"] for one in ended]
            assert places == list(range(len(items)))
            assert items == [*whole.items]
        kept = [
            one
            if one["type"] == "function_call"
            else {"type": "item_reference", "id": str(one["id"])}
            for one in items
        ]
        return Reply(items=kept, text=whole.text, calls=whole.calls)


class CodeClient(MessagesClient):
    """Claude Code 2.1.197: it returns a `thinking` block only if it has text."""

    def reply(self, answer: bytes, echo: Echo, *, stream: bool) -> Reply:
        whole = super().reply(answer, "everything", stream=stream)
        (turn,) = whole.items
        kept = [
            one for one in dicts(turn["content"]) if one["type"] != "thinking" or one["thinking"]
        ]
        items = [{**turn, "content": kept}]
        return Reply(items=items, text=whole.text, calls=whole.calls)


REFERRING: Final = "ids"
CODE: Final = "code"
CLI: Final = "cli"
EVERY_CLIENT: Final[Mapping[str, Client]] = {
    **CLIENTS,
    REFERRING: ReferringClient(),
    CODE: CodeClient(),
    CLI: CliClient(),
}
