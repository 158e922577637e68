"""Write what was found, with every category that OpenAI's clients expect."""

from collections.abc import Sequence
from typing import Final

import msgspec

from strowger_gateway.gateway.surfaces.base import Headers
from strowger_gateway.gateway.surfaces.moderation.wire import JudgedInput, ModerationBody
from strowger_gateway.schemas.tasks.moderate import ModerateRequest, Moderation, Verdict
from strowger_gateway.schemas.tasks.task import TaskAnswer

CATEGORIES: Final[Sequence[str]] = (
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/instructions",
    "self-harm/intent",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
)
"""OpenAI's."""

_encode = msgspec.json.Encoder().encode


class ModerationRenderer:
    """See TaskRenderer. id: of the answer."""

    def __init__(self, request: ModerateRequest, *, id: str) -> None:
        self._request = request
        self._id = id

    def headers(self, backend: str) -> Headers:
        return []

    def answer(self, answer: TaskAnswer) -> bytes:
        assert isinstance(answer, Moderation)
        return _encode(
            ModerationBody(
                id=f"modr-{self._id}",
                model=answer.model or self._request.model,
                results=[_judged(one) for one in answer.results],
            )
        )


def _judged(found: Verdict) -> JudgedInput:
    """Return what was found; a category that the backend lacks was read from nothing."""
    names = dict.fromkeys((*CATEGORIES, *found.categories))
    return JudgedInput(
        flagged=found.flagged,
        categories={name: bool(found.categories.get(name)) for name in names},
        category_scores={name: found.scores.get(name, 0.0) for name in names},
        category_applied_input_types={name: found.read.get(name, ()) for name in names},
    )
