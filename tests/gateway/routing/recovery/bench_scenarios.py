"""The scenarios of failoverbench (methodology v0.1) and its verdicts.

https://github.com/failoverbench/failoverbench (scenarios/catalogue.yaml). Times are a tenth of its
times or less; where it limits a time that depends on a timeout, the check here is which backend
answered. S15, a sequence over a minute, is in tests/gateway/routing/failures/test_outages.py.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, cast

import httpx
from msgspec import Struct

from tests.gateway.routing.recovery.continuing import Json, beginning
from tests.stand_ins.provider import Answer, Received, delta_body

WORDS = [f"word{place} " for place in range(59)] + ["end."]
WHOLE = "".join(WORDS)
RETRY_AFTER_S = 0.2
Verdict = Literal["pass", "partial", "safe", "fail"]


class Observed(Struct, kw_only=True):
    """One call as its client and the providers saw it.

    first, second: when the attempts came, by a monotonic clock. masked: the client's error is the
    fallback's refusal of a beginning.
    """

    status: int
    text: str
    model: str
    error: str
    done: bool
    usage: bool
    first: Sequence[float]
    second: Sequence[float]
    masked: bool

    @property
    def complete(self) -> bool:
        return self.status == 200 and self.text == WHOLE and self.done and not self.error

    @property
    def clean_error(self) -> bool:
        return bool(self.error) and not self.done


Turn = Callable[[Received, Answer, int], Awaitable[None]]
"""What a provider does. The last argument: how many attempts it has had before."""
Check = Callable[[Observed], bool]


def _no_check(seen: Observed) -> bool:
    return True


class Scenario(Struct, frozen=True, kw_only=True):
    """required, advisory: as in the catalogue. rescued: what the caller should get."""

    first: Turn
    second: Turn
    required: Check = _no_check
    advisory: Check = _no_check
    rescued: Check = lambda seen: seen.complete


def verdict(scenario: Scenario, seen: Observed) -> Verdict:
    """As its runner has it. A truncated answer that looks like a success fails everything."""
    truncated = seen.status == 200 and seen.done and not seen.error and seen.text != WHOLE
    if truncated or not scenario.required(seen):
        return "fail"
    if not scenario.rescued(seen):
        return "safe" if seen.clean_error else "fail"
    return "pass" if scenario.advisory(seen) else "partial"


async def healthy(request: Received, answer: Answer, before: int) -> None:
    """Answers, or continues an answer that the last message has begun."""
    begun = beginning(request)
    assert WHOLE.startswith(begun)
    await _words(request, answer, WORDS[len(begun.split()) :])
    await _end(request, answer)


async def without_prefill(request: Received, answer: Answer, before: int) -> None:
    """Refuses every conversation whose last message is the assistant's."""
    if beginning(request):
        message = "This model does not support assistant message prefill."
        await _error(answer, 400, message, type="invalid_request_error")
    else:
        await healthy(request, answer, before)


def once(fault: Turn) -> Turn:
    """The first attempt fails, later ones succeed."""

    async def turn(request: Received, answer: Answer, before: int) -> None:
        await (healthy if before else fault)(request, answer, before)

    return turn


def fails(status: int, headers: Mapping[str, str] | None = None, **fields: str) -> Turn:
    async def turn(request: Received, answer: Answer, before: int) -> None:
        await _error(answer, status, "no", headers, **fields)

    return turn


async def reset(request: Received, answer: Answer, before: int) -> None:
    answer.reset()


async def silent(request: Received, answer: Answer, before: int) -> None:
    await answer.gone.wait()


def slow_first_token(seconds: float) -> Turn:
    async def turn(request: Received, answer: Answer, before: int) -> None:
        await answer.begin_stream()
        await asyncio.wait({asyncio.create_task(answer.gone.wait())}, timeout=seconds)
        await _words(request, answer, WORDS, begin=False)
        await _end(request, answer)

    return turn


def cut_after(words: int) -> Turn:
    async def turn(request: Received, answer: Answer, before: int) -> None:
        await _words(request, answer, WORDS[:words])
        answer.close()

    return turn


def stalls_after(words: int, seconds: float) -> Turn:
    async def turn(request: Received, answer: Answer, before: int) -> None:
        await _words(request, answer, WORDS[:words])
        await asyncio.wait({asyncio.create_task(answer.gone.wait())}, timeout=seconds)
        answer.close()

    return turn


async def malformed_tenth(request: Received, answer: Answer, before: int) -> None:
    await _words(request, answer, WORDS[:9])
    await asyncio.sleep(0.05)  # or nothing of it is shown, and it fails over
    await answer.chunk(b'data: {"choices":[{"delta":{"content":"word9 \n\n')
    await _words(request, answer, WORDS[10:], begin=False)
    await _end(request, answer)


async def no_done(request: Received, answer: Answer, before: int) -> None:
    await _words(request, answer, WORDS)
    await _end(request, answer, done=False)


