"""Faults of a provider, with the client's result and the number of calls to each backend.

Two backends in order, three attempts; the second works unless said otherwise. Numbers such as S08
are those of failoverbench's catalogue, https://github.com/failoverbench/failoverbench.
"""

import asyncio
import gzip
import json
from collections.abc import Mapping
from itertools import count

from msgspec import Struct

from tests.gateway.routing.failures.fault_dialects import NO_END, dialect_of
from tests.stand_ins.provider import Answer, Behaviour, Received, silent

TRITON_STREAMS = "triton-tokens-decoupled"
MOST_TOKENS = 20
"""Of any client here: MindIE's default."""

NEVER_COMPLETE = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n"
)


async def answers(request: Received, answer: Answer) -> None:
    await dialect_of(request).answers(request, answer)


async def continues(request: Received, answer: Answer) -> None:
    """Streams the rest of the answer, behind the beginning in the request."""
    await dialect_of(request).continues(request, answer)


def streamed(request: Received) -> bool:
    return dialect_of(request).streams(request)


async def begin(request: Received, answer: Answer) -> None:
    """The head, and the first content of a stream or the beginning of a body."""
    if streamed(request):
        await dialect_of(request).first(answer)
    else:
        await answer.raw(NEVER_COMPLETE + b'{"id":')


async def unheard(request: Received, answer: Answer) -> None:
    """No server listens at the first backend's address."""
    raise AssertionError("a request arrived where no server listens")


async def reset_before_headers(request: Received, answer: Answer) -> None:
    answer.reset()


async def reset_after_headers(request: Received, answer: Answer) -> None:
    await answer.raw(NEVER_COMPLETE)
    await asyncio.sleep(0.01)
    answer.reset()


async def reset_in_the_middle(request: Received, answer: Answer) -> None:
    await begin(request, answer)
    await asyncio.sleep(0.02)
    answer.reset()


async def cut_in_the_middle(request: Received, answer: Answer) -> None:
    await begin(request, answer)
    answer.close()


async def cut_before_content(request: Received, answer: Answer) -> None:
    if not streamed(request):
        await answer.raw(NEVER_COMPLETE)
    else:
        await dialect_of(request).before(answer)
    answer.close()


async def no_end_mark(request: Received, answer: Answer) -> None:
    """The body ends as HTTP wants it, but nothing says that the answer is complete."""
    if streamed(request):
        await dialect_of(request).first(answer)
        await answer.raw(NO_END)
    else:
        await answer.json(dialect_of(request).endless())


async def no_done(request: Received, answer: Answer) -> None:
    if not streamed(request):
        await answer.chat()
        return
    await answer.begin_stream()
    await answer.text("hello")
    await answer.end_stream(done=False)


async def reset_after_the_mark(request: Received, answer: Answer) -> None:
    answer.unended = True
    await answers(request, answer)
    if streamed(request):
        await asyncio.sleep(0.02)
        answer.reset()


async def open_after_the_mark(request: Received, answer: Answer) -> None:
    answer.unended = True
    await answers(request, answer)
    if streamed(request):
        await answer.gone.wait()


async def more_after_the_mark(request: Received, answer: Answer) -> None:
    """What it sends then belongs to no request."""
    answer.unended = streamed(request)
    await answers(request, answer)
    if streamed(request):
        answer.unended = False
        await dialect_of(request).more(answer)
        await answer.raw(NO_END)


async def nothing(request: Received, answer: Answer) -> None:
    await answer.raw(b"HTTP/1.1 204 No Content\r\n\r\n")


async def redirects(request: Received, answer: Answer) -> None:
    """To where it would be answered; but a key goes nowhere that the operator has not named."""
    there = request.path.replace("-first", "-second")
    await answer.body(b"", "text/plain", 307, {"location": there})


async def garbage_at_once(request: Received, answer: Answer) -> None:
    if streamed(request):
        await answer.begin_stream()
        await answer.chunk(b"data: {what?\n\n")
        await answer.gone.wait()
    else:
        await answer.body(b"{what?", "application/json")


async def garbage_in_the_middle(request: Received, answer: Answer) -> None:
    if not streamed(request):
        await answer.body(b'{"choices":[{"message"', "application/json")
        return
    dialect = dialect_of(request)
    await dialect.first(answer)
    await asyncio.sleep(0.02)
    await answer.chunk(dialect.broken())
    await dialect.rest(answer)


def fails(status: int, error: Mapping[str, str], headers: Mapping[str, str]) -> Behaviour:
    async def behave(request: Received, answer: Answer) -> None:
        await answer.json(dialect_of(request).error(error), status, headers)

    return behave


