"""Forms of moderation: OpenAI's, Mistral's, and Azure's Content Safety.

https://platform.openai.com/docs/api-reference/moderations,
https://docs.mistral.ai/api/endpoint/classifiers,
https://learn.microsoft.com/en-us/rest/api/contentsafety/text-operations/analyze-text
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.data_uri import inline_image
from strowger_gateway.adapters.json_objects import NULL
from strowger_gateway.adapters.tasks.form import Body, NotAnAnswer, TaskForm, under
from strowger_gateway.adapters.tasks.loose import text_in, usage_in
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import ImagePart, TextPart, text_of
from strowger_gateway.schemas.tasks.moderate import ModerateRequest, Moderation, Piece, Verdict
from strowger_gateway.schemas.tasks.task import TaskRequest


class _Judged(Struct, frozen=True):
    """OpenAI's; Mistral's has neither `flagged` nor the kinds of input."""

    categories: dict[str, bool | None]
    category_scores: dict[str, float | None] | None = None
    category_applied_input_types: dict[str, tuple[str, ...] | None] | None = None
    flagged: bool | None = None


class _Answer(Struct, frozen=True):
    results: tuple[_Judged, ...]
    id: Raw = NULL
    model: Raw = NULL
    usage: Raw = NULL


class _Severity(Struct, frozen=True):
    category: str
    severity: int


class _Analysis(Struct, frozen=True):
    """Azure's. blocklistsMatch: of lists of the operator's own."""

    categoriesAnalysis: tuple[_Severity, ...]  # noqa: N815  the wire's name
    blocklistsMatch: tuple[Raw, ...] = ()  # noqa: N815


_read = msgspec.json.Decoder(_Answer).decode
_read_analysis = msgspec.json.Decoder(_Analysis).decode

AZURES_VERSION: Final = "2024-09-01"

FLAGGED_FROM: Final = 4
"""Severity, of 0, 2, 4 and 6, from which a text is flagged: Azure's own filters block from medium
on. https://learn.microsoft.com/en-us/azure/ai-foundry/openai/concepts/content-filter"""

MOST_SEVERE: Final = 6

BLOCKLIST: Final = "blocklist"
"""The category of what is on a list of the operator's own."""

AZURES: Mapping[str, str] = {
    "Hate": "hate",
    "SelfHarm": "self-harm",
    "Sexual": "sexual",
    "Violence": "violence",
}
"""Azure's names -> OpenAI's."""

MISTRALS: Mapping[str, tuple[str, ...]] = {
    "sexual": ("sexual",),
    "hate_and_discrimination": ("hate", "harassment"),
    "violence_and_threats": ("violence",),
    "dangerous_and_criminal_content": ("illicit",),
    "dangerous": ("illicit",),
    "criminal": ("illicit",),
    "selfharm": ("self-harm",),
}
"""Mistral's names -> OpenAI's. Further ones keep theirs."""


def _part(piece: Piece) -> object:
    if isinstance(piece, TextPart):
        return {"type": "text", "text": piece.text}
    return {"type": "image_url", "image_url": {"url": piece.url}}


def _texts(request: ModerateRequest) -> list[str] | None:
    """Return the inputs if each is one text."""
    texts: list[str] = []
    for one in request.inputs:
        if len(one) != 1 or not isinstance(one[0], TextPart):
            return None
        texts.append(one[0].text)
    return texts


def _openais(request: ModerateRequest, model: str) -> Body:
    texts = _texts(request)
    if texts is not None:
        return {"model": model, "input": texts}
    if len(request.inputs) > 1:
        raise InvalidRequest(
            "input: this backend judges one input with images at a time", param="input"
        )
    pieces = [piece for one in request.inputs for piece in one]
    return {"model": model, "input": [_part(piece) for piece in pieces]}


def _mistrals(request: ModerateRequest, model: str) -> Body:
    if request.conversations:
        said = [
            [{"role": one.role, "content": text_of(one)} for one in conversation]
            for conversation in request.conversations
        ]
        return {"model": model, "input": said}
    texts = _texts(request)
    if texts is None:
        raise InvalidRequest("input: this backend judges texts", param="input")
    return {"model": model, "input": texts}


def _mistrals_target(base: str, model: str, request: TaskRequest) -> str:
    assert isinstance(request, ModerateRequest)
    return f"{base}/chat/moderations" if request.conversations else f"{base}/moderations"


