"""What `GET /admin/models` answers: each model with its backends, their facts and their prices."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.assembly.wiring.models import models_of
from strowger_gateway.gateway.assembly.wiring.prices import prices_of
from strowger_gateway.gateway.config.schema.capabilities import Modality
from strowger_gateway.gateway.config.schema.config import Config, MirrorConfig
from strowger_gateway.gateway.config.schema.prices import CatalogueRow, Price
from strowger_gateway.gateway.console.admin.backends import (
    BackendView,
    ErrorFallbackView,
    ExperimentView,
    ModelView,
    RuleView,
    listed,
)
from strowger_gateway.gateway.routing.backend_status import describe
from strowger_gateway.gateway.routing.planning.model_facts import KnownModels
from strowger_gateway.gateway.routing.planning.prices import Prices

MOST: Final = 1_000
SHOWN: Final = 50

PriceSource = Literal["own", "catalogue", "stated", "unknown"]
"""own: a row of `prices`. catalogue: published prices. stated: the vendor's answers have it."""


class ModelsAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which models."""

    search: Annotated[str, Meta(description="in a name, an alias or a backend", max_length=200)] = (
        ""
    )
    limit: Annotated[int, Meta(description="number of models", ge=1, le=MOST)] = SHOWN
    offset: Annotated[int, Meta(description="models to skip", ge=0, le=1_000_000)] = 0


class PriceView(Struct, frozen=True, kw_only=True):
    """US dollars per million tokens; null: unknown, or as `input`.

    above: prompts with more tokens than one of these cost more. where: the row of the
    configuration, or the catalogue with its version. since: ISO date. unknown: why it is unknown.
    """

    source: PriceSource
    input: float | None = None
    output: float | None = None
    cached_input: float | None = None
    cache_write: float | None = None
    above: tuple[int, ...] = ()
    where: str = ""
    since: str = ""
    url: str = ""
    unknown: str = ""


class ModelBackend(Struct, frozen=True, kw_only=True):
    """One backend of a model. Facts are null if they are unknown.

    name: PROVIDER/MODEL. replica: HOST:PORT of one of several. share: its weight among the model's;
    null: only a rule or a variant uses it. state: as in `strowger routes`.
    context, max_output: tokens. retires: ISO date. facts: where they come from.
    """

    name: str
    replica: str
    share: float | None
    variants: tuple[str, ...]
    up: bool
    tried: bool
    state: str
    context: int | None
    max_output: int | None
    input: tuple[Modality, ...] | None
    output: tuple[Modality, ...] | None
    tools: bool | None
    reasoning: bool | None
    structured_output: bool | None
    retires: str | None
    facts: str
    price: PriceView


class ModelSummary(Struct, frozen=True, kw_only=True):
    """One entry of `models`, as in GET /admin/backends, with what its backends can and cost."""

    name: str
    aliases: tuple[str, ...]
    policy: str
    when: list[RuleView]
    fallback: tuple[str, ...]
    fallback_by_error: list[ErrorFallbackView]
    experiment: ExperimentView | None
    mirror: MirrorConfig | None
    backends: tuple[ModelBackend, ...]


class ModelSummaries(Struct, frozen=True, kw_only=True):
    """total: of the models that match, with those that `limit` and `offset` leave out."""

    models: tuple[ModelSummary, ...]
    total: int


def summarize(runtime: Runtime, asked: ModelsAsked, at: float) -> ModelSummaries:
    """at: the clock's seconds. Health is that of this process."""
    config = runtime.config
    found = [one for one in listed(runtime, at).models if _matches(one, asked.search)]
    shown = found[asked.offset : asked.offset + asked.limit]
    facts, prices = models_of(config), _Priced(config)
    return ModelSummaries(
        models=tuple(_summary(one, facts, prices) for one in shown), total=len(found)
    )


class _Priced:
    """Finds the price of a backend, and where it comes from."""

    def __init__(self, config: Config) -> None:
        self._prices: Prices = prices_of(config)
        self._rows: Mapping[str, int] = {row.match: at for at, row in enumerate(config.prices)}
        self._catalogue: Mapping[str, CatalogueRow] = {row.backend: row for row in config.catalogue}

    def of(self, backend: str) -> PriceView:
        found, listed_row = self._prices.of(backend), self._catalogue.get(backend)
        row = None if found is None else found.row
        if row is not None and listed_row is None:
            return _view(row, "own", where=f"prices[{self._rows[row.match]}]")
        if listed_row is not None and row is not None:
            return _view(row, "catalogue", listed_row)
        if found is not None and found.reports:
            return PriceView(source="stated", where="the vendor's answers")
        why = "" if listed_row is None else listed_row.unknown
        return PriceView(source="unknown", unknown=why or "no row of prices matches it")


def _view(
    row: Price, source: PriceSource, listed_row: CatalogueRow | None = None, where: str = ""
) -> PriceView:
    return PriceView(
        source=source,
        input=row.input,
        output=row.output,
        cached_input=row.cached_input,
        cache_write=row.cache_write,
        above=tuple(tier.above for tier in row.tiers),
        where=where if listed_row is None else listed_row.source,
        since="" if listed_row is None else listed_row.since,
        url="" if listed_row is None else listed_row.url,
    )


def _matches(model: ModelView, search: str) -> bool:
    sought = search.casefold()
    names: Iterable[str] = (model.name, *model.aliases, *(one.name for one in model.backends))
    return any(sought in name.casefold() for name in names)


def _summary(model: ModelView, facts: KnownModels, prices: _Priced) -> ModelSummary:
    return ModelSummary(
        name=model.name,
        aliases=model.aliases,
        policy=model.policy,
        when=model.when,
        fallback=model.fallback,
        fallback_by_error=model.fallback_by_error,
        experiment=model.experiment,
        mirror=model.mirror,
        backends=tuple(_backend(one, facts, prices) for one in model.backends),
    )


def _backend(one: BackendView, known: KnownModels, prices: _Priced) -> ModelBackend:
    facts = known.of(one.name)
    return ModelBackend(
        name=one.name,
        replica=one.replica,
        share=one.weight,
        variants=one.variants,
        up=one.health.up,
        tried=one.health.tried,
        state=describe(one.health),
        context=facts.context,
        max_output=facts.max_output,
        input=facts.input,
        output=facts.output,
        tools=facts.tools,
        reasoning=facts.reasoning,
        structured_output=facts.structured_output,
        retires=facts.retires,
        facts=", ".join(note for note in (facts.source, facts.url) if note),
        price=prices.of(one.name),
    )
