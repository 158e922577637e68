"""Vendors that search the web, as each of them answers: whole, and as a stream."""

import json
from collections.abc import Mapping, Sequence

from tests.stand_ins.provider import Answer, Received

Json = dict[str, object]

QUERY = "weather Bern"
URL, TITLE = "https://meteo.test/bern", "Weather in Bern"
TEXT = "Für Bern: snow, then sun."
CITED = "snow"
NUMBERED = "Für Bern: snow[2], then sun."

_SOURCE: Json = {"type": "url", "url": URL}
_CITATION: Json = {"type": "url_citation", "url": URL, "title": TITLE}


async def searching(request: Received, answer: Answer) -> None:
    """Answer in the vendor's format after one search."""
    path, streamed = request.path, b'"stream":true' in request.body
    if path.endswith("/messages"):
        await _claudes(answer, streamed=streamed)
    elif ":generateContent" in path:
        await answer.json(_googles(TEXT, ended=True))
    elif ":streamGenerateContent" in path:
        half = len(TEXT) // 2
        frames = [_googles(TEXT[:half], ended=False), _googles(TEXT[half:], ended=True)]
        await _stream(answer, [("", one) for one in frames])
    elif path.endswith("/responses"):
        await _openais(answer, streamed=streamed)
    else:
        await _chats(answer, streamed=streamed, numbered="/perplexity/" in path)


async def _claudes(answer: Answer, *, streamed: bool) -> None:
    result: Json = {"type": "web_search_result", "url": URL, "title": TITLE, "page_age": "1 day"}
    cited: Json = {
        "type": "web_search_result_location",
        "url": URL,
        "title": TITLE,
        "encrypted_index": "e1",
        "cited_text": "Snow until noon.",
    }
    blocks: list[Json] = [
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": QUERY},
        },
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [{**result, "encrypted_content": "e0"}],
        },
        {"type": "text", "text": TEXT, "citations": [cited]},
    ]
    usage = {"input_tokens": 9, "output_tokens": 7, "server_tool_use": {"web_search_requests": 1}}
    head: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude"}
    if not streamed:
        body = {**head, "content": blocks, "stop_reason": "end_turn", "usage": usage}
        await answer.json(body)
        return
    call, found, text = blocks
    query = json.dumps(call["input"])
    frames: list[tuple[str, Json]] = [
        ("message_start", {"message": {**head, "content": [], "usage": usage}}),
        ("content_block_start", {"index": 0, "content_block": {**call, "input": {}}}),
        (
            "content_block_delta",
            {"index": 0, "delta": {"type": "input_json_delta", "partial_json": query}},
        ),
        ("content_block_stop", {"index": 0}),
        ("content_block_start", {"index": 1, "content_block": found}),
        ("content_block_stop", {"index": 1}),
        ("content_block_start", {"index": 2, "content_block": {"type": "text", "text": ""}}),
        (
            "content_block_delta",
            {"index": 2, "delta": {"type": "text_delta", "text": text["text"]}},
        ),
        (
            "content_block_delta",
            {"index": 2, "delta": {"type": "citations_delta", "citation": cited}},
        ),
        ("content_block_stop", {"index": 2}),
        ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": usage}),
        ("message_stop", {}),
    ]
    await _stream(answer, [(name, {"type": name, **one}) for name, one in frames])


def _googles(text: str, *, ended: bool) -> Json:
    begin = TEXT.encode().index(CITED.encode())
    segment = {"startIndex": begin, "endIndex": begin + len(CITED), "text": CITED}
    grounding: Json = {
        "webSearchQueries": [QUERY],
        "groundingChunks": [{"web": {"uri": URL, "title": TITLE}}],
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
    }
    candidate: Json = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}
    if ended:
        candidate |= {"finishReason": "STOP", "groundingMetadata": grounding}
    counts = {"promptTokenCount": 9, "candidatesTokenCount": 7, "totalTokenCount": 16}
    return {"candidates": [candidate], "usageMetadata": counts, "responseId": "r1"}


async def _openais(answer: Answer, *, streamed: bool) -> None:
    begin = TEXT.index(CITED)
    action = {"type": "search", "query": QUERY, "queries": [QUERY], "sources": [_SOURCE]}
    search: Json = {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": action,
    }
    cited = {**_CITATION, "start_index": begin, "end_index": begin + len(CITED)}
    part: Json = {"type": "output_text", "text": TEXT, "annotations": [cited], "logprobs": []}
    said: Json = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    message: Json = {**said, "content": [part]}
    head: Json = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt"}
    usage = {"input_tokens": 9, "output_tokens": 7, "total_tokens": 16}
    whole = {**head, "status": "completed", "output": [search, message], "usage": usage}
    if not streamed:
        await answer.json(whole)
        return
    place = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    frames: list[tuple[str, Json]] = [
        ("response.created", {"response": {**head, "status": "in_progress", "output": []}}),
        (
            "response.output_item.added",
            {"output_index": 0, "item": {**search, "status": "in_progress"}},
        ),
        ("response.output_item.done", {"output_index": 0, "item": search}),
        ("response.output_item.added", {"output_index": 1, "item": {**said, "content": []}}),
        ("response.content_part.added", {**place, "part": {**part, "text": "", "annotations": []}}),
        ("response.output_text.delta", {**place, "delta": TEXT}),
        ("response.output_item.done", {"output_index": 1, "item": message}),
        ("response.completed", {"response": whole}),
    ]
    await _stream(answer, [(name, {"type": name, **one}) for name, one in frames])


async def _chats(answer: Answer, *, streamed: bool, numbered: bool) -> None:
    begin = TEXT.index(CITED)
    inner = {"url": URL, "title": TITLE, "start_index": begin, "end_index": begin + len(CITED)}
    annotations = [{"type": "url_citation", "url_citation": inner}]
    usage: Json = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}
    head: Json = {"id": "c1", "created": 1, "model": "m"}
    message: Json = {"role": "assistant", "content": TEXT, "annotations": annotations}
    if numbered:
        head |= {"search_results": [{"url": "https://other.test"}, {"url": URL, "title": TITLE}]}
        message = {"role": "assistant", "content": NUMBERED}
    if not streamed:
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        await answer.json(
            {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        )
        return
    chunk: Json = {**head, "object": "chat.completion.chunk"}
    deltas: list[Json] = [
        {"delta": {"role": "assistant", "content": message["content"]}, "finish_reason": None},
        *([] if numbered else [{"delta": {"annotations": annotations}, "finish_reason": None}]),
        {"delta": {}, "finish_reason": "stop"},
    ]
    frames: list[Json] = [{**chunk, "choices": [{"index": 0, **one}]} for one in deltas]
    frames.append({**chunk, "choices": [], "usage": usage})
    await _stream(answer, [("", one) for one in frames])


async def _stream(answer: Answer, frames: Sequence[tuple[str, Mapping[str, object]]]) -> None:
    await answer.begin_stream()
    for name, body in frames:
        event = f"event: {name}\n" if name else ""
        await answer.chunk(f"{event}data: {json.dumps(body)}\n\n".encode())
    if "choices" in frames[0][1]:
        await answer.chunk(b"data: [DONE]\n\n")
    await answer.chunk(b"")