def repeats_the_prompt(status: int, error: Mapping[str, str]) -> Behaviour:
    """As frameworks do whose validation errors have the whole input in them."""

    async def behave(request: Received, answer: Answer) -> None:
        body = dialect_of(request).error(error)
        await answer.json({**body, "input": "so it began " * 10_000}, status)

    return behave


def compressed(status: int, error: Mapping[str, str], headers: Mapping[str, str]) -> Behaviour:
    async def behave(request: Received, answer: Answer) -> None:
        body = gzip.compress(json.dumps(dialect_of(request).error(error)).encode())
        coding = {"content-encoding": "gzip", **headers}
        await answer.body(body, "application/json", status, coding)

    return behave


async def slow_first_token(request: Received, answer: Answer) -> None:
    if streamed(request):
        await dialect_of(request).before(answer)
    await answer.gone.wait()


async def stalls(request: Received, answer: Answer) -> None:
    await begin(request, answer)
    await answer.gone.wait()


async def endless(request: Received, answer: Answer) -> None:
    """Has sent all that a client may ask for long before its time is over."""
    await begin(request, answer)
    for sent in count():
        if streamed(request):
            await dialect_of(request).more(answer)
        else:
            await answer.raw(b" ")
        await asyncio.sleep(0.02 if sent > MOST_TOKENS else 0)


async def web_page(request: Received, answer: Answer) -> None:
    await answer.body(b"<html>Sign in to the network</html>", "text/html")


async def failure_marker(request: Received, answer: Answer) -> None:
    await dialect_of(request).marker(request, answer)


AFTER_THE_MARK = (reset_after_the_mark, open_after_the_mark, more_after_the_mark)


class Sees(Struct, frozen=True, kw_only=True):
    """What one client sees, and how often the two backends are asked.

    error: its code; in an error frame after the first content if `status` is 200.
    """

    asked: tuple[int, int]
    status: int = 200
    error: str = ""

    @property
    def words(self) -> str:
        if self.status != 200:
            return f"{self.status} `{self.error}`"
        if self.error:
            return f"partial content, then an error frame `{self.error}`, no `[DONE]`"
        return "the second backend answers" if self.asked[1] else "the first backend answers"


class Scenario(Struct, frozen=True, kw_only=True):
    """times: how many requests the fault lasts; `None`: all. second: what the second does.

    recovers: with `stream_recovery: continue` the second backend continues the stream.

    coded: an error code names the cause. waits: for a timeout; only then are they short, so that no
    busy machine is taken for a fault.
    """

    fault: str
    first: Behaviour
    whole: Sees
    stream: Sees
    times: int | None = None
    second: Behaviour = answers
    coded: bool = False
    recovers: bool = False

    @property
    def waits(self) -> bool:
        return self.first in (silent, slow_first_token, stalls, endless)

    def happens(self, task: str, adapter: str) -> bool:
        """Whether such a provider can fail so at such a task, in words that are written here.

        Triton's streams have no end mark, and only OpenAI's errors have codes for the cause.
        """
        chat = task.startswith(("chat", "invocation"))
        if adapter == "openai":
            return chat or self.first not in (no_done, no_end_mark, failure_marker)
        if self.first in (no_end_mark, *AFTER_THE_MARK):
            return adapter != TRITON_STREAMS
        return self.first is not no_done and not self.coded

    @property
    def row(self) -> str:
        """Of the table in docs/routing.md."""
        seen = (self.whole, self.stream, *((CONTINUED,) if self.recovers else ()))
        asked = [f"{one.asked[0]} + {one.asked[1]}" for one in seen]
        asks = asked[0] if len(set(asked)) == 1 else " / ".join(asked)
        continued = "the second backend continues it" if self.recovers else ""
        return f"| {self.fault} | {self.whole.words} | {self.stream.words} | {continued} | {asks} |"


ELSEWHERE_AT_ONCE = Sees(asked=(1, 1))
ELSEWHERE = Sees(asked=(2, 1))
BROKEN = Sees(asked=(1, 0), error="upstream_broken")
CONTINUED = Sees(asked=(1, 1))
CUT = Sees(asked=(1, 0), error="upstream_timeout")


def refused(status: int, code: str) -> Sees:
    return Sees(asked=(1, 0), status=status, error=code)


def alike(
    fault: str,
    first: Behaviour,
    sees: Sees,
    *,
    times: int | None = None,
    second: Behaviour = answers,
    coded: bool = False,
) -> Scenario:
    """The same for both clients."""
    return Scenario(
        fault=fault,
        first=first,
        whole=sees,
        stream=sees,
        times=times,
        second=second,
        coded=coded,
    )


