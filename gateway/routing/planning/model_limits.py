"""Keep a request from backends whose model cannot read it or cannot answer at such length.

A prompt is kept from a backend only if it certainly exceeds the model's context. Token ids are
counted. Text is not tokenized: its words give a number of tokens that every tokenizer exceeds. A
prompt that exceeds the context only by the estimate goes to backends with a larger context first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rule import Aim, applicable, repaired
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.model_facts import ModelFacts
from strowger_gateway.gateway.routing.planning.request_facts import (
    CHARACTERS_PER_TOKEN,
    estimated_tokens,
)
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.schemas.content_facts import facts_of
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import Message, TextPart
from strowger_gateway.schemas.prompt_too_long import CONTEXT_LENGTH, PLACES, too_long_message
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.tasks.task import Unsampled

WORDS_PER_TOKEN: Final = 4
"""No token covers more words. Most tokenizers never join two words; those that do, learn few long
phrases. https://arxiv.org/abs/2503.13423"""

CHARACTERS_IN_TOKEN: Final = 256
"""No token has more characters. The longest of known vocabularies have 128 (of white space and of
lines). https://github.com/openai/tiktoken"""

FIELD: Final = "max_tokens"
_UNBOUNDED: Final = 1 << 62
_PIECE: Final = 65_536
"""Characters whose words are counted at a time, so that a long text is not held twice."""

_HARMLESS: Final = frozenset(
    {
        "cache_control",
        "client_metadata",
        "include",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "thinking",
        "verbosity",
    }
)
"""Fields outside our schema that ask no vendor for a shorter prompt or a longer context."""

_SHORTENING: Final = frozenset({"context_management", "truncation"})
"""Fields of other dialects that ask for a shorter prompt."""


class PlanLimits(Struct, frozen=True, gc=False):
    """The smallest limits among the candidates of a plan.

    characters: a prompt with at most so many characters is shorter than each context.
    max_output: an answer of at most so many tokens is within each ceiling.
    """

    characters: int
    max_output: int


def limits_of(candidates: Sequence[Candidate]) -> PlanLimits | None:
    """The limits of a plan with these candidates; `None` if none is known."""
    contexts: list[int] = []
    ceilings: list[int] = []
    for one in candidates:
        facts = one.backend.models.of(one.name)
        if facts.context is not None:
            contexts.append(facts.context)
        if facts.max_output is not None:
            ceilings.append(facts.max_output)
    if not contexts and not ceilings:
        return None
    context = min(contexts, default=_UNBOUNDED)
    return PlanLimits(int(context * CHARACTERS_PER_TOKEN), min(ceilings, default=_UNBOUNDED))


class Fitted(Struct, frozen=True, kw_only=True):
    """candidates: those that can read the prompt, the best first.

    ruled_out: the others, each with the reason. refusal: the error if there are no candidates.
    """

    candidates: tuple[Candidate, ...]
    ruled_out: tuple[tuple[str, str], ...] = ()
    refusal: InvalidRequest | None = None


def fitted(
    candidates: Sequence[Candidate],
    request: Request,
    places: Mapping[int, int],
    *,
    require: bool = False,
    tenant: str = "",
) -> Fitted:
    """Compare the request with the limits of each candidate's model.

    A backend whose context the prompt exceeds by the estimate comes after all others. One whose
    ceiling is below `max_tokens` gets its ceiling, and comes after the others of its route. Of
    several, the one with the larger context or ceiling comes first.
    places: by `id` of a backend, the place of its route. require: rule out instead of lowering.
    tenant: the name of the client's key.
    """
    facts = [one.backend.models.of(one.name) for one in candidates]
    enough = max((one.longest_prompt or 0 for one in facts), default=0)
    estimate, least = estimated_tokens(request), least_tokens(request, enough)
    found: list[tuple[int, int, int, Candidate]] = []
    ruled_out: list[tuple[str, str]] = []
    refused: tuple[int, InvalidRequest] | None = None
    for one, known in zip(candidates, facts, strict=True):
        error = _refusal(one.name, known, one.request or request, least, require=require)
        if error is not None:
            ruled_out.append((one.name, error.message))
            longest = known.longest_prompt or 0
            if refused is None or longest > refused[0]:
                refused = longest, error
            continue
        lowered = _lowered(one, known, request, tenant)
        context = known.context or 0
        long = -context if 0 < context < estimate else -_UNBOUNDED
        most = -_UNBOUNDED if lowered is one else -(known.max_output or 0)
        found.append((long, places.get(id(one.backend), len(places)), most, lowered))
    found.sort(key=lambda one: one[:3])
    return Fitted(
        candidates=tuple([one[3] for one in found]),
        ruled_out=tuple(ruled_out),
        refusal=None if found or refused is None else refused[1],
    )


