"""What Anthropic refuses in a request to the Messages API; also on Vertex AI."""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

from msgspec import Struct

from tests.oracle.checks.json_schemas import unsupported_keywords
from tests.oracle.reading import (
    Faults,
    Json,
    entries,
    inner,
    members,
    number,
    objects,
    outside,
    repeated,
    text,
)
from tests.oracle.sent import Sent

_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_FOREIGN: Final = re.compile(r"[a-z]+(-[a-z]+)*-v\d+:")
THINKING: Final = frozenset({"thinking", "redacted_thinking"})


class Turn(Struct, frozen=True):
    """A message, or several. at: its path. blocks: of a text, one."""

    at: str
    role: str
    blocks: Sequence[Json]

    def of(self, *kinds: str) -> Iterator[tuple[str, Json]]:
        """Yield the blocks of some types, with their paths."""
        for place, block in enumerate(self.blocks):
            if block.get("type") in kinds:
                yield f"{self.at}.content.{place}", block


def messages_of(body: Json) -> list[Turn]:
    return [
        Turn(f"messages.{place}", text(one.get("role")), blocks_of(one.get("content")))
        for place, one in enumerate(objects(body.get("messages")))
    ]


def turns_of(body: Json) -> list[Turn]:
    """Return the turns: the API joins messages in a row that have one role."""
    joined: list[Turn] = []
    for one in messages_of(body):
        if joined and joined[-1].role == one.role:
            joined[-1] = Turn(joined[-1].at, one.role, [*joined[-1].blocks, *one.blocks])
        else:
            joined.append(one)
    return joined


def blocks_of(content: object) -> Sequence[Json]:
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    return objects(content)


def functions(body: Json) -> Iterator[tuple[str, Json]]:
    """Yield the tools that are the client's own."""
    for place, tool in enumerate(objects(body.get("tools"))):
        if tool.get("type") in (None, "custom"):
            yield f"tools.{place}", tool


def version(model: str) -> tuple[int, int]:
    """Return a Claude's version, (0, 0) for another model: `claude-opus-4-6` is (4, 6)."""
    found = re.search(r"claude-(?:opus|sonnet|haiku|fable|mythos)-(\d+)(?:-(\d)(?!\d))?", model)
    return (0, 0) if found is None else (int(found[1]), int(found[2] or 0))


def thinks(body: Json) -> bool:
    return inner(body, "thinking").get("type") in ("enabled", "adaptive")


def starts_with_the_user(sent: Sent) -> Faults:
    turns = turns_of(sent.body)
    if turns and turns[0].role == "assistant":
        yield "messages.0.role", f"is {turns[0].role}"


def has_no_later_system(sent: Sent) -> Faults:
    for one in messages_of(sent.body):
        if one.role == "system":
            yield f"{one.at}.role", "is system"


def later_system_is_before_an_answer(sent: Sent) -> Faults:
    turns = messages_of(sent.body)
    for place, one in enumerate(turns):
        if one.role != "system":
            continue
        before = turns[place - 1].role if place else ""
        after = turns[place + 1].role if place + 1 < len(turns) else "assistant"
        if (before, after) != ("user", "assistant"):
            yield f"{one.at}.role", f"is system between {before!r} and {after!r}"


def results_follow_calls(sent: Sent) -> Faults:
    turns = turns_of(sent.body)
    for turn, following in zip_longest(turns, turns[1:]):
        answered = set[str]()
        if following is not None and following.role == "user":
            answered = {text(one.get("tool_use_id")) for _, one in following.of("tool_result")}
        for at, call in turn.of("tool_use"):
            if text(call.get("id")) not in answered:
                yield at, f"the call {call['id']!r} has no result in the next message"


def _ids(turn: Turn) -> set[str]:
    return {text(one.get("id")) for _, one in turn.of("tool_use")}


def results_have_calls(sent: Sent) -> Faults:
    turns = turns_of(sent.body)
    for before, turn in zip([None, *turns], turns, strict=False):
        called = set[str]() if before is None else _ids(before)
        for at, result in turn.of("tool_result"):
            if text(result.get("tool_use_id")) not in called:
                yield at, f"no call {result['tool_use_id']!r} is in the message before"


def results_are_single(sent: Sent) -> Faults:
    for turn in turns_of(sent.body):
        found = list(turn.of("tool_result"))
        for place in repeated([text(one.get("tool_use_id")) for _, one in found]):
            yield found[place][0], f"is a second result of {found[place][1]['tool_use_id']!r}"


def results_come_first(sent: Sent) -> Faults:
    for turn in turns_of(sent.body):
        others = False
        for place, block in enumerate(turn.blocks):
            if block.get("type") != "tool_result":
                others = True
            elif others:
                yield f"{turn.at}.content.{place}", "is a result after something else"


