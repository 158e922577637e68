"""The shape of `experiments`: A/B tests over models."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from gateway.config.quantities import BackendName, Name, Weight
from schemas.sampling import Sampling

AssignBy = Annotated[
    str,
    Meta(
        pattern=r"^(user|api_key|request|header:[A-Za-z0-9-]+)$",
        description="user, api_key, request or header:NAME",
    ),
]


class VariantFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a variant changes in a request; in config.yaml all at one level."""

    sampling: Annotated[Sampling, Meta(extra={"flatten": True})] = Sampling()
    system: str | UnsetType = UNSET


class Variant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An arm of an experiment."""

    name: Name
    backend: BackendName
    weight: Weight
    set: VariantFields = VariantFields()


class Guardrail(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pauses the experiment when a variant's metric is worse by so much beyond doubt."""

    metric: Name
    worse_by: Annotated[float, Meta(gt=0)]


class Experiment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An A/B test over one model."""

    name: Name
    model: Name
    variants: tuple[Variant, ...]
    primary: Name
    assign_by: AssignBy = "user"
    guardrails: tuple[Guardrail, ...] = ()
