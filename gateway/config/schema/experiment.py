"""The shape of `experiments`: A/B tests over models."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from strowger_gateway.gateway.config.schema.metric import MetricContract, MetricName
from strowger_gateway.gateway.config.schema.units import BackendName, Count, Name, Weight
from strowger_gateway.schemas.sampling import Sampling

Label = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="up to 64 letters, digits and . - _, starting with a letter or digit",
    ),
]
"""A name that is sent in headers and paths."""

AssignBy = Annotated[
    str,
    Meta(
        pattern=r"^(user|session|api_key|request|header:[A-Za-z0-9-]+)$",
        description="user, session, api_key, request or header:NAME",
    ),
]


Covariate = Literal["prompt_tokens", "past"]
"""What is known of a unit whatever its variant."""

VotesUntil = Annotated[
    str,
    Meta(
        pattern=r"^([1-9][0-9]{0,3}[mhd])?$",
        description="a number of minutes, hours or days, such as 30m, 24h or 7d",
    ),
]
_UNIT_S = {"m": 60.0, "h": 3_600.0, "d": 86_400.0}


class VariantFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The request fields that a variant sets; in config.yaml all on one level.

    system: prepended to the conversation's own system message.
    """

    sampling: Annotated[Sampling, Meta(extra={"flatten": True})] = Sampling()
    system: str | UnsetType = UNSET


PromptRef = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,63}@[A-Za-z0-9][A-Za-z0-9._-]{0,63})?$",
        description="NAME@VERSION of a prompt",
    ),
]
"""Or "" for none, which stored definitions have."""


class Variant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An arm of an experiment: a backend, a prompt, or both.

    backend: with a prompt it may be left out; then it is the model's only one.
    prompt:  the version that requests get in place of the one that they name, as NAME@VERSION; ""
             leaves their prompt as it is. prompt_text, prompt_digest: of that version.
    """

    name: Label
    backend: BackendName = ""
    weight: Weight
    set: VariantFields = VariantFields()
    prompt: PromptRef = ""
    prompt_text: Annotated[str, Meta(extra={"resolved": True})] = ""
    prompt_digest: Annotated[str, Meta(extra={"resolved": True})] = ""


class HarmLimit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pause the experiment when a variant's metric is significantly worse by `worse_by` or more."""

    metric: MetricName
    worse_by: Annotated[float, Meta(gt=0)]


class Circuit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pause the experiment when a variant fails as a whole, and control does not.

    requests: of a variant, the last ones that are looked at; fewer decide nothing.
    share:    the part of them that has to fail, 0 to 1; control's has to be below half of it.
    """

    requests: Annotated[int, Meta(ge=5, le=10_000)] = 20
    share: Annotated[float, Meta(gt=0, le=1)] = 0.5


class NotWorse(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """by: the tolerated difference; relative for times."""

    metric: MetricName
    by: Annotated[float, Meta(gt=0)]


class Decide(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a variant is to replace the control: better in one metric, and not worse in others."""

    better: MetricName
    not_worse: tuple[NotWorse, ...] = ()


class Experiment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An A/B test over one model. The first variant is the control.

    circuit:  when a variant that fails as a whole pauses it; "off": never.
    decide:   the conditions for shipping a variant; their outcome is the verdict.
    per:      a mean is over all observations, or over the units' own means.
    alpha:    probability that the primary metric's intervals ever miss, over all looks and
              treatments.
    planned:  total units at which the intervals are narrowest; fixed before the experiment starts.
    smallest: the smallest difference of the primary metric that matters; relative for times.
    adjust:   what differences are adjusted by: the tokens of the client's prompts, and the unit's
              own mean of the metric in the epochs before the first with several variants.
    aa:       all variants are the same, and the experiment tests the gateway.
    replay_keys: names of the API keys whose requests may ask for a variant, and then do not count.
    votes_until: how long after a request's end a vote on it counts; "": always.
    show_variant: answers name their variant and backend in headers, and the backend's model.
    contracts: the configuration's `metrics`, set by `with_contracts`: the report of a removed
              experiment needs them after they are gone from the file.
    """

    name: Label
    model: Name
    variants: tuple[Variant, ...]
    primary: MetricName
    assign_by: AssignBy = "user"
    harm_limits: tuple[HarmLimit, ...] = ()
    circuit: Circuit | Literal["off"] = Circuit()
    decide: Decide | None = None
    per: Literal["observation", "unit"] = "observation"
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    planned: Count = 10_000
    smallest: Annotated[float, Meta(gt=0)] | None = None
    adjust: tuple[Covariate, ...] = ()
    aa: bool = False
    replay_keys: tuple[Name, ...] = ()
    votes_until: VotesUntil = ""
    show_variant: bool = True
    contracts: Annotated[tuple[MetricContract, ...], Meta(extra={"resolved": True})] = ()

    def contract(self, metric: str) -> MetricContract | None:
        return next((one for one in self.contracts if one.name == metric), None)

    def decided_by(self, metric: str) -> bool:
        """True if the metric is the primary one, one of `decide`, or one of a harm limit."""
        return metric in (*self.deciding, *(one.metric for one in self.harm_limits))

    @property
    def deciding(self) -> tuple[str, ...]:
        """The metrics that the verdict depends on: the primary one, and those of `decide`."""
        if self.decide is None:
            return (self.primary,)
        clauses = (one.metric for one in self.decide.not_worse)
        return (self.primary, self.decide.better, *clauses)

    @property
    def circuit_rule(self) -> Circuit | None:
        """The rule of `circuit`; `None` if it is off."""
        return None if self.circuit == "off" else self.circuit

    @property
    def votes_until_s(self) -> float | None:
        """Seconds; `None`: always."""
        return (
            int(self.votes_until[:-1]) * _UNIT_S[self.votes_until[-1]] if self.votes_until else None
        )

    @property
    def control(self) -> Variant:
        return self.variants[0]
