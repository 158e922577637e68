"""The contract of hooks: what a package of the entry point group `strowger.hooks` provides.

A hook does no I/O of its own unless it is an `AsyncHook`. Offsets are in characters.
"""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from strowger_gateway.schemas.answers import Answer
from strowger_gateway.schemas.requests import Request

Channel = Literal["text", "reasoning", "refusal", "tool_arguments", "other"]
"""Where a text of an answer is; `other` is JSON outside the schema."""

GROUP = "strowger.hooks"


class Span(Struct, frozen=True, kw_only=True, gc=False):
    """A finding: text[start:end], start < end. rule: its name in logs, never its content."""

    start: int
    end: int
    rule: str
    replacement: str = "[masked]"


class TextWindow(Struct, frozen=True, kw_only=True, gc=False):
    """A part of one text of an answer.

    text:  what has not been released, after text that gives it context.
    begin: examine from here; everything before is context. A finding may begin at it or later.
    offset: of the window in its whole text.
    final: nothing follows. Otherwise a finding that ends at the window's end is not acted on yet.
    """

    text: str
    begin: int = 0
    offset: int = 0
    final: bool = True
    channel: Channel = "text"
    choice: int = 0


class Pass(Struct, frozen=True, gc=False):
    """The hook found nothing."""


class Mask(Struct, frozen=True, kw_only=True, gc=False):
    """Replace these spans; with the mode `block` they end the request, with `monitor` they count.

    Spans may overlap; the union is replaced by the first one's replacement.
    """

    spans: tuple[Span, ...]


class Block(Struct, frozen=True, kw_only=True, gc=False):
    """End the request, also with the mode `mask`."""

    rule: str


Verdict = Pass | Mask | Block
PASS = Pass()


class Edited(Struct, frozen=True, kw_only=True, gc=False):
    """The request with its findings masked. rules: their names."""

    request: Request
    rules: tuple[str, ...]


class HookRefusal(Struct, frozen=True, kw_only=True, gc=False):
    """The request may not be sent to any backend. rules: why, for logs."""

    rules: tuple[str, ...]


class Hook(Protocol):
    """A hook without I/O. One instance serves all requests of a process.

    Calls for large texts come from other threads, at the same time as others. An exception is a
    failure of the hook, and `fail` decides.
    """

    def before(self, request: Request) -> Request | Edited | HookRefusal:
        """Examine a request. Return it unchanged, masked, or refuse it."""
        ...

    def chunk(self, window: TextWindow) -> Verdict:
        """Examine a part of an answer; called again with more context as the answer grows."""
        ...

    def after(self, answer: Answer) -> Verdict:
        """Examine a whole answer before it is sent. Streams have been sent, and are not shown."""
        ...


class AsyncHook(Protocol):
    """A hook that waits for a service. Each call ends at `timeout_s`, and then `fail` decides."""

    async def before(self, request: Request) -> Request | Edited | HookRefusal: ...
    async def chunk(self, window: TextWindow) -> Verdict: ...
    async def after(self, answer: Answer) -> Verdict: ...


@runtime_checkable
class ClosingHook(Protocol):
    """A hook with connections; it is closed after the last request of its configuration."""

    async def aclose(self) -> None: ...


HookFactory = Callable[[Mapping[str, object]], Hook | AsyncHook]
"""What an entry point names: makes a hook from `guardrails[].settings`.

Raises ValueError or msgspec.ValidationError, whose message names the setting and the remedy.
"""
