"""What OpenAI and the vendors of its dialect refuse in a chat completion."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, cast

from tests.oracle.checks.json_schemas import loose_objects
from tests.oracle.reading import Faults, Json, inner, number, objects, outside, repeated, text
from tests.oracle.sent import Sent

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SPEAKER: Final = re.compile(r"[^\s<|\\/>]{1,64}")
REFUSED_AT_THE_TOP: Final = ("oneOf", "anyOf", "allOf", "enum", "not")
EFFORTS: Final[Mapping[str, frozenset[str]]] = {
    "gpt-5.6": frozenset({"none", "low", "medium", "high", "xhigh", "max"}),
    "gpt-5.5": frozenset({"none", "low", "medium", "high", "xhigh"}),
    "gpt-5.4": frozenset({"none", "low", "medium", "high", "xhigh"}),
    "o4": frozenset({"low", "medium", "high"}),
    "o3": frozenset({"low", "medium", "high"}),
    "o1": frozenset({"low", "medium", "high"}),
    "gpt-4": frozenset(),
}
"""Values of reasoning_effort by the beginning of a model's name."""


def messages_of(body: Json) -> list[tuple[str, Json]]:
    found = objects(body.get("messages"))
    return [(f"messages.{place}", one) for place, one in enumerate(found)]


def calls_of(message: Json) -> list[Json]:
    return objects(message.get("tool_calls"))


def functions(body: Json) -> Iterator[tuple[str, Json]]:
    for place, tool in enumerate(objects(body.get("tools"))):
        if "function" in tool:
            yield f"tools.{place}.function", inner(tool, "function")


def content_text(message: Json) -> str:
    content = message.get("content")
    return text(content) or " ".join(text(one.get("text")) for one in objects(content))


def there_is_a_message(sent: Sent) -> Faults:
    if not messages_of(sent.body):
        yield "messages", "is empty"


def calls_are_answered(sent: Sent) -> Faults:
    """Every call has its result among the `tool` messages right after it."""
    open_calls: dict[str, str] = {}
    for at, message in messages_of(sent.body):
        if message.get("role") == "tool":
            open_calls.pop(text(message.get("tool_call_id")), None)
            continue
        for call, place in open_calls.items():
            yield place, f"the call {call!r} has no result before {at}"
        open_calls = {
            text(call.get("id")): f"{at}.tool_calls.{place}"
            for place, call in enumerate(calls_of(message))
        }
    for call, place in open_calls.items():
        yield place, f"the call {call!r} has no result"


def results_have_calls(sent: Sent) -> Faults:
    called: set[str] = set()
    for at, message in messages_of(sent.body):
        if message.get("role") == "tool":
            id = text(message.get("tool_call_id"))
            if id not in called:
                yield at, f"no call {id!r} comes right before, or it has a result"
            called.discard(id)
        else:
            called = {text(call.get("id")) for call in calls_of(message)}


def call_ids_are_short(sent: Sent) -> Faults:
    for at, message in messages_of(sent.body):
        for place, call in enumerate(calls_of(message)):
            if not 0 < len(text(call.get("id"))) <= 40:
                yield f"{at}.tool_calls.{place}.id", f"is {call.get('id')!r}"


def function_names_have_an_alphabet(sent: Sent) -> Faults:
    found = [(at, function.get("name")) for at, function in functions(sent.body)]
    for at, message in messages_of(sent.body):
        for place, call in enumerate(calls_of(message)):
            found.append((f"{at}.tool_calls.{place}", inner(call, "function").get("name", "x")))
    choice = inner(sent.body, "tool_choice", "function")
    found += [("tool_choice.function", choice["name"])] if "name" in choice else []
    for at, name in found:
        if not NAME.fullmatch(text(name)):
            yield f"{at}.name", f"is {name!r}"


def function_names_are_unique(sent: Sent) -> Faults:
    found = [(at, text(one.get("name"))) for at, one in functions(sent.body)]
    for place in repeated([name for _, name in found]):
        yield f"{found[place][0]}.name", f"is a second {found[place][1]!r}"


