"""Every failure that crosses a package border, grouped by who must act.

GatewayError                      500  a bug of ours
├─ InvalidConfig                       the operator; refuses to start
├─ CallerError                         the caller; one attempt, no fallback, no breaker count
│  ├─ InvalidRequest              400  before anything was sent; another backend may support it
│  ├─ Unauthenticated             401
│  ├─ Forbidden                   403  the key may not use this
│  │  └─ PriceUnknown            403  what the request may cost is unknown, and a budget applies
│  ├─ ModelNotFound               404
│  ├─ RouteNotFound               404
│  ├─ Uncountable                 404  nothing counts its tokens exactly
│  ├─ ResponseNotFound            404  no response of this key has the id
│  ├─ ConversationNotFound        404
│  ├─ MethodNotAllowed            405
│  ├─ RequestTimeout              408  its body did not come in time
│  ├─ Conflict                    409  what it names exists, or is defined elsewhere
│  ├─ BodyTooLarge                413
│  ├─ UnsupportedMediaType        415
│  ├─ UpgradeRefused              426  a WebSocket
│  ├─ Throttled                   429  a limit of ours
│  │  ├─ LimitExceeded           429  one that the operator has set; carries retry_after
│  │  └─ BudgetExceeded          429  the same; carries retry_after unless the budget never resets
│  └─ UpstreamRejected            4xx  a backend rejects the request itself
├─ Unavailable                    503  draining, nothing healthy, memory for bodies used up
│  └─ RateLimited                 429  every backend is waiting out a 429; carries retry_after
├─ DeadlineExceeded               504  the request's own deadline has passed
└─ UpstreamError                       a backend; another may do better
   ├─ UpstreamUnreachable         502  nothing was sent
   │  └─ UpstreamStarting         503  a local engine that is loading or restarting
   ├─ UpstreamTimeout             504  something may have been sent
   │  └─ UpstreamSilent           504  a limit of ours has passed since
   ├─ UpstreamBusy                429  carries retry_after, seconds
   ├─ UpstreamRefused             424  our key, quota or deployment name
   ├─ UpstreamFailed              502  a 5xx, or a vendor's marker for a failed generation
   │  └─ UpstreamOverloaded       503  a 503 or 529; carries retry_after if the backend sent it
   └─ UpstreamBroken              502  an unreadable or truncated answer
      └─ UpstreamLost             502  a local engine died with the request
"""

from typing import ClassVar, Literal

from strowger_gateway.schemas.usage import Usage

RetryKind = Literal["connect", "timeout", "rate_limit", "server_error", "broken_stream"]

RefusalCause = Literal["account", "address", "model", "unclear", "request"]
"""What a backend refuses.

account: the operator's account, key, credit or quota, which no client can change.
address: the method or the path: `base_url` is wrong, or the server lacks this kind of request.
model:   the name of the model or deployment, or the key's right to use it. It is the client's own
         choice if the backend's model is a wildcard.
unclear: one of these, or something that the request names: the vendor does not say.
request: its content, or one of its fields.
"""


class GatewayError(Exception):
    """The root; raised directly only for our own bugs.

    status:      the HTTP status that the client gets.
    code:        a stable machine-readable code, for the envelope's `code`.
    param:       the path of the offending field, if there is one.
    retry_after: seconds that the client, or our next attempt, should wait; `None` if unknown.
    request_id:  of the request that failed, "" until the error is sent.
    dialect:     of the body that could not be read, where several vendors share a path.
    kind:        the entry in `retry.on` that allows another attempt; `None` is never retried.
    retry_helps: the client's own retry may succeed; false if only the operator can change anything.
    unread:      whether no model has read the prompt; `None`: its class decides (NEVER_READ).
    logged:      the message for the gateway's log and for `str`; it may contain addresses, which
                 the client's message does not.
    """

    status: int = 500
    code: str = "internal_error"
    request_id: str = ""
    dialect: str = ""
    kind: ClassVar[RetryKind | None] = None
    retry_helps: ClassVar[bool] = True
    unread: bool | None = None

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = self.logged = message
        self.param = param
        self.retry_after = retry_after
        if code is not None:
            self.code = code


class InvalidConfig(GatewayError):
    """`config.yaml` is invalid. `problems` holds every problem found, each a full sentence."""

    code = "invalid_config"

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class CallerError(GatewayError):
    """The caller must change something; never retried, never counted against a backend."""

    status = 400
    code = "invalid_request"


class InvalidRequest(CallerError):
    """The request is invalid, or a backend does not support it; nothing was sent."""


class FieldNotAllowed(InvalidRequest):
    """A backend could receive the field, but clients may not send it there."""

    status = 403
    code = "field_not_allowed"


class Unauthenticated(CallerError):
    status = 401
    code = "invalid_api_key"


class Forbidden(CallerError):
    status = 403
    code = "model_not_allowed"


class ContentBlocked(CallerError):
    """A guardrail blocked the request or its answer, or failed to examine it (status 503)."""

    code = "content_blocked"

    def __init__(self, message: str, *, code: str | None = None, status: int | None = None) -> None:
        super().__init__(message, code=code)
        if status is not None:
            self.status = status


class ModelNotFound(CallerError):
    """hidden: it exists, but this key may not use it; only the log shows it, not the answer."""

    hidden: bool = False
    status = 404
    code = "model_not_found"