def why_over_limits(backend: Backend, name: str, request: Request, require: bool) -> str:
    """Why the request certainly exceeds the limits of the backend's model; "" if it does not.

    name: the backend's, with the requested model in place of a wildcard.
    """
    facts = backend.models.of(name)
    least = least_tokens(request, facts.longest_prompt or 0)
    error = _refusal(name, facts, request, least, require=require)
    return "" if error is None else error.message


def _refusal(
    name: str, facts: ModelFacts, request: Request, least: int, *, require: bool
) -> InvalidRequest | None:
    """The error of a request that this backend certainly cannot answer. least: `least_tokens`."""
    longest = facts.longest_prompt
    if longest is not None and least > longest:
        exact = isinstance(request, TokenRequest)
        return InvalidRequest(
            too_long_message(
                f", and the prompt has {'' if exact else 'at least '}{least}; shorten it",
                facts.context,
            ),
            param=PLACES[request.task],
            code=CONTEXT_LENGTH,
        )
    most = _max_tokens(request)
    if require and facts.max_output is not None and most > facts.max_output:
        return InvalidRequest(
            f"{FIELD} is {most}, at most {facts.max_output} is supported by {name}",
            param=FIELD,
            code="unsupported",
        )
    return None


def least_tokens(request: Request, enough: int) -> int:
    """A number of tokens that the prompt certainly has, for every tokenizer; exact for token ids.

    0 if the vendor may shorten the prompt: for embeddings, and for requests with fields outside our
    schema, which may ask for it. Tools, images and reasoning do not count. Of several prompts, the
    longest counts. enough: a text is not read further once it has more than so many tokens.
    """
    if not request.extra.keys() <= _HARMLESS:
        return 0
    match request:
        case ChatRequest():
            original = request.original
            if original is not None and (
                original.compaction is not None or not _SHORTENING.isdisjoint(original.fields)
            ):
                return 0
            return _least(chain.from_iterable(map(_texts, request.messages)), enough)
        case CompletionRequest() if request.error_behavior != "truncate":
            return max(
                (
                    _least((one,), enough) if isinstance(one, str) else len(one)
                    for one in request.prompts
                ),
                default=0,
            )
        case TokenRequest():
            return len(request.tokens)
        case _:
            return 0


def _texts(message: Message) -> Iterator[str]:
    content = message.content
    if isinstance(content, str):
        yield content
    elif content is not None:
        yield from (part.text for part in content if isinstance(part, TextPart))


def _least(texts: Iterable[str], enough: int) -> int:
    """The least number of tokens of these texts together."""
    words = characters = least = 0
    for text in texts:
        for start in range(0, len(text), _PIECE):
            found = text[start : start + _PIECE].split()
            # A word may continue from the piece before.
            words += len(found) - 1 if start and found else len(found)
            characters += sum(map(len, found))
            least = max(words // WORDS_PER_TOKEN, characters // CHARACTERS_IN_TOKEN)
            if least > enough:
                return least
    return least


def _lowered(candidate: Candidate, facts: ModelFacts, request: Request, tenant: str) -> Candidate:
    """The candidate with `max_tokens` at its model's ceiling, if the request's is above it."""
    sent = candidate.request or request
    if isinstance(sent, Unsampled) or facts.max_output is None:
        return candidate
    if _max_tokens(sent) <= facts.max_output:
        return candidate
    sampling = replace(sent.sampling, max_tokens=facts.max_output)
    lowered = replace(
        candidate,
        request=replace(sent, sampling=sampling),
        dropped=(*candidate.dropped, FIELD),
        defaulted=(*candidate.defaulted, f"{FIELD}={facts.max_output}"),
    )
    return _repaired_again(lowered, tenant)


def _repaired_again(candidate: Candidate, tenant: str) -> Candidate:
    """The candidate after rules for which a lower `max_tokens` is a reason, as for a budget.

    Rules that have run leave nothing for a second run.
    """
    sent, supports = candidate.request, candidate.backend.supports
    if sent is None or not (rules := applicable(supports.repairs, facts_of(sent), candidate.model)):
        return candidate
    aim = Aim(model=candidate.model, tenant=tenant, dialect=supports.dialect)
    done = repaired(sent, rules, aim)
    if not done.made and not done.left_out:
        return candidate
    return replace(
        candidate,
        request=done.request,
        repaired=tuple(dict.fromkeys((*candidate.repaired, *done.made))),
        omitted=tuple(dict.fromkeys((*candidate.omitted, *done.left_out))),
    )


def _max_tokens(request: Request) -> int:
    """0 if the request does not limit its answer."""
    most = UNSET if isinstance(request, Unsampled) else request.sampling.max_tokens
    return most if isinstance(most, int) else 0
