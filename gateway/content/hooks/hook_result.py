"""What a hook returns: anything that its contract does not have is a failure of the hook."""

from typing import TypeVar, cast

from strowger_gateway.gateway.content.hooks.contract import (
    PASS,
    Block,
    Edited,
    HookRefusal,
    Mask,
    Pass,
    Span,
    TextWindow,
)
from strowger_gateway.gateway.content.hooks.hook_call import HookFailed
from strowger_gateway.schemas.answers import Answer

_T = TypeVar("_T")


def checked(found: _T, argument: object) -> _T:
    """Return what a hook returned. argument: what its method got. Raises HookFailed."""
    if isinstance(argument, TextWindow):
        problem = "" if found is PASS else _of_window(found, len(argument.text))
    elif isinstance(argument, Answer):
        problem = _of_answer(found)
    else:
        problem = _of_request(found, type(argument))
    if problem:
        raise HookFailed("error") from TypeError(problem)
    return found


def _of_window(found: object, size: int) -> str:
    match found:
        case Pass() | Block(rule=str()):
            return ""
        case Mask():
            spans = cast("object", found.spans)
            if not isinstance(spans, tuple | list):
                return "the spans of a Mask are a tuple"
            odd = any(not _is_span(one, size) for one in cast("tuple[object, ...]", spans))
            return "a span is not a part of its window" if odd else ""
        case _:
            return f"chunk returned {_named(found)}; return PASS, Mask or Block"


def _is_span(one: object, size: int) -> bool:
    match one:
        case Span(start=int(start), end=int(end), rule=str(), replacement=str()):
            return 0 <= start < end <= size
        case _:
            return False


def _of_answer(found: object) -> str:
    match found:
        case Pass() | Block(rule=str()):
            return ""
        case _:
            return f"after returned {_named(found)}; return PASS or Block"


def _of_request(found: object, kind: type[object]) -> str:
    match found:
        case HookRefusal(rules=tuple() | list() as rules):
            odd = not _are_names(cast("tuple[object, ...]", rules))
        case Edited(rules=tuple() | list() as rules):
            odd = not (
                type(found.request) is kind and _are_names(cast("tuple[object, ...]", rules))
            )
        case _:
            odd = type(found) is not kind
    if not odd:
        return ""
    name = _named(found)
    return f"before returned {name}; return the request, Edited with a request, or HookRefusal"


def _are_names(rules: "tuple[object, ...]") -> bool:
    return all(isinstance(one, str) for one in rules)


def _named(found: object) -> str:
    return "None" if found is None else f"a value of the type {type(found).__name__!r}"
