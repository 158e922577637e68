"""The tags that a caller gives a request, for its line, its row and the reports of usage.

They come in `x-gateway-tags: team=search, nightly`, and as clients of other gateways send them: in
`x-litellm-tags`, as the JSON object of `databricks-ai-gateway-request-tags`, and in the body as
`metadata.tags`, a list or one text. https://docs.litellm.ai/docs/proxy/request_tags
https://docs.databricks.com/aws/en/ai-gateway/request-tagging
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

TAGS: Final = b"x-gateway-tags"
LITELLM: Final = b"x-litellm-tags"
DATABRICKS: Final = b"databricks-ai-gateway-request-tags"

MOST_TAGS: Final = 16
LONGEST: Final = 100
"""Characters of a tag."""
CUT: Final = "…"
"""Ends a tag that was cut, and stands alone after the last one if there were more."""
MOST_BYTES: Final = 16 * 1024
"""Of `metadata`; a larger one is not read for tags."""

_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_value: Final = msgspec.json.Decoder(str | int | float | bool | None)
_list: Final = msgspec.json.Decoder(list[msgspec.Raw])


def request_tags(
    fields: Mapping[bytes, bytes], metadata: bytes, names: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the tags of a request, sorted, each once: at most MOST_TAGS, and CUT if more came.

    fields: its headers, names in lower case. metadata: of its body, a JSON object; b"" without.
    names: of the fields of `metadata` that become tags, as `NAME=VALUE`.
    """
    found: dict[str, None] = {}
    for tag in _sent(fields, metadata, names):
        clean = _clean(tag)
        if clean:
            found[clean] = None
    tags = list(found)
    more = (CUT,) if len(tags) > MOST_TAGS else ()
    return (*sorted(tags[:MOST_TAGS]), *more)


def _sent(fields: Mapping[bytes, bytes], metadata: bytes, names: Iterable[str]) -> Iterator[str]:
    for header in (TAGS, LITELLM):
        if header in fields:
            yield from fields[header].decode("utf-8", "replace").split(",")
    if DATABRICKS in fields:
        yield from _pairs(_members(fields[DATABRICKS]))
    if metadata:
        members = _members(metadata)
        if "tags" in members:
            yield from _listed(members["tags"])
        yield from _pairs({name: members[name] for name in names if name in members})


def _pairs(members: Mapping[str, msgspec.Raw]) -> Iterator[str]:
    """Yield NAME=VALUE for texts, numbers and booleans; anything else has no place in a tag."""
    for name, raw in members.items():
        value = _read(raw)
        if isinstance(value, bool):
            yield f"{name}={'true' if value else 'false'}"
        elif isinstance(value, str | int | float):
            yield f"{name}={value}"


def _listed(raw: msgspec.Raw) -> Sequence[str]:
    """The tags of a list, or of one text with commas, which vendors' `metadata` takes only."""
    try:
        items = _list.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        one = _read(raw)
        return one.split(",") if isinstance(one, str) else ()
    return [one for one in map(_read, items) if isinstance(one, str)]


def _members(data: bytes) -> Mapping[str, msgspec.Raw]:
    try:
        return _object.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return {}


def _read(raw: msgspec.Raw) -> str | float | bool | None:
    try:
        return _value.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _clean(tag: str) -> str:
    """Without spaces around it, and without characters that control terminals; cut if too long."""
    text = tag.strip()
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + CUT
    if not text.isprintable():
        text = "".join([one if one.isprintable() else "\ufffd" for one in text])
    return text