def call_ids_have_an_alphabet(sent: Sent) -> Faults:
    for turn in turns_of(sent.body):
        for at, block in turn.of("tool_use", "tool_result"):
            name = "id" if block.get("type") == "tool_use" else "tool_use_id"
            if not _ID.fullmatch(text(block.get(name))):
                yield f"{at}.{name}", f"is {block.get(name)!r}"


def tool_names_have_an_alphabet(sent: Sent) -> Faults:
    for at, tool in functions(sent.body):
        if not _NAME.fullmatch(text(tool.get("name"))):
            yield f"{at}.name", f"is {tool.get('name')!r}"


def tool_names_are_unique(sent: Sent) -> Faults:
    tools = objects(sent.body.get("tools"))
    for place in repeated([text(one.get("name")) or str(one) for one in tools]):
        yield f"tools.{place}.name", f"is a second {tools[place].get('name')!r}"


def texts_are_not_blank(sent: Sent) -> Faults:
    found = [pair for turn in turns_of(sent.body) for pair in turn.of("text")]
    system = blocks_of(sent.body.get("system"))
    found += [(f"system.{place}", one) for place, one in enumerate(system)]
    for at, block in found:
        if not text(block.get("text")).strip():
            yield f"{at}.text", f"is {block.get('text')!r}"


def messages_have_content(sent: Sent) -> Faults:
    turns = messages_of(sent.body)
    for place, turn in enumerate(turns):
        if not turn.blocks and not (place == len(turns) - 1 and turn.role == "assistant"):
            yield f"{turn.at}.content", "is empty"


def a_prefill_ends_in_no_space(sent: Sent) -> Faults:
    turns = turns_of(sent.body)
    if turns and turns[-1].role == "assistant" and turns[-1].blocks:
        last = text(turns[-1].blocks[-1].get("text"))
        if last != last.rstrip():
            yield f"{turns[-1].at}.content", f"ends in {last[-1]!r}"


def newer_models_take_no_prefill(sent: Sent) -> Faults:
    turns = turns_of(sent.body)
    if version(sent.model) >= (4, 6) and turns and turns[-1].role == "assistant":
        yield f"{turns[-1].at}.role", f"{sent.model} cannot continue an answer"


def the_budget_of_thinking_fits(sent: Sent) -> Faults:
    budget = number(inner(sent.body, "thinking").get("budget_tokens"))
    limit = number(sent.body.get("max_tokens"))
    if budget is not None and budget < 1024:
        yield "thinking.budget_tokens", f"is {budget}, under 1024"
    if budget is not None and limit is not None and budget >= limit:
        yield "thinking.budget_tokens", f"is {budget}, not under max_tokens ({limit})"


def thinking_leaves_sampling_alone(sent: Sent) -> Faults:
    if thinks(sent.body):
        if sent.body.get("temperature", 1) not in (None, 1):
            yield "temperature", "is not 1, with thinking"
        if sent.body.get("top_k") is not None:
            yield "top_k", "is given, with thinking"
        top_p = number(sent.body.get("top_p"))
        if top_p is not None and top_p < 0.95:
            yield "top_p", "is under 0.95, with thinking"


def thinking_leaves_the_choice_free(sent: Sent) -> Faults:
    if thinks(sent.body) and inner(sent.body, "tool_choice").get("type") in ("any", "tool"):
        yield "tool_choice.type", "forces a call, with thinking"


def a_loop_starts_with_its_thinking(sent: Sent) -> Faults:
    if inner(sent.body, "thinking").get("type") != "enabled":
        return
    turns = turns_of(sent.body)
    asked = [
        place
        for place, turn in enumerate(turns)
        if turn.role == "user" and not any(turn.of("tool_result"))
    ]
    loop = [one for one in turns[asked[-1] if asked else 0 :] if one.role == "assistant"]
    if loop and any(loop[0].of("tool_use")):
        first = text(loop[0].blocks[0].get("type"))
        if first not in THINKING:
            yield f"{loop[0].at}.content.0.type", f"is {first}, with thinking"


def thinking_has_anthropics_proof(sent: Sent) -> Faults:
    for turn in turns_of(sent.body):
        for at, block in turn.of("thinking", "redacted_thinking"):
            name = "signature" if block.get("type") == "thinking" else "data"
            proof = text(block.get(name))
            if not proof or _FOREIGN.match(proof):
                yield f"{at}.{name}", f"is {proof[:40]!r}"


def sampling_is_in_range(sent: Sent) -> Faults:
    yield from outside(sent.body, "temperature", 0, 1)
    yield from outside(sent.body, "top_p", 0, 1)
    if number(sent.body.get("max_tokens")) == 0:
        yield "max_tokens", "is 0"


