"""Describe a model by the facts, prices and capabilities of the backends behind it."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from strowger_gateway.adapters.capabilities import offered
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.schema.capabilities import Modality
from strowger_gateway.gateway.config.schema.prices import Price
from strowger_gateway.gateway.routing.planning.model_facts import ModelFacts
from strowger_gateway.gateway.routing.planning.prices import BackendPrice
from strowger_gateway.gateway.routing.planning.route import Backend, Route
from strowger_gateway.gateway.surfaces.model_card import CardPrice, ModelCard
from strowger_gateway.schemas.fields import FIELDS, Task

_ORDER: Final[tuple[Modality, ...]] = ("text", "image", "audio", "video", "file", "embeddings")
_CARRIED_BY: Final[dict[Modality, frozenset[str]]] = {
    "image": frozenset({"messages.image", "messages.remote_image"}),
    "audio": frozenset({"messages.audio"}),
    "video": frozenset({"messages.opaque"}),
    "file": frozenset({"messages.opaque"}),
}
"""The kinds of content with which a chat carries a modality; text needs none."""

_NOT_WITHOUT_TOOLS: Final = frozenset({"tools", "tool_choice", "parallel_tool_calls"})
_BOTH_NAMES: Final = ("max_tokens", "max_completion_tokens")
_OPENAI_TASKS: Final[tuple[Task, ...]] = ("chat", "completion", "embeddings")


def model_card(runtime: Runtime, route: Route, requested: str) -> ModelCard:
    """Describe the model with all backends of its route, but not those of its fallbacks.

    requested: the name that the client uses; a wildcard passes it on to the backend.
    """
    backends = [(one, _name(one, requested)) for one in route.backends]
    facts = [_facts(runtime, one, name) for one, name in backends]
    return ModelCard(
        name=requested,
        context=_most(one.context for one in facts),
        max_output=_most(one.max_output for one in facts),
        input=_modalities(
            _carried(one.input, backend) for one, (backend, _) in zip(facts, backends, strict=True)
        ),
        output=_modalities(one.output for one in facts),
        tools=_any(one.tools for one in facts),
        reasoning=_any(one.reasoning for one in facts),
        structured_output=_any(one.structured_output for one in facts),
        retires=_last(one.retires for one in facts),
        price=_dearest([runtime.prices.of(name) for _, name in backends]),
        parameters=_parameters(backends, facts),
    )


def _name(backend: Backend, requested: str) -> str:
    return backend.name[:-1] + requested if backend.model == "*" else backend.name


def _facts(runtime: Runtime, backend: Backend, name: str) -> ModelFacts:
    """The facts, with the context that a local engine reports unless the operator gives one."""
    facts = backend.models.of(name)
    link = runtime.links.get(backend.name.partition("/")[0])
    reach = None if link is None else link.reaches.get(backend.model)
    if reach is None or facts.context is not None:
        return facts
    return replace(facts, context=reach.tokens + 1)


def _carried(known: tuple[Modality, ...] | None, backend: Backend) -> tuple[Modality, ...] | None:
    """The modalities that the backend's dialect can carry, too."""
    if known is None:
        return None
    chat = offered(backend.supports, "chat") or frozenset()
    return tuple(
        one for one in known if one not in _CARRIED_BY or not chat.isdisjoint(_CARRIED_BY[one])
    )


def _parameters(
    backends: Sequence[tuple[Backend, str]], facts: Sequence[ModelFacts]
) -> tuple[str, ...]:
    """The union, because the gateway sends a request to a backend that honours its fields."""
    found: set[str] = set()
    for (backend, _), known in zip(backends, facts, strict=True):
        for task in _OPENAI_TASKS:
            fields = (offered(backend.supports, task) or frozenset()) & FIELDS[task]
            if known.tools is False:
                fields -= _NOT_WITHOUT_TOOLS
            if known.reasoning is False:
                fields -= {"reasoning_effort"}
            found |= {one for one in fields if "." not in one}
    if found & {_BOTH_NAMES[0]}:
        found.add(_BOTH_NAMES[1])
    return tuple(sorted(found - {"template"}))


def _dearest(prices: Sequence[BackendPrice | None]) -> CardPrice | None:
    """The highest rate of each kind; `None` if one of the prices is unknown."""
    rows: list[Price] = []
    for one in prices:
        if one is None or one.row is None:
            return None
        rows.append(one.row)
    if not rows:
        return None
    return CardPrice(
        input=max(row.input for row in rows),
        output=max(row.output for row in rows),
        cached_input=_differing([(row.cached_input, row.input) for row in rows]),
        cache_write=_differing([(row.cache_write, row.input) for row in rows]),
        reasoning=_differing([(row.reasoning, row.output) for row in rows]),
    )


def _differing(rates: Sequence[tuple[float | None, float]]) -> float | None:
    """The highest of (rate, plain rate); `None` if no backend charges these tokens differently."""
    if all(rate is None for rate, _ in rates):
        return None
    return max(plain if rate is None else rate for rate, plain in rates)


def _most(counts: Iterable[int | None]) -> int | None:
    return max((one for one in counts if one is not None), default=None)


def _any(flags: Iterable[bool | None]) -> bool | None:
    known = [one for one in flags if one is not None]
    return any(known) if known else None


def _last(dates: Iterable[str | None]) -> str | None:
    """The last of the dates; `None` if a backend has none."""
    known = list(dates)
    return None if None in known else max((one for one in known if one is not None), default=None)


def _modalities(
    sets: Iterable[tuple[Modality, ...] | None],
) -> tuple[Modality, ...] | None:
    found = [one for one in sets if one is not None]
    if not found:
        return None
    every = {modality for one in found for modality in one}
    return tuple(one for one in _ORDER if one in every)