def speakers_have_an_alphabet(sent: Sent) -> Faults:
    for at, message in messages_of(sent.body):
        if message.get("name") is not None and not _SPEAKER.fullmatch(text(message["name"])):
            yield f"{at}.name", f"is {message['name']!r}"


def at_most_four_stops(sent: Sent) -> Faults:
    stop = sent.body.get("stop")
    given = cast("list[object]", stop) if isinstance(stop, list) else [stop]
    if len(given) > 4:
        yield "stop", f"has {len(given)} strings"
    if "" in given:
        yield "stop", "has an empty string"


def parameters_are_objects(sent: Sent) -> Faults:
    for at, function in functions(sent.body):
        if "parameters" not in function:
            continue
        schema = inner(function, "parameters")
        if schema.get("type") != "object":
            yield f"{at}.parameters.type", f"is {schema.get('type')!r}"
        if "properties" not in schema:
            yield f"{at}.parameters.properties", "is missing"
        for name in REFUSED_AT_THE_TOP:
            if name in schema:
                yield f"{at}.parameters.{name}", "is at the top"


def json_schemas_are_named(sent: Sent) -> Faults:
    form = inner(sent.body, "response_format")
    if form.get("type") == "json_schema":
        name = inner(form, "json_schema").get("name")
        if not NAME.fullmatch(text(name)):
            yield "response_format.json_schema.name", f"is {name!r}"


def strict_schemas_are_closed(sent: Sent) -> Faults:
    form = inner(sent.body, "response_format", "json_schema")
    if form.get("strict") is True:
        yield from loose_objects(form.get("schema"), "response_format.json_schema.schema")
    for at, function in functions(sent.body):
        if function.get("strict") is True:
            yield from loose_objects(function.get("parameters"), f"{at}.parameters")


def json_mode_is_asked_for_in_words(sent: Sent) -> Faults:
    if inner(sent.body, "response_format").get("type") == "json_object":
        said = " ".join(content_text(one) for _, one in messages_of(sent.body))
        if "json" not in said.lower():
            yield "messages", "have no word JSON, with response_format json_object"


def there_is_no_json_schema(sent: Sent) -> Faults:
    if inner(sent.body, "response_format").get("type") == "json_schema":
        yield "response_format.type", "is json_schema"


def choices_need_tools(sent: Sent) -> Faults:
    if not objects(sent.body.get("tools")):
        for name in ("tool_choice", "parallel_tool_calls"):
            if sent.body.get(name) not in (None, "none"):
                yield name, "is given without tools"


def tools_are_left_out_if_there_are_none(sent: Sent) -> Faults:
    if sent.body.get("tools") == []:
        yield "tools", "is an empty list"


def the_named_function_exists(sent: Sent) -> Faults:
    name = inner(sent.body, "tool_choice", "function").get("name")
    if name is not None and name not in [one.get("name") for _, one in functions(sent.body)]:
        yield "tool_choice.function.name", f"is {name!r}, which no function is"


def stream_options_need_a_stream(sent: Sent) -> Faults:
    if sent.body.get("stream_options") and sent.body.get("stream") is not True:
        yield "stream_options", "is given without stream"


def top_logprobs_need_logprobs(sent: Sent) -> Faults:
    if sent.body.get("top_logprobs") is not None and sent.body.get("logprobs") is not True:
        yield "top_logprobs", "is given without logprobs"


def sampling_is_in_range(sent: Sent) -> Faults:
    yield from outside(sent.body, "temperature", 0, 2)
    yield from outside(sent.body, "top_p", 0, 1)
    yield from outside(sent.body, "presence_penalty", -2, 2)
    yield from outside(sent.body, "frequency_penalty", -2, 2)
    yield from outside(sent.body, "top_logprobs", 0, 20)
    yield from outside(sent.body, "n", 1, 128)
    for name in ("max_tokens", "max_completion_tokens"):
        yield from outside(sent.body, name, 1, 2**31)


def metadata_is_short(sent: Sent) -> Faults:
    given = inner(sent.body, "metadata")
    if len(given) > 16:
        yield "metadata", f"has {len(given)} entries"
    for name, value in given.items():
        if len(name) > 64 or len(text(value)) > 512:
            yield f"metadata.{name[:64]}", f"has {len(name)} and {len(text(value))} characters"