def _azures_target(base: str, model: str, request: TaskRequest) -> str:
    assert isinstance(request, ModerateRequest)
    kind = "image" if isinstance(only_piece(request), ImagePart) else "text"
    return f"{base}/contentsafety/{kind}:analyze?api-version={AZURES_VERSION}"


def _judged(request: ModerateRequest, body: bytes) -> Moderation:
    answer = _read(body)
    found = [
        Verdict(
            flagged=any(one.categories.values()) if one.flagged is None else one.flagged,
            categories=one.categories,
            scores=_scores(one),
            read=_kinds(one),
        )
        for one in answer.results
    ]
    return _moderation(found, answer, request)


def _scores(one: _Judged) -> Mapping[str, float]:
    found = one.category_scores or {}
    return {name: score for name, score in found.items() if score is not None}


def _kinds(one: _Judged) -> Mapping[str, tuple[str, ...]]:
    kinds = one.category_applied_input_types
    if kinds is not None:
        return {name: read for name, read in kinds.items() if read is not None}
    return dict.fromkeys(one.categories, ("text",))


def _judged_by_mistral(request: ModerateRequest, body: bytes) -> Moderation:
    answer = _read(body)
    found: list[Verdict] = []
    for one in answer.results:
        categories: dict[str, bool | None] = {}
        scores: dict[str, float] = {}
        for own, flagged in one.categories.items():
            for name in MISTRALS.get(own, (own,)):
                categories[name] = bool(categories.get(name)) or bool(flagged)
                score = _scores(one).get(own, 0.0)
                scores[name] = max(scores.get(name, 0.0), score)
        kinds = dict.fromkeys(categories, ("text",))
        flagged_by_any = any(categories.values())
        found.append(
            Verdict(flagged=flagged_by_any, categories=categories, scores=scores, read=kinds)
        )
    return _moderation(found, answer, request)


def _moderation(found: Sequence[Verdict], answer: _Answer, request: ModerateRequest) -> Moderation:
    if any(one.flagged is None and not one.categories for one in answer.results):
        raise NotAnAnswer("a result that says neither flagged nor any category")
    if len(found) != request.items:
        raise NotAnAnswer(f"{len(found)} results for {request.items} inputs")
    return Moderation(
        results=tuple(found),
        model=text_in(answer.model),
        id=text_in(answer.id),
        usage=usage_in(answer.usage),
    )


def only_piece(request: ModerateRequest) -> Piece:
    """Return what Azure judges in one call. Raises InvalidRequest for more."""
    pieces = [piece for one in request.inputs for piece in one]
    if len(pieces) != 1:
        raise InvalidRequest(
            "input: this backend judges a text or an image at a time; send each as an input",
            param="input",
        )
    return pieces[0]


def _azures(request: ModerateRequest, model: str) -> Body:
    piece = only_piece(request)
    if isinstance(piece, ImagePart):
        return {"image": {"content": inline_image(piece, "input").data}}
    return {"text": piece.text}


def _judged_by_azure(request: ModerateRequest, body: bytes) -> Moderation:
    analysis = _read_analysis(body)
    if not analysis.categoriesAnalysis:
        raise NotAnAnswer("an analysis without categories")
    kind = "image" if isinstance(only_piece(request), ImagePart) else "text"
    severities = {
        AZURES.get(one.category, one.category.lower()): one.severity
        for one in analysis.categoriesAnalysis
    }
    categories: dict[str, bool | None] = {
        name: severity >= FLAGGED_FROM for name, severity in severities.items()
    }
    if analysis.blocklistsMatch:
        categories[BLOCKLIST] = True
    verdict = Verdict(
        flagged=any(categories.values()),
        categories=categories,
        scores={name: severity / MOST_SEVERE for name, severity in severities.items()}
        | ({BLOCKLIST: 1.0} if analysis.blocklistsMatch else {}),
        read=dict.fromkeys(categories, (kind,)),
    )
    return Moderation(results=(verdict,))


OPENAI = TaskForm(
    kind=ModerateRequest,
    target=under("/moderations"),
    body=_openais,
    read=_judged,
    fields=frozenset({"input.images"}),
)
MISTRAL = TaskForm(
    kind=ModerateRequest,
    target=_mistrals_target,
    body=_mistrals,
    read=_judged_by_mistral,
    fields=frozenset({"conversations"}),
)
AZURE = TaskForm(
    kind=ModerateRequest,
    target=_azures_target,
    body=_azures,
    read=_judged_by_azure,
    fields=frozenset({"input.images"}),
    most=1,
    renamed={"input.images": "image.content + text (left out)"},
)
