"""The size of a request's text and of each text of an answer."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from strowger_gateway.gateway.content.hooks.contract import (
    PASS,
    Block,
    Edited,
    HookRefusal,
    TextWindow,
    Verdict,
)
from strowger_gateway.gateway.content.hooks.request_text import characters_of
from strowger_gateway.schemas.answers import Answer
from strowger_gateway.schemas.requests import Request

_Characters = Annotated[int, Meta(ge=1)]


class SizeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Characters of all texts of a request together, and of an answer's text and arguments."""

    input_characters: _Characters | None = None
    output_characters: _Characters | None = None


class SizeHook:
    """Refuses what is too long; it can mask nothing."""

    def __init__(self, settings: SizeSettings) -> None:
        self._input, self._output = settings.input_characters, settings.output_characters

    def before(self, request: Request) -> Request | Edited | HookRefusal:
        if self._input is not None and characters_of(request) > self._input:
            return HookRefusal(rules=("input_characters",))
        return request

    def chunk(self, window: TextWindow) -> Verdict:
        if self._output is None or window.offset + len(window.text) <= self._output:
            return PASS
        return Block(rule="output_characters")

    def after(self, answer: Answer) -> Verdict:
        """Nothing is left: every text has been examined by `chunk`."""
        del answer
        return PASS


def size_hook(settings: Mapping[str, object]) -> SizeHook:
    """The hook `sizes`. Raises ValueError, msgspec.ValidationError."""
    asked = msgspec.convert(settings, SizeSettings)
    if asked.input_characters is None and asked.output_characters is None:
        raise ValueError("needs input_characters or output_characters")
    return SizeHook(asked)