class RouteNotFound(CallerError):
    status = 404
    code = "unknown_url"


class Uncountable(CallerError):
    """Nothing counts the request's tokens exactly. about: a rough count; `None`: not even that."""

    status = 404
    code = "tokens_not_counted"
    about: int | None = None


class ResponseNotFound(CallerError):
    """The key has no stored response, or no stored item, of this id."""

    status = 404
    code = "response_not_found"


class ConversationNotFound(CallerError):
    status = 404
    code = "conversation_not_found"


class PromptNotFound(CallerError):
    status = 404
    code = "prompt_not_found"


class MethodNotAllowed(CallerError):
    """allow: the value of the answer's `allow` header."""

    status = 405
    code = "method_not_allowed"

    def __init__(self, message: str, *, allow: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allow = allow


class RequestTimeout(CallerError):
    status = 408
    code = "request_timeout"


class Conflict(CallerError):
    """The name is taken, or its object is defined where this request cannot change it."""

    status = 409
    code = "conflict"


class BodyTooLarge(CallerError):
    status = 413
    code = "request_too_large"


class UnsupportedMediaType(CallerError):
    status = 415
    code = "unsupported_media_type"


class UpgradeRefused(CallerError):
    """The route has no other protocol than HTTP."""

    status = 426
    code = "upgrade_refused"


class Throttled(CallerError):
    status = 429
    code = "rate_limit_exceeded"


class LimitExceeded(Throttled):
    """A limit of `limits` has no room. `retry_after`: when it has; `None` if it never will."""

    code = "limit_exceeded"


class BudgetExceeded(Throttled):
    """A budget of `budgets` is used up. `retry_after`: when it begins again; `None` if never."""

    code = "budget_exceeded"


class PriceUnknown(Forbidden):
    """A budget in money applies, and the price of a backend that may answer is unknown."""

    code = "price_unknown"


class UpstreamRejected(CallerError):
    """A backend's 4xx about the request itself, with its status. type: its error type, if any."""

    code = "upstream_rejected"

    def __init__(
        self,
        message: str,
        *,
        status: int,
        upstream: str,
        type: str | None = None,
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, param=param, code=code)
        self.status = status
        self.upstream = upstream
        self.type = type


class Unavailable(GatewayError):
    """The gateway itself cannot accept the request now."""

    status = 503
    code = "unavailable"


class RateLimited(Unavailable):
    """Every backend answered 429 with a retry-after that has not passed yet."""

    status = 429
    code = "rate_limit_exceeded"


class DeadlineExceeded(GatewayError):
    """The request's own deadline for all attempts has passed."""

    status = 504
    code = "deadline_exceeded"


class UpstreamError(GatewayError):
    """A backend failed. `upstream` is the provider's configured name.

    elsewhere: only another backend may succeed; do not retry the same one.
    usage:     the usage that the backend reports for the failed answer, if any: it is charged for.
    counts:    the circuit breaker counts it; false if the client may have caused it.
    detail:    the message for the log, if that may contain more than the client's message.
    """

    status = 502
    code = "upstream_error"
    elsewhere: ClassVar[bool] = False
    counts: bool = True

    def __init__(
        self,
        message: str,
        *,
        upstream: str,
        code: str | None = None,
        retry_after: float | None = None,
        usage: Usage | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(f"{upstream}: {message}", code=code, retry_after=retry_after)
        if detail:
            self.logged = f"{upstream}: {detail}"
            self.args = (self.logged,)
        self.upstream = upstream
        self.usage = usage


class UpstreamUnreachable(UpstreamError):
    code = "upstream_unreachable"
    kind = "connect"


class UpstreamStarting(UpstreamUnreachable):
    """Carries `retry_after`, seconds, if it is known when the engine will be ready."""

    status = 503
    code = "upstream_starting"
    elsewhere = True


class UpstreamTimeout(UpstreamError):
    status = 504
    code = "upstream_timeout"
    kind = "timeout"


class UpstreamSilent(UpstreamTimeout):
    """One of our own limits of time has passed since; the backend is asked once more at most."""


class UpstreamBusy(UpstreamError):
    status = 429
    code = "rate_limit_exceeded"
    kind = "rate_limit"


class UpstreamRefused(UpstreamError):
    """The operator's key, quota or deployment name; another backend may still answer.

    Clients neither repeat its status, as a 5xx, nor blame their own key for it, as for a 401.

    about: what is refused. The circuit breaker never counts `unclear` and `request`.
    """

    status = 424
    code = "upstream_refused"
    retry_helps = False
    kind = "server_error"
    elsewhere = True

    def __init__(
        self,
        message: str,
        *,
        upstream: str,
        about: RefusalCause = "account",
        code: str | None = None,
        retry_after: float | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(
            message, upstream=upstream, code=code, retry_after=retry_after, detail=detail
        )
        self.about: RefusalCause = about
        self.counts = about not in ("unclear", "request")


class UpstreamFailed(UpstreamError):
    code = "upstream_failed"
    kind = "server_error"


class UpstreamOverloaded(UpstreamFailed):
    """The service is overloaded for all its clients; a 429 concerns only our quota."""

    status = 503
    code = "upstream_overloaded"


class UpstreamBroken(UpstreamError):
    code = "upstream_broken"
    kind = "broken_stream"


class UpstreamLost(UpstreamBroken):
    code = "upstream_lost"
    elsewhere = True
