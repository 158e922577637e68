"""What 50 patterns over an answer of 1,000 tokens cost, whole and streamed.

`python -m benchmarks.guardrails` (a few seconds): the CPU time of the built-in hook `patterns` with
the default hold-back, in this process. The stream arrives in pieces of four characters, one event
each. The bound is 1 ms in each row; the program fails if a row exceeds it.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Final

from strowger_gateway.gateway.config.schema.guardrails import GuardrailConfig
from strowger_gateway.gateway.content.guardrails.patterns import pattern_hook
from strowger_gateway.gateway.content.hooks.answer_texts import mask_text
from strowger_gateway.gateway.content.hooks.counts import GuardCounts
from strowger_gateway.gateway.content.hooks.guards import Rail, RequestGuards
from strowger_gateway.gateway.content.hooks.stream_guard import StreamGuard
from strowger_gateway.gateway.content.hooks.streamed_answer import now
from strowger_gateway.schemas.events import Event, Finished, TextDelta

PATTERNS: Final = 50
CHARACTERS: Final = 4_500
"""1,000 tokens of English."""
PIECE: Final = 4
BOUND_MS: Final = 1.0
ROUNDS: Final = 200
_SENTENCE: Final = "Explain in one paragraph why the sky is blue, for a child of ten. "
TEXT: Final = (_SENTENCE * (CHARACTERS // len(_SENTENCE) + 1))[:CHARACTERS]
FOUND: Final = "The key is tok7_" + "a1B2" * 8 + ". "


def rail() -> Rail:
    patterns = [
        {"name": f"rule{n}", "regex": rf"\b(?:key|tok){n}_[A-Za-z0-9]{{20,40}}\b"}
        for n in range(PATTERNS)
    ]
    settings = GuardrailConfig(name="bench", use="patterns", mode="mask")
    hook = pattern_hook({"patterns": patterns})
    return Rail(settings=settings, hook=hook, enforces=True, waits=False)


def whole(one: Rail, text: str) -> Callable[[], str]:
    guards = RequestGuards([one], GuardCounts())
    return lambda: now(mask_text(guards, one, text, "text", 0))


def streamed(one: Rail, text: str) -> Callable[[], str]:
    batches: list[list[Event]] = [
        [TextDelta(text=text[at : at + PIECE])] for at in range(0, len(text), PIECE)
    ]
    end: list[Event] = [Finished(reason="stop")]

    def run() -> str:
        stream = StreamGuard(RequestGuards([one], GuardCounts()), one)
        out: list[Event] = []
        for batch in batches:
            if not stream.absorb(batch):
                out += now(stream.take(batch))
        out += now(stream.take(end))
        return "".join([event.text for event in out if type(event) is TextDelta])

    return run


def milliseconds(call: Callable[[], str]) -> float:
    """The median CPU time of a call."""
    taken: list[float] = []
    for _ in range(ROUNDS):
        began = time.process_time()
        call()
        taken.append((time.process_time() - began) * 1000)
    return statistics.median(taken)


def main() -> None:
    one = rail()
    rows = {
        "whole, nothing found": whole(one, TEXT),
        "whole, three findings": whole(one, FOUND + TEXT[:2000] + FOUND + TEXT[2000:] + FOUND),
        "streamed, nothing found": streamed(one, TEXT),
        "streamed, three findings": streamed(
            one, FOUND + TEXT[:2000] + FOUND + TEXT[2000:] + FOUND
        ),
    }
    worst = 0.0
    for name, call in rows.items():
        taken = milliseconds(call)
        worst = max(worst, taken)
        print(f"{name:26} {taken:6.3f} ms")
    sys.exit(f"over the bound of {BOUND_MS} ms" if worst > BOUND_MS else 0)


if __name__ == "__main__":
    main()