INVALID = {"type": "invalid_request_error"}
SCENARIOS: tuple[Scenario, ...] = (
    alike("connection refused", unheard, ELSEWHERE),
    alike("connection reset before the head (S05)", reset_before_headers, ELSEWHERE),
    alike("connection reset after the head", reset_after_headers, ELSEWHERE),
    Scenario(
        fault="connection reset in the middle",
        first=reset_in_the_middle,
        whole=ELSEWHERE,
        stream=BROKEN,
        recovers=True,
    ),
    Scenario(
        fault="connection closed in the middle (S08, S14)",
        first=cut_in_the_middle,
        whole=ELSEWHERE,
        stream=BROKEN,
        recovers=True,
    ),
    alike("connection closed before content", cut_before_content, ELSEWHERE),
    Scenario(
        fault="stream ends without an end mark",
        first=no_end_mark,
        whole=ELSEWHERE,
        stream=BROKEN,
        recovers=True,
    ),
    alike("complete, but no `[DONE]` (S11)", no_done, Sees(asked=(1, 0))),
    alike("connection reset after `[DONE]`", reset_after_the_mark, Sees(asked=(1, 0))),
    alike("connection never closed after `[DONE]`", open_after_the_mark, Sees(asked=(1, 0))),
    alike("more data after `[DONE]`", more_after_the_mark, Sees(asked=(1, 0))),
    alike("204 without a body", nothing, ELSEWHERE),
    alike("a redirect", redirects, ELSEWHERE),
    alike("an unreadable first frame", garbage_at_once, ELSEWHERE),
    Scenario(
        fault="an unreadable frame in the middle (S10)",
        first=garbage_in_the_middle,
        whole=ELSEWHERE,
        stream=BROKEN,
        recovers=True,
    ),
    alike("500 once (S03)", fails(500, {}, {}), Sees(asked=(2, 0)), times=1),
    alike("500 always", fails(500, {}, {}), ELSEWHERE),
    alike("503 always (S04, S16)", fails(503, {}, {}), ELSEWHERE),
    alike("429 with `retry-after`", fails(429, {}, {"retry-after": "7"}), ELSEWHERE_AT_ONCE),
    alike("429 without `retry-after` (S02)", fails(429, {}, {}), ELSEWHERE_AT_ONCE),
    alike(
        "429 with `retry-after`, compressed",
        compressed(429, {}, {"retry-after": "7"}),
        ELSEWHERE_AT_ONCE,
    ),
    alike("401: the operator's key", fails(401, {}, {}), ELSEWHERE_AT_ONCE),
    alike("405: a wrong `base_url`", fails(405, INVALID, {}), ELSEWHERE_AT_ONCE),
    alike("410: a retired model", fails(410, INVALID, {}), ELSEWHERE_AT_ONCE),
    alike("400: an invalid request", fails(400, INVALID, {}), refused(400, "upstream_rejected")),
    alike("400, compressed", compressed(400, INVALID, {}), refused(400, "upstream_rejected")),
    alike(
        "422 that repeats the whole prompt",
        repeats_the_prompt(422, INVALID),
        refused(422, "upstream_rejected"),
    ),
    alike(
        "400: the prompt is too long (S12)",
        fails(400, {**INVALID, "code": "context_length_exceeded"}, {}),
        refused(400, "context_length_exceeded"),
        coded=True,
    ),
    alike(
        "400: the content filter (S13)",
        fails(400, {**INVALID, "code": "content_policy_violation"}, {}),
        refused(400, "content_policy_violation"),
        coded=True,
    ),
    alike("no response at all (S06)", silent, ELSEWHERE_AT_ONCE),
    alike("the first token is too slow (S07)", slow_first_token, ELSEWHERE_AT_ONCE),
    Scenario(
        fault="the stream stalls in the middle (S09)",
        first=stalls,
        whole=ELSEWHERE_AT_ONCE,
        stream=CUT,
        recovers=True,
    ),
    Scenario(
        fault="the stream never ends",
        first=endless,
        whole=ELSEWHERE_AT_ONCE,
        stream=CUT,
        recovers=True,
    ),
    alike("a web page with status 200", web_page, ELSEWHERE),
    alike("an answer that the vendor marks as failed", failure_marker, ELSEWHERE),
    alike(
        "the second backend fails as well",
        fails(500, {}, {}),
        Sees(asked=(2, 1), status=502, error="upstream_failed"),
        second=fails(500, {}, {}),
    ),
)
