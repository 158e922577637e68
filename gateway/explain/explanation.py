"""What `strowger explain` and `/admin/explain` tell of one request: where it would go, and why."""

from typing import Literal

from msgspec import Struct, field

from gateway.routing.backend_status import Health
from schemas.errors import GatewayError

Found = Literal["exact", "alias", "wildcard"]


class ExplainedRule(Struct, frozen=True, kw_only=True):
    """A `when` rule of the route. when: its conditions in words.

    holds: `None` where an earlier one did, and it was not looked at. unmet: what does not hold.
    """

    when: str
    backends: tuple[str, ...]
    holds: bool | None
    unmet: tuple[str, ...] = ()


class ExplainedVariant(Struct, frozen=True, kw_only=True):
    """A variant of the experiment. share: of all units."""

    name: str
    backend: str
    share: float


class ExplainedExperiment(Struct, frozen=True, kw_only=True):
    """The model's experiment, and this request's part in it.

    by:       what a variant is assigned to. unit: of this request; "" where it has none.
    variant:  whose backend answers first; "" where each request is drawn by itself, or a rule
              decides.
    excluded: why the request does not count; "": it counts.
    """

    name: str
    by: str
    unit: str
    variant: str
    excluded: str
    arms: tuple[ExplainedVariant, ...]


class ExplainedCandidate(Struct, frozen=True, kw_only=True):
    """A backend that would be asked, and what it would get.

    route:      the model through which it is reached: the request's, or a fallback.
    share:      of all draws that a policy may make, those in which it is its route's first.
    why:        of its place.
    model:      what it is asked for.
    dropped:    fields that it does not get. omitted_content: what else, though
                no backend is preferred for it.
    translated: fields that it knows by another name, and that name.
    set:        fields whose values are the operator's.
    variant:    the experiment's arm that this is, "" where it is none.
    """

    backend: str
    route: str
    share: float
    why: str
    model: str
    dropped: tuple[str, ...] = ()
    omitted_content: tuple[str, ...] = ()
    translated: dict[str, str] = field(default_factory=dict)
    set: tuple[str, ...] = ()
    variant: str = ""
    health: Health


class Reason(Struct, frozen=True, kw_only=True):
    """field: of the request, "" where none is to blame. words: end a sentence that it begins."""

    field: str = ""
    words: str


class RuledOut(Struct, frozen=True, kw_only=True):
    """A backend that would not be asked, with every reason."""

    backend: str
    route: str
    reasons: tuple[Reason, ...]


class ExplainedErrorFallback(Struct, frozen=True, kw_only=True):
    """Where the request goes on after a failure with this code."""

    code: str
    models: tuple[str, ...]
    backends: tuple[str, ...]


class Bounds(Struct, frozen=True, kw_only=True):
    """attempts: over all backends and fallbacks. retry_on: kinds of failure. Times in seconds.

    hedge_after_s: without content for so long, the next is asked as well; `None`: never.
    """

    attempts: int
    deadline_s: float
    retry_on: tuple[str, ...]
    backoff_s: float
    max_backoff_s: float
    hedge_after_s: float | None = None


class ExplainedMirror(Struct, frozen=True, kw_only=True):
    """Who gets a copy of a share of such requests afterwards.

    unsupported_reason: why this one cannot be copied, for it has no words for it; "": it can.
    """

    backend: str
    share: float
    unsupported_reason: str = ""


class Refusal(Struct, frozen=True, kw_only=True):
    """The error that the client would get at once."""

    status: int
    code: str
    message: str
    param: str | None = None
    retry_after: float | None = None


class Explanation(Struct, frozen=True, kw_only=True):
    """Everything about one request that is decided before a backend is asked.

    path, surface: where it came in. model: what it asks for. key: "" without one.
    found:      how the route was found; `None` where it was not.
    rule:       the place in `rules` of the one that decides, from 0.
    candidates: in the order in which they would most likely be asked.
    down:       backends that were assumed to be broken.
    """

    path: str
    surface: str
    task: str
    model: str
    stream: bool
    key: str = ""
    route: str = ""
    found: Found | None = None
    policy: str = ""
    rules: tuple[ExplainedRule, ...] = ()
    rule: int | None = None
    experiment: ExplainedExperiment | None = None
    candidates: tuple[ExplainedCandidate, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    fallback: tuple[str, ...] = ()
    fallback_by_error: tuple[ExplainedErrorFallback, ...] = ()
    bounds: Bounds | None = None
    mirror: ExplainedMirror | None = None
    down: tuple[str, ...] = ()
    refused: Refusal | None = None


def refusal(error: GatewayError) -> Refusal:
    return Refusal(
        status=error.status,
        code=error.code,
        message=error.message,
        param=error.param,
        retry_after=error.retry_after,
    )
