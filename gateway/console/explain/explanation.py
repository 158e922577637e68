"""The answer of `strowger explain` and `/admin/explain`: where a request would go, and why."""

from typing import Literal

from msgspec import Struct, field

from strowger_gateway.gateway.config.schema.failover import StreamRecovery
from strowger_gateway.gateway.routing.backend_status import BackendStatus
from strowger_gateway.gateway.routing.resilience.replica import REPLICA_MARK
from strowger_gateway.schemas.errors import GatewayError

Found = Literal["exact", "alias", "wildcard"]


class ExplainedRule(Struct, frozen=True, kw_only=True):
    """A `when` rule of the route. when: its conditions as text.

    holds: `None` if an earlier rule matched, so that this one was not evaluated.
    unmet: the conditions that do not match.
    """

    when: str
    backends: tuple[str, ...]
    holds: bool | None
    unmet: tuple[str, ...] = ()


class ExplainedPrompt(Struct, frozen=True, kw_only=True):
    """The prompt that the request gets.

    name:   NAME@VERSION. digest: of its text. why: this one.
    repaired: values that it has no field for, as `PATH:RULE`.
    """

    name: str
    digest: str
    why: str
    repaired: tuple[str, ...] = ()


class ExplainedVariant(Struct, frozen=True, kw_only=True):
    """A variant of the experiment. share: of all units, 0 to 1. prompt: NAME@VERSION, or ""."""

    name: str
    backend: str
    share: float
    prompt: str = ""


class ExplainedExperiment(Struct, frozen=True, kw_only=True):
    """The model's experiment, and this request's part in it.

    by:       the kind of unit that variants are assigned to.
    unit:     of this request; "" if it has none.
    variant:  the variant whose backend is tried first; "" if each request is drawn separately, or
              a `when` rule decides.
    excluded: why the request does not count; "" if it counts.
    """

    name: str
    by: str
    unit: str
    variant: str
    excluded: str
    arms: tuple[ExplainedVariant, ...]


class ExplainedCandidate(Struct, frozen=True, kw_only=True):
    """A backend that would be tried, and what it would receive.

    route:      the model that leads to it: the request's, or a fallback.
    share:      share of the policy's draws in which it is the first of its route, 0 to 1.
    why:        why it has this place.
    model:      the model name that it receives.
    dropped:    fields that it does not receive.
    omitted_content: other content that it does not receive; routing does not consider it.
    translated: fields that it receives under another name, with that name.
    set:        fields whose values the operator sets.
    defaulted:  values in place of missing or too large ones: `max_tokens=8192`.
    repaired:   what is changed so that the backend accepts it: `messages[].role:developer_role`.
    context, max_output: tokens that its model reads and answers; `None` is unknown.
    variant:    its variant of the experiment; "" if it is none.
    replica:    HOST:PORT of the replica; "" if the backend has none.
    headers:    that its endpoint picker receives, by name.
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
    defaulted: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()
    context: int | None = None
    max_output: int | None = None
    variant: str = ""
    health: BackendStatus
    replica: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The backend's name, with the address of its replica."""
        return f"{self.backend}{REPLICA_MARK}{self.replica}" if self.replica else self.backend


class Reason(Struct, frozen=True, kw_only=True):
    """field: the request field that causes it, or "". words: a predicate that follows `field`."""

    field: str = ""
    words: str


class RuledOut(Struct, frozen=True, kw_only=True):
    """A backend that would not be tried, with every reason."""

    backend: str
    route: str
    reasons: tuple[Reason, ...]


class ExplainedErrorFallback(Struct, frozen=True, kw_only=True):
    """The models and backends that are tried after a failure with this code."""

    code: str
    models: tuple[str, ...]
    backends: tuple[str, ...]


class Bounds(Struct, frozen=True, kw_only=True):
    """attempts: over all backends and fallbacks. retry_on: kinds of failure. Times in seconds.

    hedge_after_s: seconds without content before the next is tried as well; `None`: never.
    stream_recovery: what follows a stream that breaks off after content.
    """

    attempts: int
    deadline_s: float
    retry_on: tuple[str, ...]
    backoff_s: float
    max_backoff_s: float
    hedge_after_s: float | None = None
    stream_recovery: StreamRecovery = "error"


class ExplainedMirror(Struct, frozen=True, kw_only=True):
    """The backend that gets copies of a share of such requests after they are answered.

    unsupported_reason: why the backend's API cannot express this request; "" if it can.
    """

    backend: str
    share: float
    unsupported_reason: str = ""


class ExplainedLimit(Struct, frozen=True, kw_only=True):
    """A limit or a budget that the request is held to, with one quantity of it.

    subject:  whose account counts; "" for a common one.
    quantity: requests, tokens, concurrent (at the same time) or usd.
    per:      its period; "" without one.
    needs:    what the request reserves. allowed: in a period.
    left:     of it; `None` if that is not known.
    refuses:  it would refuse the request now. waits_s: it would hold it for room, about so long.
    moves_to: the cheaper model to which the budget would send it.
    """

    kind: Literal["limit", "budget"]
    name: str
    subject: str
    quantity: Literal["requests", "tokens", "concurrent", "usd"]
    per: str
    needs: float
    allowed: float
    left: float | None = None
    refuses: bool = False
    waits_s: float | None = None
    moves_to: str = ""


class Refusal(Struct, frozen=True, kw_only=True):
    """The error that the client would get without any attempt."""

    status: int
    code: str
    message: str
    param: str | None = None
    retry_after: float | None = None


class Explanation(Struct, frozen=True, kw_only=True):
    """Everything about one request that is decided before the first attempt.

    path, surface: of the request. model: the name in the request.
    key, team, plan: of the caller, "" without one. The key of a token is its caller's name.
    prompt:     `None` if it gets none.
    compaction: what becomes of a long conversation; "" if its client asks for nothing.
    found:      how the route was found; `None` if it was not.
    rule:       the index in `rules` of the one that decides, from 0.
    candidates: in the order in which they would most likely be tried.
    down:       backends that were assumed down.
    end_user:   the account of the request's end user; "" if no limit or budget needs one.
    limits:     limits and budgets that it is held to, in the order in which they are checked.
    """

    path: str
    surface: str
    task: str
    model: str
    stream: bool
    prompt: ExplainedPrompt | None = None
    compaction: str = ""
    key: str = ""
    team: str = ""
    plan: str = ""
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
    end_user: str = ""
    limits: tuple[ExplainedLimit, ...] = ()
    refused: Refusal | None = None


def refusal(error: GatewayError) -> Refusal:
    return Refusal(
        status=error.status,
        code=error.code,
        message=error.message,
        param=error.param,
        retry_after=error.retry_after,
    )