def users_are_short(sent: Sent) -> Faults:
    for name in ("user", "safety_identifier", "prompt_cache_key"):
        if len(text(sent.body.get(name))) > 64:
            yield name, f"has {len(text(sent.body.get(name)))} characters"


def answers_have_content(sent: Sent) -> Faults:
    for at, message in messages_of(sent.body):
        if message.get("role") == "assistant" and message.get("content") in (None, []):
            others = ("tool_calls", "function_call", "refusal", "audio")
            if not any(message.get(name) for name in others):
                yield f"{at}.content", f"is {message.get('content')!r}, without calls"


def files_have_names(sent: Sent) -> Faults:
    for at, message in messages_of(sent.body):
        for place, part in enumerate(objects(message.get("content"))):
            file = inner(part, "file")
            if "file_data" in file and not file.get("filename"):
                yield f"{at}.content.{place}.file.filename", "is missing"


def roles_are_common(sent: Sent) -> Faults:
    for at, message in messages_of(sent.body):
        if message.get("role") not in ("system", "user", "assistant", "tool"):
            yield f"{at}.role", f"is {message.get('role')!r}"


def the_system_speaks_first(sent: Sent) -> Faults:
    for place, (at, message) in enumerate(messages_of(sent.body)):
        if place and message.get("role") == "system":
            yield f"{at}.role", "is system, after the first message"


def reasoners_take_max_completion_tokens(sent: Sent) -> Faults:
    if sent.body.get("max_tokens") is not None:
        yield "max_tokens", f"is given to {sent.model}"


def reasoners_sample_by_themselves(sent: Sent) -> Faults:
    if sent.body.get("reasoning_effort") == "none":
        return
    for name in ("temperature", "top_p"):
        if number(sent.body.get(name)) not in (None, 1):
            yield name, f"is {sent.body[name]}, to {sent.model}"
    for name in ("presence_penalty", "frequency_penalty"):
        if number(sent.body.get(name)) not in (None, 0):
            yield name, f"is {sent.body[name]}, to {sent.model}"
    for name in ("logprobs", "top_logprobs", "logit_bias"):
        if sent.body.get(name):
            yield name, f"is given to {sent.model}"


def reasoners_take_no_stop(sent: Sent) -> Faults:
    if sent.body.get("stop"):
        yield "stop", f"is given to {sent.model}"


def efforts_are_those_of_the_model(sent: Sent) -> Faults:
    given = sent.body.get("reasoning_effort") or inner(sent.body, "reasoning").get("effort")
    effort = text(given) or None
    fitting = [name for name in EFFORTS if sent.model.startswith(name)]
    if effort is not None and fitting and effort not in EFFORTS[max(fitting, key=len)]:
        yield "reasoning_effort", f"is {effort!r}, to {sent.model}"


def functions_exclude_effort(sent: Sent) -> Faults:
    if any(functions(sent.body)) and sent.body.get("reasoning_effort") not in (None, "none"):
        yield "reasoning_effort", f"is given with functions, to {sent.model}"


def functions_need_no_effort(sent: Sent) -> Faults:
    if any(functions(sent.body)) and sent.body.get("reasoning_effort") != "none":
        yield "reasoning_effort", f"is not none, with functions, to {sent.model}"


def calls_have_their_reasoning(sent: Sent) -> Faults:
    off = inner(sent.body, "thinking").get("type") == "disabled"
    for at, message in messages_of(sent.body):
        if calls_of(message) and not off and not message.get("reasoning_content"):
            yield f"{at}.reasoning_content", "is missing, beside calls"


def thinking_leaves_the_choice_free(sent: Sent) -> Faults:
    choice = sent.body.get("tool_choice")
    off = inner(sent.body, "thinking").get("type") == "disabled"
    off = off or sent.body.get("enable_thinking") is False
    if not off and (isinstance(choice, dict) or choice == "required"):
        yield "tool_choice", "forces a call, with thinking"


def stops_and_penalties_are_left_out(sent: Sent) -> Faults:
    for name in ("stop", "presence_penalty", "frequency_penalty"):
        if sent.body.get(name):
            yield name, f"is given to {sent.model}"
