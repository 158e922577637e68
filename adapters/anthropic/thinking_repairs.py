"""Rules of Claude's thinking: which forms a model takes, and what it does not take with them.

Clients send one form to all models: Claude Code writes the newest to any name that it does not
know, and older agents write a budget to models that no longer take one.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.anthropic.asked_thinking import (
    LEAST_BUDGET,
    SHARES,
    Asked,
    asked,
    budget_of,
)
from strowger_gateway.adapters.anthropic.claude_models import (
    always_thinks,
    claude,
    efforts,
    has_between_tools,
    refuses_budgets,
    refuses_forced_tools,
    takes_prefill,
    thinks_at_high_effort,
    thinks_by_budget,
)
from strowger_gateway.adapters.repairs.betas import BETA
from strowger_gateway.adapters.repairs.rule import Aim, Loss, Repair, Repaired, every_model
from strowger_gateway.schemas.content_facts import EFFORT, EXTRA, FORCED, FORMAT, THINKING
from strowger_gateway.schemas.messages import (
    CLAUDE,
    Message,
    ResponseFormat,
    ToolCall,
    ToolChoice,
    thoughts_of,
)
from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.sampling import Sampling

TROUBLES: Final = "https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting"
_EFFORTS: Final = "https://platform.claude.com/docs/en/build-with-claude/effort"
LOW: Final = 0.35
MEDIUM: Final = 0.65
"""Shares of `max_tokens` up to which a budget is a low or a medium effort: between `SHARES`."""

_INTERLEAVED: Final = b"interleaved-thinking"

Change = Callable[[Asked, str], Repaired | None]
_HELLO: Final = (Message(role="user", content="Hello"),)


def _rule(
    name: str,
    about: str,
    change: Change,
    example: ChatRequest,
    model: str,
    *,
    source: str = TROUBLES,
    facts: int = EFFORT | EXTRA | THINKING,
    loss: Loss = "hint",
    models: Callable[[str], bool] = every_model,
) -> Repair:
    def apply(request: Request, aim: Aim) -> Repaired | None:
        return change(asked(request), aim.model) if isinstance(request, ChatRequest) else None

    return Repair(
        name=name,
        about=about,
        source=source,
        facts=facts,
        apply=apply,
        example=example,
        example_model=model,
        loss=loss,
        models=models,
        light=loss != "constraint",
    )


def _asks(thinking: bytes, max_tokens: int = 4096, **more: object) -> ChatRequest:
    return replace(
        ChatRequest("m", _HELLO, Sampling(max_tokens=max_tokens)),
        extra={"thinking": Raw(thinking)},
        **more,
    )


def _limit(one: Asked) -> int:
    found = one.request.sampling.max_tokens
    return found if isinstance(found, int) else 2 * LEAST_BUDGET


def _without(one: Asked) -> Repaired:
    return Repaired(request=one.without_thinking(), left_out=(one.path,))


def _adaptive(one: Asked, _: str) -> Repaired | None:
    """A budget becomes an effort by its share of the limit."""
    if one.kind != "enabled":
        return None
    share = (one.budget or 0) / max(_limit(one), 1)
    near = "low" if share <= LOW else "medium" if share <= MEDIUM else "high"
    kept = {name: value for name, value in (one.thinking or {}).items() if name != "budget_tokens"}
    request = one.with_thinking({**kept, "type": "adaptive"}, one.effort or near)
    return Repaired(request=request, changed=("thinking",))


def _by_budget(one: Asked, model: str) -> Repaired | None:
    if one.kind != "adaptive":
        return None
    budget = budget_of(one.effort if one.effort in SHARES else "high", _limit(one))
    if budget is None:
        return _without(one)
    kept = dict(one.thinking or {})
    thinking = {**kept, "type": "enabled", "budget_tokens": budget}
    effort = None if efforts(model) else ""
    return Repaired(request=one.with_thinking(thinking, effort), changed=("thinking",))


def _no_thinking(one: Asked, _: str) -> Repaired | None:
    return _without(one) if one.thinks else None


def _fitting_budget(one: Asked, model: str) -> Repaired | None:
    """A budget is at least 1,024 tokens and less than the limit of the answer."""
    if not one.by_budget(model):
        return None
    limit, budget = _limit(one), one.budget
    if limit <= LEAST_BUDGET:
        return _without(one)
    if one.thinking is None or (budget is not None and LEAST_BUDGET <= budget < limit):
        return None
    if budget is not None and budget >= limit and _interleaves(one.request):
        return None
    fitting = min(max(budget or LEAST_BUDGET, LEAST_BUDGET), limit - 1)
    request = one.with_thinking({**one.thinking, "budget_tokens": fitting})
    return Repaired(request=request, changed=("thinking",))


def _interleaves(request: ChatRequest) -> bool:
    """Return whether the budget is for all thinking of a turn with tools, beyond one answer."""
    return bool(request.tools) and _INTERLEAVED in bytes(request.extra.get(BETA, Raw(b"")))


def _known_effort(one: Asked, model: str) -> Repaired | None:
    """An effort that the model lacks becomes the next lower one."""
    known = efforts(model)
    sent = one.effort or ("" if one.level == "none" or thinks_by_budget(model) else one.level)
    if known is None or not sent or sent in known or sent == "minimal":
        return None
    if not known:
        return Repaired(request=one.with_effort(""), left_out=("reasoning_effort",))
    lower = [name for name in known if SHARES.get(name, 100) < SHARES.get(sent, 0)]
    return Repaired(
        request=one.with_effort(lower[-1] if lower else known[0]), changed=("reasoning_effort",)
    )


def _thinking_stays(one: Asked, model: str) -> Repaired | None:
    """A model that always thinks gets the least effort in place of none."""
    if one.thinking is None:
        if one.level != "none":
            return None
        return Repaired(request=one.with_effort("low"), changed=("reasoning_effort",))
    if one.kind != "disabled":
        return None
    if has_between_tools(model):
        request = one.with_thinking({"type": "between_tools"})
        return Repaired(request=request, changed=("thinking",))
    request = one.with_thinking(None, one.effort or "low")
    return Repaired(request=request, left_out=("thinking",))


def _low_effort(one: Asked, _: str) -> Repaired | None:
    if one.kind != "disabled" or one.effort not in ("xhigh", "max"):
        return None
    return Repaired(request=one.with_effort("high"), changed=("reasoning_effort",))


def _unproven(one: Asked, model: str) -> Repaired | None:
    """A turn that goes on, after tools or after its beginning, must begin with thinking."""
    if not one.by_budget(model):
        return None
    messages = one.request.messages
    begun = messages[-1] if messages and messages[-1].role == "assistant" else None
    if begun is not None and takes_prefill(model):
        return None if _has_own_thinking(begun) else _without(one)
    return _without(one) if _lacks_thinking(messages) else None


def _lacks_thinking(messages: Sequence[Message]) -> bool:
    """Return whether the calls at the end are those of a turn that does not begin with thinking."""
    at = len(messages)
    begun: Message | None = None
    while at:
        results = False
        while at and messages[at - 1].role != "assistant":
            at -= 1
            results = results or messages[at].role == "tool"
        if not results or not at:
            break
        while at and messages[at - 1].role == "assistant":
            at -= 1
            begun = messages[at]
    return begun is not None and not _has_own_thinking(begun)


def _has_own_thinking(turn: Message) -> bool:
    proven = [one for one in thoughts_of(turn) if one.kind != "text"]
    return any(one.proof_format == CLAUDE for one in proven)


def _forced(one: Asked, _: str) -> Repaired | None:
    forced = _is_forced(one.request) or _is_json_object(one.request)
    return _without(one) if forced and one.thinks else None


def _is_forced(request: ChatRequest) -> bool:
    choice = request.tool_choice
    return isinstance(choice, ToolChoice) and choice.mode in ("named", "required")


def _is_json_object(request: ChatRequest) -> bool:
    """Return whether the answer is to be any JSON object, for which a call is forced."""
    form = request.response_format
    return isinstance(form, ResponseFormat) and form.type == "json_object"


def _no_json_mode(one: Asked, _: str) -> Repaired | None:
    if not _is_json_object(one.request):
        return None
    return Repaired(
        request=replace(one.request, response_format=UNSET), left_out=("response_format",)
    )


def _unforced(one: Asked, _: str) -> Repaired | None:
    if not _is_forced(one.request):
        return None
    return Repaired(request=replace(one.request, tool_choice=UNSET), left_out=("tool_choice",))


def _has_no_thinking(model: str) -> bool:
    known = claude(model)
    return known is not None and known.version < (3, 7)


_LOOP: Final = (
    *_HELLO,
    Message(role="assistant", tool_calls=(ToolCall(id="t1", name="f", arguments="{}"),)),
    Message(role="tool", tool_call_id="t1", content="Found."),
)
_BUDGET: Final = b'{"type":"enabled","budget_tokens":2048}'
_OFF: Final = b'{"type":"disabled"}'
_CHOICE: Final = ToolChoice(mode="required")

THINKING_REPAIRS: Final = (
    _rule(
        "no_thinking",
        "leaves out thinking at models that cannot think",
        _no_thinking,
        _asks(_BUDGET),
        "claude-3-5-sonnet-20241022",
        models=_has_no_thinking,
    ),
    _rule(
        "adaptive_thinking",
        "sends adaptive thinking and an effort for a budget",
        _adaptive,
        _asks(_BUDGET),
        "claude-opus-4-8",
        models=refuses_budgets,
    ),
    _rule(
        "thinking_budget",
        "sends a budget for adaptive thinking",
        _by_budget,
        _asks(b'{"type":"adaptive"}'),
        "claude-sonnet-4-5",
        models=thinks_by_budget,
    ),
    _rule(
        "thinking_on",
        "sends the least effort if thinking cannot be turned off",
        _thinking_stays,
        _asks(_OFF),
        "claude-opus-5-5",
        models=always_thinks,
    ),
    _rule(
        "effort_without_thinking",
        "lowers an effort that the model takes only with thinking",
        _low_effort,
        replace(
            _asks(_OFF), extra={"thinking": Raw(_OFF), "output_config": Raw(b'{"effort":"max"}')}
        ),
        "claude-opus-5",
        models=thinks_at_high_effort,
    ),
    _rule(
        "effort",
        "sends the next lower effort that the model knows, or none",
        _known_effort,
        ChatRequest("m", _HELLO, reasoning_effort="xhigh"),
        "claude-opus-4-6",
        source=_EFFORTS,
        models=lambda model: claude(model) is not None,
    ),
    _rule(
        "unforced_call",
        "leaves the choice of tools to models that cannot be forced",
        _unforced,
        ChatRequest("m", _HELLO, tool_choice=_CHOICE),
        "claude-opus-5-5",
        source="https://platform.claude.com/docs/en/models/opus-5-5/migration-guide",
        facts=FORCED,
        loss="constraint",
        models=refuses_forced_tools,
    ),
    _rule(
        "json_mode",
        "leaves out JSON mode at models that cannot be forced to call the function that takes it",
        _no_json_mode,
        ChatRequest("m", _HELLO, response_format=ResponseFormat(type="json_object")),
        "claude-opus-5-5",
        source="https://platform.claude.com/docs/en/models/opus-5-5/migration-guide",
        facts=FORMAT,
        loss="constraint",
        models=refuses_forced_tools,
    ),
    _rule(
        "forced_call",
        "leaves out thinking if a call is forced",
        _forced,
        _asks(_BUDGET, tool_choice=_CHOICE),
        "claude-sonnet-4-5",
        source="https://platform.claude.com/docs/en/build-with-claude/thinking-tool-workflows",
        facts=FORCED | FORMAT,
    ),
    _rule(
        "unproven_turn",
        "leaves out thinking if the turn that goes on has none of Claude's",
        _unproven,
        replace(_asks(_BUDGET), messages=_LOOP),
        "claude-sonnet-4-5",
        source="https://github.com/anomalyco/opencode/issues/3077",
    ),
    _rule(
        "fitting_budget",
        "fits the thinking budget to the limit, or leaves it out",
        _fitting_budget,
        _asks(_BUDGET, 500),
        "claude-sonnet-4-5",
        source="https://platform.claude.com/docs/en/build-with-claude/extended-thinking",
    ),
)
"""In the order in which they run."""
