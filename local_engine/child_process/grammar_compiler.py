"""Compile grammars with llguidance, within its limits.

https://github.com/guidance-ai/llguidance compiles lark grammars, regular expressions and JSON
schemas to token masks. A child process compiles first, because the compiler cannot be stopped;
what compiled there compiles here again, in about the same time.
"""

import re

import msgspec
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from llguidance.gbnf_to_lark import any_to_lark
from msgspec import Struct

from strowger_gateway.local_engine.child_process.messages import Compiled, Guide

_NO_FORCING = '%llguidance {"no_forcing": true}\n'
"""With forcing, the compiler writes out forced text at compile time, and a short grammar can force
gigabytes. Without it, forced text is found token by token."""

_REASON = 400
"""Characters of the compiler's message that are passed on."""

_WHERE = re.compile(r"^at \d+\(\d+\): ")


class _Named(Struct, frozen=True, kw_only=True):
    name: str
    lark_grammar: str


class _Grammars(Struct, frozen=True, kw_only=True):
    grammars: list[_Named]


_encode = msgspec.json.Encoder().encode


def compiled(tokenizer: LLTokenizer, guide: Guide) -> tuple[LLMatcher | None, Compiled]:
    """Return the matcher in its first state, or `None` if there is a problem."""
    client, field = guide.client, guide.parts[0].field
    if guide.gbnf:
        try:
            client = any_to_lark(client)
        except Exception as exc:  # noqa: BLE001  llguidance's translation raises nothing narrower
            return None, Compiled(problem=str(exc)[:_REASON], field=field)
        client = client.removeprefix("%llguidance {}")
    matcher = matcher_of(tokenizer, guide.lark, client)
    if not matcher.is_error():
        return matcher, Compiled(client=client)
    error = matcher.get_error()
    for part in guide.parts if len(guide.parts) > 1 else ():
        alone = matcher_of(tokenizer, part.lark, client)
        if alone.is_error():
            field, error = part.field, alone.get_error()
            break
    return None, Compiled(problem=reason(error), field=field)


def matcher_of(tokenizer: LLTokenizer, lark: str, client: str) -> LLMatcher:
    """Return a matcher in its first state, with the first mask computed: it costs the most.

    Each later mask is bounded by llguidance's own limits: 200,000 units of lexer work (about
    14 ms) and 50,000 items (about 2.5 ms). Errors are kept in the matcher.
    """
    grammars = [_Named(name="main", lark_grammar=_NO_FORCING + lark)]
    if client:
        grammars.append(_Named(name="client", lark_grammar=client))
    source = _encode(_Grammars(grammars=grammars)).decode()
    limits = LLParserLimits(
        max_grammar_size=50_000,
        initial_lexer_fuel=1_000_000,
        max_lexer_states=50_000,
        verbose_errors=False,
    )
    matcher = LLMatcher(tokenizer, source, log_level=0, limits=limits)
    if not matcher.is_error():
        matcher.compute_bitmask()
    return matcher


def reason(message: str) -> str:
    """Return the compiler's first line, and the first "error: " line after it, if any."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if not lines:
        return "it cannot be compiled"
    errors = [line for line in lines[1:] if line.startswith("error: ")]
    return " ".join([_WHERE.sub("", lines[0]), *errors[:1]])[:_REASON]
