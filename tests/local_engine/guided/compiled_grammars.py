"""Grammars over the tiny tokenizer's vocabulary, compiled for a test."""

from strowger_gateway.local_engine.child_process.messages import Guide, Part
from strowger_gateway.local_engine.guided.compiler import (
    COMPILE_SECONDS,
    GuideCompiler,
    MaskedGrammar,
)
from tests.local_engine.tiny import VOCABULARY, tokenizer

END = 2
BACKEND = tokenizer()
KNOWN = BACKEND.get_vocab_size()


def guides(seconds: int = COMPILE_SECONDS) -> GuideCompiler:
    return GuideCompiler(
        BACKEND.to_str(),
        vocabulary=VOCABULARY,
        known=KNOWN,
        ends=frozenset({END}),
        seconds=seconds,
    )


def guide(lark: str) -> Guide:
    return Guide(lark=lark, parts=(Part(field="response_format", lark=lark),))


async def compiled(lark: str, ends: frozenset[int] = frozenset({END})) -> MaskedGrammar:
    return await guides().compile(guide(lark), ends)
