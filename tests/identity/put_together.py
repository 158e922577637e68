"""Streams as the SDKs read them, put together: pieces of text are joined, so their cuts are not
compared."""

from collections.abc import Iterable, Mapping
from typing import cast

Json = dict[str, object]

_ONCE = frozenset({"finish_reason", "id", "index", "name", "object", "role", "type"})
"""Members of a chat's pieces that are values, not pieces of text."""

_LATEST = frozenset({"content_filter_results", "content_filter_offsets"})
"""Members of a chat's pieces that say how it stands."""


def chat_of(chunks: Iterable[Json]) -> Json:
    """Return the answer that the chunks of a chat, or of completions, are pieces of."""
    whole: Json = {}
    choices: dict[int, Json] = {}
    for chunk in chunks:
        for one in cast("list[Json]", chunk.pop("choices") or []):
            index = cast("int", one.pop("index", 0) or 0)
            if "delta" in one:
                one["message"] = one.pop("delta")
            _add(choices.setdefault(index, {}), one)
        whole |= {name: value for name, value in chunk.items() if value not in (None, "")}
    whole["choices"] = [choices[index] for index in sorted(choices)]
    return whole


def _add(before: Json, piece: Mapping[str, object]) -> None:
    for name, value in piece.items():
        known = before.get(name)
        if value is None or (value == "" and name in _ONCE):
            continue
        if name in _LATEST:
            before[name] = cast("Json", known or {}) | cast("Json", value)
        elif isinstance(value, str) and isinstance(known, str) and name not in _ONCE:
            before[name] = known + value
        elif isinstance(value, dict) and isinstance(known, dict):
            _add(cast("Json", known), cast("Json", value))
        elif isinstance(value, list) and isinstance(known, list):
            _add_each(cast("list[object]", known), cast("list[object]", value))
        elif isinstance(value, list):
            before[name] = []
            _add_each(cast("list[object]", before[name]), cast("list[object]", value))
        elif isinstance(value, dict):
            before[name] = {}
            _add(cast("Json", before[name]), cast("Json", value))
        else:
            before[name] = value


def _add_each(before: list[object], pieces: Iterable[object]) -> None:
    """Add pieces of calls by their index, and any other values at the end."""
    for piece in pieces:
        fields = cast("Json", piece) if type(piece) is dict else {}
        place = fields.get("index")
        known = next(
            (
                one
                for one in cast("list[Json]", before)
                if place is not None and one["index"] == place
            ),
            None,
        )
        if known is not None:
            _add(known, fields)
        else:
            before += [piece]


def events_of(events: Iterable[Json]) -> list[Json]:
    """Return the events of a stream of blocks or items, with pieces of the same text joined."""
    joined: list[Json] = []
    for event in events:
        last = joined[-1] if joined else {}
        text = _text_of(event)
        if text is None or _place(last) != _place(event):
            joined.append(event)
        else:
            _set_text(last, (_text_of(last) or "") + text)
    return [one for one in joined if not _is_no_input(one)]


def _is_no_input(event: Json) -> bool:
    """Return whether a call's input is said to be empty, which its block says already."""
    delta = event.get("delta")
    fields = cast("Json", delta) if isinstance(delta, dict) else {}
    return fields.get("type") == "input_json_delta" and fields["partial_json"] in ("", "{}")


_TEXTS = ("text", "partial_json", "thinking", "signature")


def _text_of(event: Json) -> str | None:
    delta = event.get("delta")
    if isinstance(delta, str):
        return delta
    fields = cast("Json", delta) if isinstance(delta, dict) else {}
    found = [value for name in _TEXTS if isinstance(value := fields.get(name), str)]
    return found[0] if len(found) == 1 else None


def _set_text(event: Json, text: str) -> None:
    delta = event["delta"]
    if isinstance(delta, str):
        event["delta"] = text
        return
    fields = cast("Json", delta)
    name = next(name for name in _TEXTS if isinstance(fields.get(name), str))
    fields[name] = text


def _place(event: Json) -> object:
    delta = event.get("delta")
    kind = cast("Json", delta).get("type") if isinstance(delta, dict) else None
    names = ("type", "index", "output_index", "content_index", "summary_index")
    return kind, [event.get(name) for name in names]
