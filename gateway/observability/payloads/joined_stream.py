"""Join the frames of a streamed answer, so that rules see whole values wherever they were split."""

from typing import cast

import msgspec

Json = dict[str, object]

_LINE = "created_at"
"""In every line of Ollama's streams, which are deltas as a whole."""
_REPLACED = frozenset(
    {
        *("type", "role", "id", "object", "model", "status", "item_id", "system_fingerprint"),
        *("finish_reason", "stop_reason", "stop_sequence", "service_tier", "model_name"),
        *(_LINE, "done_reason"),
    }
)
"""Names whose values are sent again, and are not parts of a text."""
_PARTS = "parts"
"""Of Gemini's streams: those of one frame continue those of the frame before it."""
_COUNTS = "usageMetadata"
"""In each of Gemini's frames, complete."""
_PLACES = ("type", "index", "output_index", "content_index", "summary_index", "item_id")
"""Fields that say which part of the answer an event belongs to."""
_MOST_PLACES = 10_000
_decoder: msgspec.json.Decoder[Json] = msgspec.json.Decoder(Json)


def joined_stream(frames: bytes) -> object:
    """Return the events joined: texts of deltas appended, other values as last sent.

    frames: server-sent events, lines of JSON, or a JSON list with a line for each entry. Events of
    the same kind at the same place become one; a list if there are several. Raises ValueError for
    frames that cannot be read.
    """
    groups: dict[tuple[object, ...], Json] = {}
    listed = frames.lstrip().startswith(b"[")
    for line in frames.split(b"\n"):
        line = line.strip()
        if listed:
            line = line.lstrip(b"[").rstrip(b",]")
        if line.startswith(b"data:"):
            line = line[5:].strip()
        elif not line.startswith(b"{"):
            continue
        if not line or line == b"[DONE]":
            continue
        found = _decoder.decode(line)
        key = tuple(repr(found.get(name)) for name in _PLACES)
        known = groups.get(key)
        if known is None:
            if len(groups) >= _MOST_PLACES:
                raise ValueError("too many kinds of events")
            groups[key] = found
        else:
            _merge(known, found, delta=_LINE in found)
    merged = list(groups.values())
    return merged[0] if len(merged) == 1 else merged


def _merge(known: Json, new: Json, *, delta: bool) -> None:
    for key, value in new.items():
        inside = delta or key == "delta"
        before = known.get(key)
        if isinstance(before, str) and isinstance(value, str):
            known[key] = _joined(key, before, value, delta=inside)
        elif key == _COUNTS:
            known[key] = value
        elif isinstance(before, dict) and isinstance(value, dict):
            _merge(cast(Json, before), cast(Json, value), delta=inside)
        elif isinstance(before, list) and isinstance(value, list):
            earlier, later = cast("list[object]", before), cast("list[object]", value)
            known[key] = _merged_lists(key, earlier, later, delta=inside)
        elif value is not None or before is None:
            known[key] = value


def _merged_lists(key: str, known: list[object], new: list[object], *, delta: bool) -> list[object]:
    """Merge objects of the same index, and texts at the same place; append the others."""
    if key == _PARTS:
        return _joined_parts(known, new)
    texts = all(isinstance(one, str) for one in (*known, *new))
    if texts and len(known) == len(new):
        pairs = zip(cast("list[str]", known), cast("list[str]", new), strict=True)
        return [_joined(key, *pair, delta=delta) for pair in pairs]
    found: dict[object, Json] = {
        cast(Json, one)["index"]: cast(Json, one)
        for one in known
        if isinstance(one, dict) and isinstance(cast(Json, one).get("index"), int)
    }
    for item in new:
        if isinstance(item, dict):
            fields = cast(Json, item)
            if (same := found.get(fields.get("index"))) is not None:
                _merge(same, fields, delta=delta)
                continue
        known.append(cast(object, item))
    return known


def _joined_parts(known: list[object], new: list[object]) -> list[object]:
    """Append a text to the one before it, if both are thoughts or neither is; add the others."""
    for item in new:
        last = known[-1] if known else None
        if isinstance(last, dict) and isinstance(item, dict):
            before, after = cast(Json, last), cast(Json, item)
            texts = before.get("text"), after.get("text")
            same = before.get("thought", False) == after.get("thought", False)
            if same and isinstance(texts[0], str) and isinstance(texts[1], str):
                before |= {**after, "text": texts[0] + texts[1]}
                continue
        known.append(cast(object, item))
    return known


def _joined(key: str, before: str, value: str, *, delta: bool) -> str:
    """Append a part of a text. Outside of a delta, an equal value is the same one sent again."""
    if key in _REPLACED:
        return value
    if delta or key in ("text", "text_output", "generated_text"):
        return before + value
    return before if before == value else before + value
