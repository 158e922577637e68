"""Texts that a moderation endpoint in OpenAI's format flags.

https://platform.openai.com/docs/api-reference/moderations
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from strowger_gateway.gateway.content.guardrails.service_client import (
    ServiceClient,
    ServiceFailed,
    is_language,
    texts_to_ask,
)
from strowger_gateway.gateway.content.hooks.contract import (
    PASS,
    Block,
    Edited,
    HookRefusal,
    TextWindow,
    Verdict,
)
from strowger_gateway.schemas.answers import Answer
from strowger_gateway.schemas.requests import Request

_Score = Annotated[float, Meta(ge=0, le=1)]


class ModerationSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """model: of the endpoint. thresholds: by category; () takes what the endpoint flags."""

    base_url: str = "https://api.openai.com/v1"
    api_key: str = ""
    model: str = "omni-moderation-latest"
    thresholds: dict[str, _Score] = {}


class _Result(Struct, kw_only=True):
    flagged: bool
    categories: dict[str, bool | None] = {}
    category_scores: dict[str, float | None] = {}


class _Answer(Struct, kw_only=True):
    results: list[_Result]


class ModerationHook:
    """Refuses requests and blocks answers that are flagged; the rules are the categories."""

    def __init__(self, settings: ModerationSettings) -> None:
        self._client = ServiceClient(settings.base_url, settings.api_key)
        self._settings = settings

    async def before(self, request: Request) -> Request | Edited | HookRefusal:
        rules = await self._flagged(await texts_to_ask(request, is_language))
        return HookRefusal(rules=rules) if rules else request

    async def chunk(self, window: TextWindow) -> Verdict:
        if not is_language(window.text):
            return PASS
        rules = await self._flagged([window.text])
        return Block(rule=rules[0]) if rules else PASS

    async def after(self, answer: Answer) -> Verdict:
        """Nothing is left: every text has been examined by `chunk`."""
        del answer
        return PASS

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _flagged(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The categories of texts, in order, each once."""
        if not texts:
            return ()
        body = {"model": self._settings.model, "input": texts}
        answer = await self._client.post("/moderations", body, _Answer)
        if len(answer.results) != len(texts):
            raise ServiceFailed(f"{len(answer.results)} results for {len(texts)} texts")
        found = [rule for one in answer.results for rule in self._rules(one)]
        return tuple(dict.fromkeys(found))

    def _rules(self, result: _Result) -> list[str]:
        least = self._settings.thresholds
        if least:
            scores = result.category_scores
            for name in least.keys() - scores.keys():
                raise ServiceFailed(f"the answer has no score for {name!r}, which has a threshold")
            return [name for name, score in least.items() if (scores.get(name) or 0) >= score]
        if not result.flagged:
            return []
        return [name for name, one in result.categories.items() if one] or ["flagged"]


def moderation_hook(settings: Mapping[str, object]) -> ModerationHook:
    """The hook `moderation`. Raises ValueError, msgspec.ValidationError."""
    return ModerationHook(msgspec.convert(settings, ModerationSettings))
