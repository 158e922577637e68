"""The words of the protocol in an answer: names, versions, codes and counts that a backend sends.

They are no text that a model writes, so they never block an answer. But a client sees them: a
guardrail that masks or blocks leaves out those that do not look like words, and those in which it
finds something. Hooks that wait for a service do not examine them.
"""

import re
from typing import Final, cast

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.gateway.content.hooks.answer_texts import PLAIN, Examination
from strowger_gateway.gateway.content.hooks.guards import ANSWER, Rail, RequestGuards
from strowger_gateway.schemas.errors import GatewayError, UpstreamRejected
from strowger_gateway.schemas.events import Started, Usage

_WORD: Final = re.compile(r"[A-Za-z0-9_./~-][A-Za-z0-9_.:/@+#=,~-]{0,255}")
"""Names of models are paths, URLs, or resource names of clouds at most."""

_decode: Final = msgspec.json.Decoder().decode


def guarded_started(guards: RequestGuards, rail: Rail, started: Started) -> Started:
    """The beginning of an answer without words that may not leave."""
    id, model = _left(guards, rail, started.id), _left(guards, rail, started.model)
    extra = started.extra
    bad = [name for name in PLAIN & extra.keys() if not _passes(guards, rail, extra[name])]
    if bad:
        extra = {name: value for name, value in extra.items() if name not in bad}
    if bad or id != started.id or model != started.model:
        return replace(started, id=id, model=model, extra=extra)
    return started


def guarded_usage(guards: RequestGuards, rail: Rail, usage: Usage) -> Usage:
    """The counts, without the vendor's own object if that has more than words and numbers."""
    if usage.raw is None or _passes(guards, rail, usage.raw):
        return usage
    return replace(usage, raw=None)


def guard_error(guards: RequestGuards, rail: Rail, error: GatewayError) -> None:
    """Replace the code and the type that a backend gave an error, if they may not leave."""
    if error.code != type(error).code and not _left(guards, rail, error.code):
        error.code = type(error).code
    if isinstance(error, UpstreamRejected) and error.type and not _left(guards, rail, error.type):
        error.type = None
    if error.param and not _left(guards, rail, error.param):
        error.param = None


def _left(guards: RequestGuards, rail: Rail, word: str) -> str:
    """Return the word, or "" if it may not leave."""
    if not word:
        return word
    fits = _WORD.fullmatch(word) is not None and not _found(guards, rail, word)
    return word if fits or not rail.enforces else ""


def _passes(guards: RequestGuards, rail: Rail, raw: Raw) -> bool:
    """Whether a JSON value has only words and numbers, and nothing that the guardrail finds."""
    if not _found(guards, rail, bytes(raw).decode("utf-8", "replace")):
        try:
            return not rail.enforces or _has_only_words(_decode(raw))
        except (msgspec.DecodeError, RecursionError):
            return False
    return not rail.enforces


def _has_only_words(value: object) -> bool:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            if one and _WORD.fullmatch(one) is None:
                return False
        elif isinstance(one, dict):
            fields = cast("dict[str, object]", one)
            waiting += [*fields, *fields.values()]
        elif isinstance(one, list):
            waiting += cast("list[object]", one)
    return True


def _found(guards: RequestGuards, rail: Rail, text: str) -> bool:
    """Whether the guardrail finds something; it is recorded."""
    if rail.waits:
        return False
    found = Examination(rail)
    found.text(text)
    for failure in found.failures:
        guards.on_failure(rail, ANSWER, failure)
    rules = [*found.rules, *([] if found.block is None else [found.block])]
    guards.replaced(rail, ANSWER, rules)
    return bool(rules)
