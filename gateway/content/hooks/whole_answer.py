"""Guardrails over a whole answer."""

from functools import partial

from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.gateway.content.hooks.answer_texts import (
    Examination,
    guarded_started,
    guarded_usage,
    mask_fields,
    mask_json,
    mask_text,
    with_stop_masked,
)
from strowger_gateway.gateway.content.hooks.contract import Block
from strowger_gateway.gateway.content.hooks.guards import ANSWER, DIRECT, Rail, RequestGuards
from strowger_gateway.gateway.content.hooks.plain_escapes import with_plain_escapes
from strowger_gateway.gateway.content.hooks.request_text import arguments_of
from strowger_gateway.schemas.answers import Answer, Choice
from strowger_gateway.schemas.measured_json import Meter, TooComplex
from strowger_gateway.schemas.messages import ToolCall


async def guard_answer(guards: RequestGuards, answer: Answer) -> Answer:
    """Return a whole answer as its client may receive it.

    Raises ContentBlocked, also for one with more than is examined, and Throttled or Unavailable if
    there is no memory for that.
    """
    size = _size(answer)
    if size > DIRECT:
        meter = Meter()
        problem = await guards.run(partial(_measure, answer, meter), size)
        if problem:
            why = f"the arguments of a tool call are too complex to examine: {problem}"
            for rail in guards.output:
                guards.report(rail, ANSWER, ("not_readable",), blocks=True, why=why)
        guards.claim(meter.weight.size + 2 * meter.size)
    for rail in guards.output:
        if rail.waits and not rail.enforces:
            guards.in_background(_examine_waiting(guards, rail, _copied(answer), size))
        elif rail.waits:
            await _examine_waiting(guards, rail, answer, size)
        else:
            await _examine(guards, rail, answer, size)
    return answer


def _size(answer: Answer) -> int:
    """Return the characters that are examined."""
    size = sum(len(memoryview(raw)) for raw in answer.started.extra.values())
    for choice in answer.choices:
        size += len(choice.text or "") + len(choice.refusal or "")
        size += sum(len(one.text) for one in choice.thoughts)
        size += sum(len(call.arguments) for call in choice.tool_calls)
        size += sum(len(memoryview(raw)) for raw in choice.opaque.values())
    return size


def _measure(answer: Answer, meter: Meter) -> str:
    """Measure the JSON in arguments. Return what there is too much of, or ""."""
    try:
        for choice in answer.choices:
            for call in choice.tool_calls:
                arguments_of(call.arguments, meter, strict=True)
    except TooComplex as exc:
        return exc.problem
    return ""


async def _examine(guards: RequestGuards, rail: Rail, answer: Answer, size: int) -> None:
    """Hold the answer to a hook that does not wait."""
    found = Examination(rail)
    extra, choices = await guards.run(partial(_examined, found, answer), size)
    found.report(guards)
    answer.started, answer.choices = replace(answer.started, extra=extra), choices
    await _after(guards, rail, answer, size)


def _examined(found: Examination, answer: Answer) -> tuple[dict[str, Raw], list[Choice]]:
    """Return the vendor's fields and the choices, masked."""
    meter = Meter()
    extra = found.fields(answer.started.extra)
    return extra, [_examined_choice(found, choice, meter) for choice in answer.choices]


def _examined_choice(found: Examination, choice: Choice, meter: Meter) -> Choice:
    at = choice.index
    masked = replace(
        choice,
        text=found.text(choice.text, "text", at) if choice.text else choice.text,
        refusal=found.text(choice.refusal, "refusal", at) if choice.refusal else choice.refusal,
        thoughts=[
            replace(one, text=found.text(one.text, "reasoning", at)) for one in choice.thoughts
        ],
        tool_calls=[
            _with_arguments(call, found.arguments(call, at, meter)) for call in choice.tool_calls
        ],
        opaque=found.fields(choice.opaque),
    )
    return _without_logprobs(masked) if found.enforces else masked


async def _examine_waiting(guards: RequestGuards, rail: Rail, answer: Answer, size: int) -> None:
    """Hold the answer to a hook that waits for a service."""
    extra = answer.started.extra
    if extra:
        answer.started = replace(answer.started, extra=await mask_fields(guards, rail, extra))
    answer.choices = [await _waited_choice(guards, rail, choice) for choice in answer.choices]
    await _after(guards, rail, answer, size)


def _copied(answer: Answer) -> Answer:
    """The same answer for a hook that examines it while others change it."""
    return replace(answer, choices=[replace(choice) for choice in answer.choices])


async def _waited_choice(guards: RequestGuards, rail: Rail, choice: Choice) -> Choice:
    at = choice.index
    masked = replace(choice)
    if choice.text:
        masked.text = await mask_text(guards, rail, choice.text, "text", at)
    if choice.refusal:
        masked.refusal = await mask_text(guards, rail, choice.refusal, "refusal", at)
    masked.thoughts = [
        replace(one, text=await mask_text(guards, rail, one.text, "reasoning", at))
        for one in choice.thoughts
    ]
    masked.tool_calls = [await _waited_call(guards, rail, one, at) for one in choice.tool_calls]
    masked.opaque = await mask_fields(guards, rail, choice.opaque)
    return _without_logprobs(masked) if rail.enforces else masked


def _without_logprobs(choice: Choice) -> Choice:
    """They repeat the text, token by token."""
    choice.logprobs, choice.refusal_logprobs = [], []
    return choice


async def _waited_call(guards: RequestGuards, rail: Rail, call: ToolCall, choice: int) -> ToolCall:
    """Examine the texts in the arguments, or the arguments as they are without an object."""
    text = call.arguments
    is_object = await guards.run(lambda: arguments_of(text, Meter()) is not None, len(text))
    if not is_object:
        plain = with_plain_escapes(text)
        found = await mask_text(guards, rail, plain, "tool_arguments", choice)
        return call if found == plain else _with_arguments(call, found)
    raw = await mask_json(guards, rail, Raw(text.encode()), free=True)
    return _with_arguments(call, bytes(raw).decode())


def _with_arguments(call: ToolCall, arguments: str) -> ToolCall:
    return call if arguments == call.arguments else replace(call, arguments=arguments)


async def _after(guards: RequestGuards, rail: Rail, answer: Answer, size: int) -> None:
    """Show the hook the rest of the answer: its words, and the whole."""
    answer.started = guarded_started(guards, rail, answer.started)
    if answer.usage is not None:
        answer.usage = guarded_usage(guards, rail, answer.usage)
    for choice in answer.choices:
        if choice.finish is not None and isinstance(choice.finish.stop_match, str):
            choice.finish = await with_stop_masked(guards, rail, choice.finish)
    verdict = await guards.call(rail, ANSWER, rail.hook.after, answer, size)
    if isinstance(verdict, Block):
        guards.report(rail, ANSWER, (verdict.rule,), blocks=True)