def temperature_or_top_p(sent: Sent) -> Faults:
    both = sent.body.get("temperature") is not None and sent.body.get("top_p") is not None
    if version(sent.model) >= (4, 5) and both:
        yield "top_p", f"is given with a temperature, to {sent.model}"


def newer_models_sample_by_themselves(sent: Sent) -> Faults:
    if version(sent.model) < (4, 7):
        return
    if number(sent.body.get("temperature")) not in (None, 1):
        yield "temperature", f"is not 1, to {sent.model}"
    for name in ("top_p", "top_k"):
        if sent.body.get(name) is not None:
            yield name, f"is given, to {sent.model}"


def models_think_in_their_own_way(sent: Sent) -> Faults:
    kind, model = inner(sent.body, "thinking").get("type"), version(sent.model)
    if kind == "enabled" and model >= (4, 7):
        yield "thinking.type", f"is enabled, which {sent.model} lacks"
    if kind == "adaptive" and (0, 0) < model < (4, 6):
        yield "thinking.type", f"is adaptive, which {sent.model} lacks"
    effort = inner(sent.body, "output_config").get("effort")
    has_effort = model >= (4, 6) or (model == (4, 5) and "opus" in sent.model)
    if effort is not None and model > (0, 0) and not has_effort:
        yield "output_config.effort", f"is given, which {sent.model} lacks"


def cache_marks(value: object, at: str = "") -> Iterator[tuple[str, Json]]:
    """Yield every object with a mark, by path."""
    given = members(value)
    if given.get("cache_control") is not None and at:
        yield at, given
    for name, one in given.items():
        if name not in ("input", "input_schema"):
            yield from cache_marks(one, f"{at}.{name}".removeprefix("."))
    for place, one in enumerate(entries(value)):
        yield from cache_marks(one, f"{at}.{place}")


def at_most_four_cache_marks(sent: Sent) -> Faults:
    marked = list(cache_marks(sent.body))
    if len(marked) > 4:
        yield marked[4][0], f"is the 5th of {len(marked)} cache marks"


def cache_marks_are_on_content(sent: Sent) -> Faults:
    for at, block in cache_marks(sent.body):
        if text(block.get("type")) in THINKING or (
            block.get("type") == "text" and not block.get("text")
        ):
            yield f"{at}.cache_control", f"marks an empty text, or {block['type']}"


def input_schemas_are_objects(sent: Sent) -> Faults:
    for at, tool in functions(sent.body):
        schema = inner(tool, "input_schema")
        if schema.get("type") != "object":
            yield f"{at}.input_schema.type", f"is {schema.get('type')!r}"
        for name in ("oneOf", "allOf", "anyOf"):
            if name in schema:
                yield f"{at}.input_schema.{name}", "is at the top"


def a_choice_needs_tools(sent: Sent) -> Faults:
    if sent.body.get("tool_choice") is not None and not objects(sent.body.get("tools")):
        yield "tool_choice", "is given without tools"


def the_named_tool_exists(sent: Sent) -> Faults:
    name = inner(sent.body, "tool_choice").get("name")
    names = [one.get("name") for one in objects(sent.body.get("tools"))]
    if name is not None and name not in names:
        yield "tool_choice.name", f"is {name!r}, which no tool is"


def strict_schemas_use_what_is_supported(sent: Sent) -> Faults:
    form = inner(sent.body, "output_config", "format")
    if form.get("type") == "json_schema":
        yield from unsupported_keywords(form.get("schema"), "output_config.format.schema")
    for at, tool in functions(sent.body):
        if tool.get("strict") is True:
            yield from unsupported_keywords(tool.get("input_schema"), f"{at}.input_schema")


def user_ids_are_short(sent: Sent) -> Faults:
    user = text(inner(sent.body, "metadata").get("user_id"))
    if len(user) > 256:
        yield "metadata.user_id", f"has {len(user)} characters"


def stop_sequences_are_not_blank(sent: Sent) -> Faults:
    for place, one in enumerate(entries(sent.body.get("stop_sequences"))):
        if not text(one).strip():
            yield f"stop_sequences.{place}", f"is {one!r}"


def the_version_is_named(sent: Sent) -> Faults:
    if not sent.headers.get("anthropic-version"):
        yield "anthropic-version", "is missing in the head"


def tool_blocks_need_tools(sent: Sent) -> Faults:
    if not objects(sent.body.get("tools")):
        for turn in turns_of(sent.body):
            for at, block in turn.of("tool_use", "tool_result"):
                yield at, f"is a {block['type']} in a request without tools"
