"""What Cohere, Ollama, TGI and OpenAI's other tasks refuse."""

from tests.oracle.checks.chat import calls_of, messages_of
from tests.oracle.reading import Faults, entries, inner, objects, outside, text
from tests.oracle.sent import Sent


def cohere_results_have_calls(sent: Sent) -> Faults:
    called: set[str] = set()
    for at, message in messages_of(sent.body):
        called |= {text(call.get("id")) for call in calls_of(message)}
        if message.get("role") == "tool" and text(message.get("tool_call_id")) not in called:
            yield at, f"no call {message.get('tool_call_id')!r} comes before"


def cohere_calls_are_answered(sent: Sent) -> Faults:
    open_calls: set[str] = set()
    for at, message in messages_of(sent.body):
        if message.get("role") == "tool":
            open_calls.discard(text(message.get("tool_call_id")))
            continue
        if open_calls:
            yield at, f"comes before the results of {sorted(open_calls)}"
        open_calls = {text(call.get("id")) for call in calls_of(message)}
    if open_calls:
        yield "messages", f"end before the results of {sorted(open_calls)}"


def cohere_messages_have_content(sent: Sent) -> Faults:
    for at, message in messages_of(sent.body):
        if not message.get("content") and not calls_of(message):
            yield f"{at}.content", "is empty"


def cohere_settings_are_in_range(sent: Sent) -> Faults:
    yield from outside(sent.body, "temperature", 0, 1)
    yield from outside(sent.body, "p", 0.01, 0.99)
    yield from outside(sent.body, "k", 0, 500)
    yield from outside(sent.body, "presence_penalty", 0, 1)
    yield from outside(sent.body, "frequency_penalty", 0, 1)
    stops = entries(sent.body.get("stop_sequences"))
    if len(stops) > 5:
        yield "stop_sequences", f"has {len(stops)} strings"


def cohere_embeds_at_most_ninety_six(sent: Sent) -> Faults:
    texts = entries(sent.body.get("texts"))
    if len(texts) > 96:
        yield "texts", f"has {len(texts)}"


def openai_embeds_something(sent: Sent) -> Faults:
    given = sent.body.get("input")
    if given in ("", []) or "" in entries(given):
        yield "input", "is or has an empty text"
    if len(entries(given)) > 2048:
        yield "input", f"has {len(entries(given))} entries"


def tgi_stops_are_four(sent: Sent) -> Faults:
    stops = entries(inner(sent.body, "parameters").get("stop"))
    if len(stops) > 4:
        yield "parameters.stop", f"has {len(stops)} strings"


def tgi_samples_within_bounds(sent: Sent) -> Faults:
    parameters = inner(sent.body, "parameters")
    for name in ("temperature", "repetition_penalty"):
        value = parameters.get(name)
        if isinstance(value, int | float) and value <= 0:
            yield f"parameters.{name}", f"is {value}"
    top_p = parameters.get("top_p")
    if isinstance(top_p, int | float) and not 0 < top_p < 1:
        yield "parameters.top_p", f"is {top_p}"


def ollama_messages_have_common_roles(sent: Sent) -> Faults:
    for place, message in enumerate(objects(sent.body.get("messages"))):
        if message.get("role") not in ("system", "user", "assistant", "tool"):
            yield f"messages.{place}.role", f"is {message.get('role')!r}"
