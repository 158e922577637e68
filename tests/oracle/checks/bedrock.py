"""What Bedrock refuses in a request for Converse, and its service model does not say."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from tests.oracle.checks.anthropic import version
from tests.oracle.reading import Faults, Json, entries, inner, number, objects, repeated, text
from tests.oracle.sent import Sent

BETAS: Final = frozenset(
    {
        "computer-use-2024-10-22",
        "computer-use-2025-01-24",
        "computer-use-2025-11-24",
        "token-efficient-tools-2025-02-19",
        "interleaved-thinking-2025-05-14",
        "output-128k-2025-02-19",
        "dev-full-thinking-2025-05-14",
        "context-1m-2025-08-07",
        "context-management-2025-06-27",
        "effort-2025-11-24",
        "tool-search-tool-2025-10-19",
        "tool-examples-2025-10-29",
        "compact-2026-01-12",
    }
)


def turns_of(body: Json) -> list[tuple[str, str, list[Json]]]:
    return [
        (f"messages.{place}", text(one.get("role")), objects(one.get("content")))
        for place, one in enumerate(objects(body.get("messages")))
    ]


def tools_of(body: Json) -> Iterator[tuple[str, Json]]:
    for place, tool in enumerate(objects(inner(body, "toolConfig").get("tools"))):
        if "toolSpec" in tool:
            yield f"toolConfig.tools.{place}.toolSpec", inner(tool, "toolSpec")


def the_user_begins(sent: Sent) -> Faults:
    turns = turns_of(sent.body)
    if turns and turns[0][1] != "user":
        yield "messages.0.role", f"is {turns[0][1]}"


def roles_alternate(sent: Sent) -> Faults:
    turns = turns_of(sent.body)
    for (_, before, _), (at, role, _) in pairwise(turns):
        if role == before:
            yield f"{at}.role", f"is {role} again"


def messages_have_content(sent: Sent) -> Faults:
    for at, _, blocks in turns_of(sent.body):
        if not blocks:
            yield f"{at}.content", "is empty"


def texts_are_not_blank(sent: Sent) -> Faults:
    found = [
        (f"{at}.content.{place}", one)
        for at, _, blocks in turns_of(sent.body)
        for place, one in enumerate(blocks)
    ]
    found += [
        (f"system.{place}", one) for place, one in enumerate(objects(sent.body.get("system")))
    ]
    for at, block in found:
        if "text" in block and not text(block["text"]).strip():
            yield f"{at}.text", f"is {block['text']!r}"


def tool_blocks_need_tools(sent: Sent) -> Faults:
    if not any(tools_of(sent.body)):
        for at, _, blocks in turns_of(sent.body):
            for place, block in enumerate(blocks):
                if "toolUse" in block or "toolResult" in block:
                    yield f"{at}.content.{place}", "is of a tool, without toolConfig"


def _ids(blocks: list[Json], kind: str) -> list[str]:
    return [text(inner(one, kind).get("toolUseId")) for one in blocks if kind in one]


def calls_are_answered(sent: Sent) -> Faults:
    turns = turns_of(sent.body)
    for place, (at, _, blocks) in enumerate(turns):
        following = turns[place + 1][2] if place + 1 < len(turns) else []
        missing = set(_ids(blocks, "toolUse")) - set(_ids(following, "toolResult"))
        if missing:
            yield at, f"has calls without results in the next message: {sorted(missing)}"


def results_have_calls(sent: Sent) -> Faults:
    called: set[str] = set()
    for at, _, blocks in turns_of(sent.body):
        results = _ids(blocks, "toolResult")
        if set(results) - called:
            yield at, f"has results without calls in the message before: {results}"
        for _ in repeated(results):
            yield at, f"has two results of one call: {results}"
        called = set(_ids(blocks, "toolUse"))


def tool_names_are_unique(sent: Sent) -> Faults:
    found = [(at, text(one.get("name"))) for at, one in tools_of(sent.body)]
    for place in repeated([name for _, name in found]):
        yield f"{found[place][0]}.name", f"is a second {found[place][1]!r}"


def input_schemas_are_objects(sent: Sent) -> Faults:
    for at, tool in tools_of(sent.body):
        schema = inner(tool, "inputSchema", "json")
        if schema.get("type") != "object":
            yield f"{at}.inputSchema.json.type", f"is {schema.get('type')!r}"


def claudes_schemas_have_no_alternatives(sent: Sent) -> Faults:
    for at, tool in tools_of(sent.body):
        for name in ("oneOf", "allOf", "anyOf"):
            if name in inner(tool, "inputSchema", "json"):
                yield f"{at}.inputSchema.json.{name}", "is at the top"


def documents_have_a_text_beside_them(sent: Sent) -> Faults:
    for at, _, blocks in turns_of(sent.body):
        if any("document" in one for one in blocks) and not any("text" in one for one in blocks):
            yield at, "has a document and no text"


def document_names_have_single_spaces(sent: Sent) -> Faults:
    for at, _, blocks in turns_of(sent.body):
        for place, block in enumerate(blocks):
            name = text(inner(block, "document").get("name"))
            if re.search(r"\s\s", name):
                yield f"{at}.content.{place}.document.name", f"is {name!r}"


def at_most_four_cache_points(sent: Sent) -> Faults:
    blocks = [one for _, _, found in turns_of(sent.body) for one in found]
    blocks += objects(sent.body.get("system"))
    blocks += objects(inner(sent.body, "toolConfig").get("tools"))
    points = sum("cachePoint" in one for one in blocks)
    if points > 4:
        yield "messages", f"and the rest have {points} cache points"


def betas_are_known(sent: Sent) -> Faults:
    given = inner(sent.body, "additionalModelRequestFields").get("anthropic_beta")
    for place, one in enumerate(entries(given)):
        if text(one) not in BETAS:
            yield f"additionalModelRequestFields.anthropic_beta.{place}", f"is {one!r}"


def newer_models_take_no_prefill(sent: Sent) -> Faults:
    turns = turns_of(sent.body)
    if version(sent.model) >= (4, 6) and turns and turns[-1][1] == "assistant":
        yield f"{turns[-1][0]}.role", f"{sent.model} cannot continue an answer"


def claudes_sample_by_themselves(sent: Sent) -> Faults:
    config = inner(sent.body, "inferenceConfig")
    more = inner(sent.body, "additionalModelRequestFields")
    temperature, top_p = number(config.get("temperature")), number(config.get("topP"))
    if version(sent.model) >= (4, 5) and temperature is not None and top_p is not None:
        yield "inferenceConfig.topP", f"is given with a temperature, to {sent.model}"
    if version(sent.model) >= (4, 7):
        if temperature not in (None, 1):
            yield "inferenceConfig.temperature", f"is not 1, to {sent.model}"
        if top_p is not None or more.get("top_k") is not None:
            yield "inferenceConfig.topP", f"or top_k is given, to {sent.model}"


def thinking_leaves_room(sent: Sent) -> Faults:
    thinking = inner(sent.body, "additionalModelRequestFields", "thinking")
    if thinking.get("type") not in ("enabled", "adaptive"):
        return
    config = inner(sent.body, "inferenceConfig")
    budget, limit = number(thinking.get("budget_tokens")), number(config.get("maxTokens"))
    if budget is not None and (budget < 1024 or (limit is not None and budget >= limit)):
        yield "additionalModelRequestFields.thinking.budget_tokens", f"is {budget}, of {limit}"
    if number(config.get("temperature")) not in (None, 1):
        yield "inferenceConfig.temperature", "is not 1, with thinking"
    choice = inner(sent.body, "toolConfig", "toolChoice")
    if "any" in choice or "tool" in choice:
        yield "toolConfig.toolChoice", "forces a call, with thinking"
