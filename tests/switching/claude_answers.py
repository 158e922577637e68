"""Claude's answers at Anthropic, at Vertex AI and at Bedrock.

The formats are those of the recordings in tests/adapters/fixtures and of the vendors' documents.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from strowger_gateway.schemas.messages import CLAUDE
from tests.gateway.backends.vendors.dialect import Json, dicts, inner, sse
from tests.stand_ins import bedrock_server as aws
from tests.switching.chat_answers import SAID
from tests.switching.scene import CALLS, CITED, Scene, compact, halves, proof

Block = dict[str, object]

WHERE: Final = "https://weather.example/zurich"
SEARCH: Final = "srvtoolu_01WYG3ziw53XMcoyKL4XcZmE"


def anthropic(vendor: str) -> list[Scene]:
    """Thinking is signed or redacted; a search is a server's tool with encrypted results."""
    signed, hidden, thought = proof(f"{vendor} claude"), proof(f"{vendor} hidden"), _thought(vendor)
    thinking: Block = {"type": "thinking", "thinking": thought, "signature": signed}
    redacted: Block = {"type": "redacted_thinking", "data": hidden}
    ids = ("toolu_01A09q90qw90lq917835lq9", "toolu_01T1x1fJ34qAmk2tNTrN7Up6")
    calls: list[Block] = [
        {"type": "tool_use", "id": id, "name": name, "input": given}
        for id, (name, given) in zip(ids, CALLS, strict=True)
    ]
    asked = _message("tool_use", [thinking, {"type": "text", "text": SAID}, *calls])
    told = _message("end_turn", [thinking, redacted, {"type": "text", "text": "Hello 🌍."}])
    page, index = proof(f"{vendor} page"), proof(f"{vendor} index")
    found = _message("end_turn", _searched(page, index))
    return [
        Scene(
            name="calls",
            whole=asked,
            streamed=list(_events(asked)),
            text=SAID,
            thought=thought,
            calls=CALLS,
            proofs={signed: CLAUDE},
        ),
        Scene(
            name="thought",
            whole=told,
            streamed=list(_events(told)),
            text="Hello 🌍.",
            thought=thought,
            proofs={signed: CLAUDE, hidden: CLAUDE},
            sealed=(hidden,),
        ),
        Scene(
            name="cited",
            whole=found,
            streamed=list(_events(found)),
            text=CITED,
            proofs={page: CLAUDE, index: CLAUDE},
            own=(SEARCH, "server_tool_use", "web_search_tool_result"),
        ),
    ]


def _thought(vendor: str) -> str:
    return f"Claude at {vendor} ponders."


def _searched(page: str, index: str) -> list[Block]:
    result: Block = {
        "type": "web_search_result",
        "url": WHERE,
        "title": "Zürich",
        "encrypted_content": page,
        "page_age": None,
    }
    place: Block = {
        "type": "web_search_result_location",
        "url": WHERE,
        "title": "Zürich",
        "encrypted_index": index,
        "cited_text": "19 degrees",
    }
    query = {"query": "Zürich"}
    return [
        {"type": "server_tool_use", "id": SEARCH, "name": "web_search", "input": query},
        {"type": "web_search_tool_result", "tool_use_id": SEARCH, "content": [result]},
        {"type": "text", "text": CITED, "citations": [place]},
    ]


def _message(reason: str, content: list[Block]) -> Block:
    return {
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 30},
    }


def _events(message: Block) -> Iterator[bytes]:
    def event(kind: str, **members: object) -> bytes:
        return sse({"type": kind, **members}, kind)

    begun = {**message, "content": (), "stop_reason": None}
    yield event("message_start", message=begun)
    for index, block in enumerate(dicts(message["content"])):
        empty, deltas = _pieces(block)
        yield event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=end, usage={"output_tokens": 30})
    yield event("message_stop")


