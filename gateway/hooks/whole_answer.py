"""Guardrails over a whole answer."""

from msgspec import Raw
from msgspec.structs import replace

from gateway.hooks.contract import Block
from gateway.hooks.guards import Rail, RequestGuards
from gateway.hooks.request_text import arguments_of
from gateway.hooks.stream_guard import ANSWER, mask_fields, mask_json, mask_text
from schemas.answers import Answer, Choice
from schemas.messages import ToolCall


async def guard_answer(guards: RequestGuards, answer: Answer) -> Answer:
    """Return a whole answer as its client may receive it. Raises ContentBlocked."""
    for rail in guards.output:
        if rail.waits and not rail.enforces:
            guards.in_background(_examine(guards, rail, _copied(answer)))
            continue
        await _examine(guards, rail, answer)
    return answer


async def _examine(guards: RequestGuards, rail: Rail, answer: Answer) -> None:
    extra = answer.started.extra
    if extra:
        answer.started = replace(answer.started, extra=await mask_fields(guards, rail, extra))
    for choice in answer.choices:
        await _mask_choice(guards, rail, choice)
    await _after(guards, rail, answer)


def _copied(answer: Answer) -> Answer:
    """The same answer for a hook that examines it while others change it."""
    return replace(answer, choices=[replace(choice) for choice in answer.choices])


async def _mask_choice(guards: RequestGuards, rail: Rail, choice: Choice) -> None:
    at = choice.index
    if choice.text:
        choice.text = await mask_text(guards, rail, choice.text, "text", at)
    if choice.refusal:
        choice.refusal = await mask_text(guards, rail, choice.refusal, "refusal", at)
    choice.thoughts = [
        replace(one, text=await mask_text(guards, rail, one.text, "reasoning", at))
        for one in choice.thoughts
    ]
    choice.tool_calls = [await _mask_call(guards, rail, one, at) for one in choice.tool_calls]
    choice.opaque = await mask_fields(guards, rail, choice.opaque)
    if rail.enforces:
        choice.logprobs, choice.refusal_logprobs = [], []


async def _mask_call(guards: RequestGuards, rail: Rail, call: ToolCall, choice: int) -> ToolCall:
    """Examine the texts in the arguments, or the arguments as they are without an object."""
    if arguments_of(call.arguments) is None:
        found = await mask_text(guards, rail, call.arguments, "tool_arguments", choice)
    else:
        raw = Raw(call.arguments.encode())
        found = bytes(await mask_json(guards, rail, raw, free=True)).decode()
    return call if found == call.arguments else replace(call, arguments=found)


async def _after(guards: RequestGuards, rail: Rail, answer: Answer) -> None:
    verdict = await guards.call(rail, ANSWER, rail.hook.after, answer, 0)
    if isinstance(verdict, Block):
        guards.report(rail, ANSWER, (verdict.rule,), blocks=True)
