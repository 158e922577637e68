"""The built-in hooks keep the contract of hooks, and the contract notices hooks that do not."""

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from strowger_gateway.gateway.content.guardrails.patterns import pattern_hook
from strowger_gateway.gateway.content.guardrails.secrets import secret_hook
from strowger_gateway.gateway.content.guardrails.sizes import size_hook
from strowger_gateway.gateway.content.hooks.contract import (
    PASS,
    Block,
    Hook,
    HookFactory,
    Span,
    TextWindow,
    Verdict,
)
from strowger_gateway.gateway.content.hooks.testing import Check, contract
from strowger_gateway.gateway.content.hooks.text_hook import TextHook
from strowger_gateway.schemas.requests import ChatRequest, Request

KEY = "AKIA" + "Q3" * 8
CALLED = {"patterns": [{"name": "digits", "regex": r"\b\d{4}\b"}], "words": ["falcon"]}
BUILT_IN = [
    *contract(secret_hook, {}, finds={f"Use {KEY} now": KEY}),
    *contract(pattern_hook, CALLED, finds={"a 1234, é": "1234", "The FalCon.": "FalCon"}),
    *contract(size_hook, {"input_characters": 100, "output_characters": 100}, passes=["short"]),
]


@pytest.mark.parametrize("check", BUILT_IN, ids=str)
def test_contract(check: Check) -> None:
    check()


class Digits(TextHook):
    """Finds four digits, and can be made to break each promise. broken: which one."""

    def __init__(self, broken: str) -> None:
        self._broken = broken
        self._calls = 0

    def find(self, text: str, begin: int) -> Sequence[Span]:
        at = text.find("1234", begin)
        if self._broken == "context":
            at = text.find("1234")
        if at < 0:
            return ()
        if self._broken == "spans":
            return (Span(start=at, end=at + 9, rule="digits"),)
        return (Span(start=at, end=at + 4, rule="digits"),)

    def before(self, request: Request) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._calls += 1
        if self._broken == "misses" and not isinstance(request, ChatRequest):
            return request
        if self._broken == "changes":
            return type(request)(**{name: getattr(request, name)
                                    for name in request.__struct_fields__})  # fmt: skip
        found = super().before(request)
        return request if self._broken == "state" and self._calls % 2 else found

    def chunk(self, window: TextWindow) -> Verdict:
        if self._broken == "blocks":
            return Block(rule="all")
        if self._broken == "nothing is returned":
            return cast("Verdict", None)
        return PASS if self._broken == "stream" else super().chunk(window)


def broken(kind: str) -> HookFactory:
    def make(settings: Mapping[str, object]) -> Hook:
        if settings and kind != "settings":
            raise ValueError("there are no settings")
        return Digits(kind)  # pyright: ignore[reportReturnType]

    return make


FAILURES = {
    "settings": "an unknown setting has no effect",
    "changes": "a request without findings is changed",
    "misses": "prompt: the finding in",
    "spans": "it is not a part of it",
    "context": "it is not a part of it",
    "stream": "passes a stream",
    "blocks": "is blocked or masked",
    "nothing is returned": "chunk returns None for",
    "state": "calls at the same time have other results",
}


def failures(kind: str) -> list[str]:
    found: list[str] = []
    for check in contract(broken(kind), {}, finds={"it is 1234 now": "1234"}):
        try:
            check()
        except AssertionError as exc:
            found.append(str(exc))
    return found


def test_a_hook_that_breaks_no_promise_passes() -> None:
    assert failures("nothing") == []


@pytest.mark.parametrize("kind", FAILURES)
def test_a_broken_promise_fails_a_check(kind: str) -> None:
    assert any(FAILURES[kind] in one for one in failures(kind)), failures(kind)


def test_a_finding_has_to_be_in_its_text() -> None:
    with pytest.raises(ValueError, match="'x' is not a part of 'abc'"):
        contract(broken("nothing"), {}, finds={"abc": "x"})