def _pieces(block: Block) -> tuple[Block, list[Block]]:
    """Return a block as it begins, and its deltas."""
    match block["type"]:
        case "thinking":
            deltas: list[Block] = [
                {"type": "thinking_delta", "thinking": half}
                for half in halves(str(block["thinking"]))
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": "", "signature": ""}, deltas
        case "tool_use" | "server_tool_use":
            given = halves(compact(block["input"])) if block["input"] else [""]
            empty: Block = {}
            return {**block, "input": empty}, [
                {"type": "input_json_delta", "partial_json": half} for half in given
            ]
        case "text":
            deltas = [{"type": "text_delta", "text": half} for half in halves(str(block["text"]))]
            if "citations" not in block:
                return {**block, "text": ""}, deltas
            notes: list[Block] = [
                {"type": "citations_delta", "citation": one} for one in dicts(block["citations"])
            ]
            return {**block, "text": "", "citations": ()}, [*notes, *deltas]
        case _:
            return block, []


def bedrock() -> list[Scene]:
    """Converse has the same in blocks of its own."""
    signed, hidden, thought = proof("bedrock claude"), proof("bedrock hidden"), _thought("bedrock")
    thinking: Block = {
        "reasoningContent": {"reasoningText": {"text": thought, "signature": signed}}
    }
    redacted: Block = {"reasoningContent": {"redactedContent": hidden}}
    ids = ("tooluse_kZJMlvQmRJ6eAyJE5GIl7Q", "tooluse_Xb2fQh8dTn6LrWc0Vs4YpA")
    calls = [aws.used(id, name, {**given}) for id, (name, given) in zip(ids, CALLS, strict=True)]
    asked = aws.whole("tool_use", thinking, {"text": SAID}, *calls)
    told = aws.whole("end_turn", thinking, redacted, {"text": "Hello 🌍."})
    citation: Block = {
        "title": "Zürich",
        "sourceContent": [{"text": "19 degrees"}],
        "location": {"web": {"url": WHERE, "domain": "weather.example"}},
    }
    noted: Block = {"citationsContent": {"content": [{"text": CITED}], "citations": [citation]}}
    found = aws.whole("end_turn", noted)
    return [
        Scene(
            name="calls",
            whole=asked,
            streamed=list(_messages(asked)),
            text=SAID,
            thought=thought,
            calls=CALLS,
            proofs={signed: CLAUDE},
        ),
        Scene(
            name="thought",
            whole=told,
            streamed=list(_messages(told)),
            text="Hello 🌍.",
            thought=thought,
            proofs={signed: CLAUDE, hidden: CLAUDE},
            sealed=(hidden,),
        ),
        Scene(
            name="cited",
            whole=found,
            streamed=list(_messages(found)),
            text=CITED,
            own=("citationsContent",),
            more=(WHERE,),
        ),
    ]


def _messages(whole: Json) -> Iterator[bytes]:
    yield aws.starts()
    for place, block in enumerate(dicts(inner(whole, "output", "message")["content"])):
        yield from _block_messages(place, block)
    yield from aws.ends(str(whole["stopReason"]))


def _block_messages(place: int, block: Block) -> Sequence[bytes]:
    (kind,) = block
    match kind:
        case "text":
            texts = [aws.delta(place, {"text": half}) for half in halves(str(block["text"]))]
            return [*texts, aws.stops(place)]
        case "toolUse":
            call = inner(block, "toolUse")
            begun = aws.call_starts(place, str(call["toolUseId"]), str(call["name"]))
            given = halves(compact(call["input"])) if call["input"] else [""]
            pieces = [aws.delta(place, {"toolUse": {"input": half}}) for half in given]
            return [begun, *pieces, aws.stops(place)]
        case "reasoningContent":
            thought = inner(block, "reasoningContent")
            if "redactedContent" in thought:
                return [aws.delta(place, {"reasoningContent": thought}), aws.stops(place)]
            text = inner(thought, "reasoningText")
            return aws.thinking(place, str(text["text"]), str(text["signature"]))
        case _:
            cited = inner(block, kind)
            pieces = [aws.delta(place, {"text": one["text"]}) for one in dicts(cited["content"])]
            notes = [aws.delta(place, {"citation": one}) for one in dicts(cited["citations"])]
            return [*pieces, *notes, aws.stops(place)]