def _waited(seen: Observed) -> bool:
    first = seen.first
    return len(first) >= 2 and first[1] - first[0] >= 0.9 * RETRY_AFTER_S


def _bounded(seen: Observed) -> bool:
    return len(seen.first) <= 6


def _once(seen: Observed) -> bool:
    return len(seen.first) == 1


SCENARIOS: Mapping[str, Scenario] = {
    "S01": Scenario(
        first=once(fails(429, {"retry-after-ms": str(round(RETRY_AFTER_S * 1e3))})),
        second=healthy,
        required=lambda seen: len(seen.first) <= 2,
        advisory=_waited,
    ),
    "S02": Scenario(first=fails(429), second=healthy, required=lambda s: len(s.first) <= 4),
    "S03": Scenario(first=once(fails(500)), second=healthy, advisory=lambda s: len(s.first) >= 2),
    "S04": Scenario(first=fails(503), second=healthy, required=_bounded),
    "S05": Scenario(first=once(reset), second=healthy),
    "S06": Scenario(first=silent, second=healthy, advisory=lambda s: len(s.first) <= 1),
    "S07": Scenario(first=slow_first_token(2.0), second=healthy, advisory=lambda s: bool(s.second)),
    "S08": Scenario(first=cut_after(40), second=healthy),
    "S09": Scenario(first=stalls_after(20, 3.0), second=healthy),
    "S10": Scenario(first=malformed_tenth, second=healthy),
    "S11": Scenario(first=no_done, second=healthy, advisory=lambda s: s.usage),
    "S12": Scenario(
        first=fails(400, code="context_length_exceeded"), second=healthy, required=_once
    ),
    "S13": Scenario(
        first=fails(400, code="content_policy_violation"),
        second=healthy,
        required=_once,
        rescued=lambda seen: seen.error == "content_policy_violation",
    ),
    "S14": Scenario(
        first=once(cut_after(40)), second=without_prefill, required=lambda s: not s.masked
    ),
    "S16": Scenario(
        first=fails(503),
        second=healthy,
        required=lambda seen: _bounded(seen) and seen.model == "fb-ok",
        advisory=lambda s: s.usage,
    ),
}


class Bench:
    """Both providers of every scenario; the path says which one is asked."""

    def __init__(self) -> None:
        self.attempts: dict[tuple[str, str], list[float]] = {}

    async def __call__(self, request: Received, answer: Answer) -> None:
        _, name, place, *_ = request.path.split("/")
        scenario = SCENARIOS[name]
        times = self.attempts.setdefault((name, place), [])
        times.append(time.monotonic())
        turn = scenario.first if place == "first" else scenario.second
        await turn(request, answer, len(times) - 1)

    async def observe(self, url: str, name: str) -> Observed:
        """One call of a scenario, which has its own model."""
        body = {
            "model": name,
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": "hi"}],
        }
        async with httpx.AsyncClient(timeout=60) as client:
            got = await client.post(f"{url}/v1/chat/completions", json=body)
        found = _read(got)
        found.first = self.attempts.get((name, "first"), [])
        found.second = self.attempts.get((name, "second"), [])
        return found


def _read(got: httpx.Response) -> Observed:
    seen = Observed(
        status=got.status_code,
        text="",
        model="",
        error="",
        done=False,
        usage=False,
        first=(),
        second=(),
        masked="prefill" in got.text,
    )
    parts = [got.text] if got.status_code != 200 else got.text.split("\n\n")
    for part in parts:
        data = part.removeprefix("data: ")
        if not data or data.startswith(":"):
            continue
        if data == "[DONE]":
            seen.done = True
            continue
        frame = cast("Json", json.loads(data))
        if "error" in frame:
            seen.error = str(cast("Json", frame["error"])["code"])
            continue
        seen.model = str(frame["model"])
        seen.usage = seen.usage or bool(frame.get("usage"))
        for choice in cast("Sequence[Json]", frame["choices"]):
            seen.text += str(cast("Json", choice["delta"]).get("content") or "")
    return seen


async def _error(
    answer: Answer, status: int, message: str, headers: Mapping[str, str] | None = None, **more: str
) -> None:
    await answer.json({"error": {"message": message, **more}}, status, headers)


async def _words(
    request: Received, answer: Answer, words: Sequence[str], *, begin: bool = True
) -> None:
    if begin:
        await answer.begin_stream()
    for word in words:
        await answer.event(_frame(request, {"content": word}))


async def _end(request: Received, answer: Answer, *, done: bool = True) -> None:
    await answer.event(_frame(request, {}, "stop"))
    usage = {"prompt_tokens": 2, "completion_tokens": 60, "total_tokens": 62}
    await answer.event({**_frame(request, {}), "choices": [], "usage": usage})
    if done:
        await answer.chunk(b"data: [DONE]\n\n")
    await answer.raw(b"0\r\n\r\n")


def _frame(request: Received, delta: Json, finish: str | None = None) -> Json:
    return {**delta_body(delta, finish), "model": request.json["model"]}
