"""A base for hooks that find spans in a text: only `find` is left to write."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from strowger_gateway.gateway.content.hooks.contract import (
    PASS,
    Edited,
    HookRefusal,
    Mask,
    Span,
    TextWindow,
    Verdict,
)
from strowger_gateway.gateway.content.hooks.request_text import texts_of, with_texts
from strowger_gateway.schemas.answers import Answer
from strowger_gateway.schemas.requests import Request


class TextHook(ABC):
    """Examines every text of requests and answers in the same way."""

    @abstractmethod
    def find(self, text: str, begin: int) -> Sequence[Span]:
        """Return the findings that begin at `begin` or later, in any order."""

    def before(self, request: Request) -> Request | Edited | HookRefusal:
        changes: dict[str, str] = {}
        rules: dict[str, None] = {}
        for text in texts_of(request):
            spans = self.find(text, 0)
            if spans:
                changes[text] = masked(text, spans)
                rules.update(dict.fromkeys(span.rule for span in spans))
        if not changes:
            return request
        return Edited(request=with_texts(request, changes), rules=tuple(rules))

    def chunk(self, window: TextWindow) -> Verdict:
        spans = self.find(window.text, window.begin)
        return Mask(spans=tuple(spans)) if spans else PASS

    def after(self, answer: Answer) -> Verdict:
        """Nothing is left: every text has been examined by `chunk`."""
        del answer
        return PASS


def merged(spans: Sequence[Span]) -> list[Span]:
    """Return the union of the spans in order, each with its first one's rule and replacement."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        last = found[-1] if found else None
        if last is None or span.start >= last.end:
            found.append(span)
        elif span.end > last.end:
            found[-1] = Span(
                start=last.start, end=span.end, rule=last.rule, replacement=last.replacement
            )
    return found


def masked(text: str, spans: Sequence[Span]) -> str:
    """Return the text with its findings replaced."""
    pieces: list[str] = []
    at = 0
    for span in merged(spans):
        pieces += (text[at : span.start], span.replacement)
        at = span.end
    return "".join((*pieces, text[at:]))
