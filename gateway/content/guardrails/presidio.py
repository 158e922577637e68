"""Personal data that Microsoft Presidio's analyzer finds, replaced by its anonymizer if set.

https://microsoft.github.io/presidio/api-docs/api-docs.html
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from strowger_gateway.gateway.content.guardrails.service_client import (
    ServiceClient,
    ServiceFailed,
    is_data,
    texts_to_ask,
)
from strowger_gateway.gateway.content.hooks.contract import (
    PASS,
    Edited,
    HookRefusal,
    Mask,
    Span,
    TextWindow,
    Verdict,
)
from strowger_gateway.gateway.content.hooks.request_text import with_texts
from strowger_gateway.gateway.content.hooks.text_hook import masked, merged
from strowger_gateway.schemas.answers import Answer
from strowger_gateway.schemas.requests import Request

AT_ONCE: Final = 8
"""Calls of the analyzer for one request at the same time."""


class PresidioSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """base_url: of the analyzer. anonymizer_url: of the anonymizer; "" masks with `<ENTITY>`.

    entities: as the analyzer names them; () for all. anonymizers: operators by entity, as the
    anonymizer reads them.
    """

    base_url: str
    api_key: str = ""
    anonymizer_url: str = ""
    language: str = "en"
    entities: tuple[str, ...] = ()
    score_threshold: Annotated[float, Meta(ge=0, le=1)] = 0.5
    anonymizers: dict[str, dict[str, object]] = {}


class _Found(Struct, kw_only=True):
    start: int
    end: int
    score: float
    entity_type: str


class _Anonymized(Struct, kw_only=True):
    text: str


class PresidioHook:
    """Masks personal data; the rules are Presidio's entity types."""

    def __init__(self, settings: PresidioSettings) -> None:
        """Raises ValueError for anonymizers without the service that reads them."""
        if settings.anonymizers and not settings.anonymizer_url:
            raise ValueError("anonymizers needs anonymizer_url")
        self._analyzer = ServiceClient(settings.base_url, settings.api_key)
        url = settings.anonymizer_url
        self._anonymizer = ServiceClient(url, settings.api_key, "anonymizer_url") if url else None
        self._settings = settings

    async def before(self, request: Request) -> Request | Edited | HookRefusal:
        texts = await texts_to_ask(request, is_data)
        found = await self._spans_of(texts)
        changes = {
            text: masked(text, spans) for text, spans in zip(texts, found, strict=True) if spans
        }
        if not changes:
            return request
        rules = dict.fromkeys(span.rule for spans in found for span in spans)
        edited = await asyncio.to_thread(with_texts, request, changes)
        return Edited(request=edited, rules=tuple(rules))

    async def chunk(self, window: TextWindow) -> Verdict:
        if not is_data(window.text):
            return PASS
        spans = [one for one in await self._spans(window.text) if one.start >= window.begin]
        return Mask(spans=tuple(spans)) if spans else PASS

    async def after(self, answer: Answer) -> Verdict:
        """Nothing is left: every text has been examined by `chunk`."""
        del answer
        return PASS

    async def aclose(self) -> None:
        await self._analyzer.aclose()
        if self._anonymizer is not None:
            await self._anonymizer.aclose()

    async def _spans_of(self, texts: Sequence[str]) -> list[list[Span]]:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(text: str) -> list[Span]:
            async with room:
                return await self._spans(text)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(text)) for text in texts]
        return [task.result() for task in tasks]

    async def _spans(self, text: str) -> list[Span]:
        """The findings in a text, in order, none within another."""
        settings = self._settings
        body: dict[str, object] = {
            "text": text,
            "language": settings.language,
            "score_threshold": settings.score_threshold,
        }
        if settings.entities:
            body["entities"] = settings.entities
        found = await self._analyzer.post("/analyze", body, list[_Found])
        for one in found:
            if not 0 <= one.start < one.end <= len(text):
                raise ServiceFailed("/analyze: a finding is outside of its text")
        spans = merged(
            [
                Span(start=one.start, end=one.end, rule=one.entity_type,
                     replacement=f"<{one.entity_type}>")
                for one in found
                if one.score >= settings.score_threshold
            ]
        )  # fmt: skip
        if self._anonymizer is None:
            return spans
        return [await self._anonymized(text, span, self._anonymizer) for span in spans]

    async def _anonymized(self, text: str, span: Span, anonymizer: ServiceClient) -> Span:
        """The finding with the replacement that the anonymizer gives it.

        Each is sent by itself: in a text with several, the anonymizer does not say which is whose.
        """
        value = text[span.start : span.end]
        result = {"start": 0, "end": len(value), "score": 1.0, "entity_type": span.rule}
        body: dict[str, object] = {"text": value, "analyzer_results": [result]}
        if self._settings.anonymizers:
            body["anonymizers"] = self._settings.anonymizers
        answer = await anonymizer.post("/anonymize", body, _Anonymized)
        return msgspec.structs.replace(span, replacement=answer.text)


def presidio_hook(settings: Mapping[str, object]) -> PresidioHook:
    """The hook `presidio`. Raises ValueError, msgspec.ValidationError."""
    return PresidioHook(msgspec.convert(settings, PresidioSettings))
