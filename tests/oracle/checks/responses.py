"""What OpenAI refuses in a request to the Responses API."""

from collections.abc import Iterator, Mapping
from typing import Final

from tests.oracle.checks.chat import NAME, REFUSED_AT_THE_TOP
from tests.oracle.checks.json_schemas import loose_objects
from tests.oracle.reading import (
    Faults,
    Json,
    inner,
    members,
    number,
    objects,
    outside,
    repeated,
    text,
)
from tests.oracle.sent import Sent

PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "message": ("msg",),
    "reasoning": ("rs",),
    "function_call": ("fc",),
    "custom_tool_call": ("ctc",),
    "web_search_call": ("ws",),
}
_OUTPUTS: Final = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
}


def items(body: Json) -> list[tuple[str, Json]]:
    return [(f"input.{place}", one) for place, one in enumerate(objects(body.get("input")))]


def continues(body: Json) -> bool:
    """Return whether what was said before is at the vendor."""
    return any(body.get(name) for name in ("previous_response_id", "conversation"))


def functions(body: Json) -> Iterator[tuple[str, Json]]:
    for place, tool in enumerate(objects(body.get("tools"))):
        if tool.get("type") == "function":
            yield f"tools.{place}", tool


def outputs_have_calls(sent: Sent) -> Faults:
    called = {(text(one.get("type")), text(one.get("call_id"))) for _, one in items(sent.body)}
    for at, item in items(sent.body):
        call = _OUTPUTS.get(text(item.get("type")))
        if call and not continues(sent.body) and (call, text(item.get("call_id"))) not in called:
            yield at, f"no call {item.get('call_id')!r} is in the input"


def calls_have_outputs(sent: Sent) -> Faults:
    answered = {(text(one.get("type")), text(one.get("call_id"))) for _, one in items(sent.body)}
    for at, item in items(sent.body):
        for output, call in _OUTPUTS.items():
            if item.get("type") == call and (output, text(item.get("call_id"))) not in answered:
                yield at, f"the call {item.get('call_id')!r} has no output"


def outputs_are_single(sent: Sent) -> Faults:
    found = [(at, one) for at, one in items(sent.body) if text(one.get("type")) in _OUTPUTS]
    for place in repeated([text(one.get("call_id")) for _, one in found]):
        yield found[place][0], f"is a second output of {found[place][1].get('call_id')!r}"


def item_ids_have_prefixes(sent: Sent) -> Faults:
    for at, item in items(sent.body):
        kind = text(item.get("type")) or ("message" if "role" in item else "")
        wanted = PREFIXES.get(kind)
        if wanted and item.get("id") is not None and not text(item["id"]).startswith(wanted):
            yield f"{at}.id", f"is {item['id']!r}, which does not begin with {wanted[0]}"


def call_ids_are_short(sent: Sent) -> Faults:
    for at, item in items(sent.body):
        if "call_id" in item and not 0 < len(text(item["call_id"])) <= 64:
            yield f"{at}.call_id", f"has {len(text(item['call_id']))} characters"


def reasoning_is_followed(sent: Sent) -> Faults:
    """A stored item of reasoning is followed by the item that it led to."""
    found = items(sent.body)
    for place, (at, item) in enumerate(found):
        following = members(found[place + 1][1] if place + 1 < len(found) else None)
        kind = text(following.get("type")) or ("message" if "role" in following else "")
        stands = (
            kind.endswith("_call") or kind == "reasoning" or following.get("role") == "assistant"
        )
        if item.get("type") == "reasoning" and not stands:
            yield at, f"is reasoning, followed by {kind or 'nothing'}"


def roles_have_their_parts(sent: Sent) -> Faults:
    for at, item in items(sent.body):
        says = item.get("role") == "assistant"
        for place, part in enumerate(objects(item.get("content"))):
            kind = text(part.get("type"))
            if says and kind.startswith("input_"):
                yield f"{at}.content.{place}.type", f"is {kind}, of the assistant"
            if not says and item.get("role") and kind.startswith("output_"):
                yield f"{at}.content.{place}.type", f"is {kind}, of {item['role']}"


def the_limit_is_sixteen_or_more(sent: Sent) -> Faults:
    limit = number(sent.body.get("max_output_tokens"))
    if limit is not None and limit < 16:
        yield "max_output_tokens", f"is {limit:g}"


def function_names_have_an_alphabet(sent: Sent) -> Faults:
    found = [(at, tool.get("name")) for at, tool in functions(sent.body)]
    found += [(at, one.get("name")) for at, one in items(sent.body) if "arguments" in one]
    for at, name in found:
        if not NAME.fullmatch(text(name)):
            yield f"{at}.name", f"is {name!r}"


def function_names_are_unique(sent: Sent) -> Faults:
    found = [(at, text(one.get("name"))) for at, one in functions(sent.body)]
    for place in repeated([name for _, name in found]):
        yield f"{found[place][0]}.name", f"is a second {found[place][1]!r}"


def parameters_are_objects(sent: Sent) -> Faults:
    for at, tool in functions(sent.body):
        schema = tool.get("parameters")
        if schema is None:
            continue
        given = inner(tool, "parameters")
        if given.get("type") != "object":
            yield f"{at}.parameters.type", f"is {given.get('type')!r}"
        if "properties" not in given:
            yield f"{at}.parameters.properties", "is missing"
        for name in REFUSED_AT_THE_TOP:
            if name in given:
                yield f"{at}.parameters.{name}", "is at the top"


def strict_schemas_are_closed(sent: Sent) -> Faults:
    form = inner(sent.body, "text", "format")
    if form.get("strict") is True:
        yield from loose_objects(form.get("schema"), "text.format.schema")
    for at, tool in functions(sent.body):
        if tool.get("strict") is True:
            yield from loose_objects(tool.get("parameters"), f"{at}.parameters")


def choices_need_tools(sent: Sent) -> Faults:
    tools = objects(sent.body.get("tools")) or continues(sent.body)
    if not tools and sent.body.get("tool_choice") not in (None, "none"):
        yield "tool_choice", "is given without tools"


def sampling_is_in_range(sent: Sent) -> Faults:
    yield from outside(sent.body, "temperature", 0, 2)
    yield from outside(sent.body, "top_p", 0, 1)
    yield from outside(sent.body, "top_logprobs", 0, 20)


def files_have_names(sent: Sent) -> Faults:
    for at, item in items(sent.body):
        for place, part in enumerate(objects(item.get("content"))):
            if "file_data" in part and not part.get("filename"):
                yield f"{at}.content.{place}.filename", "is missing"


def json_mode_is_asked_for_in_words(sent: Sent) -> Faults:
    if inner(sent.body, "text", "format").get("type") == "json_object":
        given = sent.body.get("input")
        said = text(given) or " ".join(
            text(one.get("content")) or str(one.get("content")) for _, one in items(sent.body)
        )
        if "json" not in said.lower():
            yield "input", "has no word JSON, with text.format json_object"


def reasoning_is_this_vendors(sent: Sent) -> Faults:
    for at, item in items(sent.body):
        sealed = text(item.get("encrypted_content"))
        if item.get("type") == "reasoning" and ":" in sealed[:40]:
            yield f"{at}.encrypted_content", f"is {sealed[:40]!r}"
