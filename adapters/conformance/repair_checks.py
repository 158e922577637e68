"""Checks of an adapter's repair rules, each with the rule's own example.

A check returns nothing and raises AssertionError with a sentence that says what is wrong.
"""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.base import Adapter
from strowger_gateway.adapters.repairs.rule import Aim, Repair, repaired
from strowger_gateway.adapters.unencodable import encoded
from strowger_gateway.schemas.content_facts import facts_of
from strowger_gateway.schemas.messages import (
    AudioPart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
)
from strowger_gateway.schemas.requests import ChatRequest, Request

_encode = msgspec.json.Encoder().encode


def check_repairs(adapter: Adapter) -> None:
    """Check that every rule repairs its example once, and that all rules together end."""
    rules = adapter.supports.repairs
    names = [rule.name for rule in rules]
    assert len(set(names)) == len(names), f"two repair rules have the same name: {names}"
    for rule in rules:
        check_rule(adapter, rule, rules)


def check_rule(adapter: Adapter, rule: Repair, rules: Sequence[Repair]) -> None:
    """Check one rule alone and among all rules. rules: in their order, the rule among them."""
    _check_alone(rule)
    _check_order(rule, rules)
    _check_encodes(adapter, rule, rules)


def _aim(rule: Repair) -> Aim:
    return Aim(model=rule.example_model, tenant="team-1")


def _of_model(rule: Repair, rules: Sequence[Repair]) -> list[Repair]:
    return [one for one in rules if one is rule or one.models(rule.example_model)]


def _check_alone(rule: Repair) -> None:
    about = f"repair rule {rule.name!r}"
    assert rule.source.startswith("https://"), f"{about}: its source is not an address"
    example = rule.example
    assert rule.facts & facts_of(example), f"{about}: its example lacks the facts that it needs"
    aim = _aim(rule)
    found = rule.apply(example, aim)
    assert found is not None, f"{about}: it does not repair its example"
    assert found.changed or found.left_out, f"{about}: it does not say what it changed"
    assert found.request != example, f"{about}: it returns its example unchanged"
    again = rule.apply(found.request, aim)
    assert again is None, f"{about}: it changes a request that it has repaired"
    _check_originals(rule, example, found.request)


def _check_originals(rule: Repair, example: Request, sent: Request) -> None:
    """A message that was changed may not keep the client's JSON, which would be sent."""
    if not isinstance(example, ChatRequest) or not isinstance(sent, ChatRequest):
        return
    marked = tuple([_as_a_client_wrote_it(one) for one in example.messages])
    found = rule.apply(replace(example, messages=marked), _aim(rule))
    if found is None or not isinstance(found.request, ChatRequest):
        return
    written = {bytes(one.raw) for one in marked if isinstance(one.raw, Raw)}
    for one in found.request.messages:
        if isinstance(one.raw, Raw) and one not in marked:
            assert bytes(one.raw) not in written, (
                f"repair rule {rule.name!r}: it changes a message and keeps the client's JSON"
            )


def _as_a_client_wrote_it(one: Message) -> Message:
    """Return the message with JSON of OpenAI's dialect, as its parts have it."""
    content: object = one.content
    if isinstance(one.content, tuple):
        parts = tuple([_written(part) for part in one.content])
        one = replace(one, content=parts)
        content = [part.raw for part in parts]
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
            "extra_content": {"google": {"thought_signature": call.signature}},
        }
        for call in one.tool_calls
    ]
    details = [
        {"type": "reasoning.text", "text": thought.text, "signature": thought.signature}
        for thought in one.thoughts
    ]
    fields = {
        "role": one.role,
        "content": content,
        "name": one.name,
        "tool_calls": calls or UNSET,
        "tool_call_id": one.tool_call_id,
        "reasoning_content": one.reasoning,
        "reasoning_details": details or UNSET,
    }
    sent = {name: value for name, value in fields.items() if value is not UNSET}
    return replace(one, raw=Raw(_encode(sent)))


def _written(part: Part) -> Part:
    match part:
        case TextPart():
            fields: object = {"type": "text", "text": part.text}
        case ImagePart():
            image = {"url": part.url, "detail": part.detail or "auto"}
            fields = {"type": "image_url", "image_url": image}
        case AudioPart():
            audio = {"data": part.data, "format": part.format}
            fields = {"type": "input_audio", "input_audio": audio}
        case OpaquePart():
            return part
    return replace(part, raw=Raw(_encode(fields)))


def _check_order(rule: Repair, rules: Sequence[Repair]) -> None:
    """All rules in their order leave nothing to do for a second run."""
    aim, rules = _aim(rule), _of_model(rule, rules)
    once = repaired(rule.example, rules, aim)
    twice = repaired(once.request, rules, aim)
    assert not twice.made, (
        f"repair rule {rule.name!r}: a second run of all rules changes {twice.made}"
    )


def _check_encodes(adapter: Adapter, rule: Repair, rules: Sequence[Repair]) -> None:
    """The repaired example can be sent."""
    if adapter.supports.chat is None:
        return
    aim = _aim(rule)
    request = repaired(rule.example, _of_model(rule, rules), aim).request
    if isinstance(request, ChatRequest) and request.sampling.max_tokens is UNSET:
        request = replace(request, sampling=replace(request.sampling, max_tokens=4096))
    encoded(adapter, request, aim.model)
