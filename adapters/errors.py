"""Translates errors of OpenAI-dialect servers by status and code, and by the message text only for
a prompt that is too long (`adapters/prompt_too_long.py`) and for refusals (`adapters/refusals`).

https://platform.openai.com/docs/guides/error-codes
"""

from collections.abc import Mapping

from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.error_message import Problem, problem, redacted
from strowger_gateway.adapters.prompt_too_long import is_prompt_too_long, rejected_as_too_long
from strowger_gateway.adapters.refusals.cause import refusal_cause
from strowger_gateway.adapters.reset_hints import wait_of
from strowger_gateway.schemas.errors import (
    GatewayError,
    RefusalCause,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamOverloaded,
    UpstreamRefused,
    UpstreamRejected,
    UpstreamTimeout,
)

MODEL_UNKNOWN = "upstream_model_unknown"

_OPERATOR = "only the gateway's operator can change that (the gateway's log has the reason)"
_IN_OUR_WORDS: Mapping[RefusalCause, str] = {
    "account": f"its vendor refuses the gateway's own credentials or account; {_OPERATOR}",
    "address": f"it does not serve the path that the gateway is configured to call; {_OPERATOR}",
    "model": f"its vendor does not let the gateway's own account use this model; {_OPERATOR}",
}
"""What clients read instead of the vendor's text, which they take for one about their own key:
Claude Code reads `x-api-key` in it and advises its user to log in."""

TIMEOUTS = frozenset({408, 504, 524})
"""524: Cloudflare got no answer in time from the server behind it."""
OVERLOADED = frozenset({503, 529})
FAILED_4XX = frozenset({424, 425, 499})
"""4xx that blame the server: MindIE's and TGI's generation error, too early, upstream closed."""

STATUS_OF_CODE: Mapping[str, int] = {
    "invalid_request_error": 400,
    "bad_request": 400,
    "bad request": 400,
    "badrequesterror": 400,
    "invalid_parameter_value": 400,
    "context_length_exceeded": 400,
    "content_filter": 400,
    "validation": 422,
    "input validation error": 422,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found": 404,
    "resource_does_not_exist": 404,
    "notfounderror": 404,
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "request_limit_exceeded": 429,
    "resource_exhausted": 429,
    "too_many_requests": 429,
    "limit_requests": 429,
    "limit_burst_rate": 429,
    "requestlimitexceeded": 429,
    "1210": 400,
    "1211": 404,
    "1213": 400,
    "1214": 400,
    "1215": 400,
    "1261": 400,
    "1301": 400,
    "1302": 429,
    "1303": 429,
    "1304": 429,
    "1305": 429,
    "1308": 429,
    "1310": 429,
    "1312": 429,
    "1313": 429,
    "17": 429,
    "18": 429,
    "19": 429,
    "336501": 429,
    "336502": 429,
    "40001": 400,
    "40101": 401,
    "40102": 401,
    "40103": 403,
    "40301": 404,
    "40302": 400,
    "40303": 400,
    "42901": 429,
    "42902": 429,
    "42903": 503,
    "timeout": 504,
    "deadline_exceeded": 504,
    "overloaded_error": 503,
    "temporarily_unavailable": 503,
}
"""For an error inside a 200, which has no status of its own. Numbers of four digits are Zhipu's, of
two and six Baidu's, and of five FastChat's, whose other codes (50001 to 50006) are failures of a
server, as is Baidu's 4, a cluster at its limit.
https://github.com/lm-sys/FastChat/blob/main/fastchat/constants.py
https://docs.bigmodel.cn/cn/api/api-code
https://ai.baidu.com/ai-doc/WENXINWORKSHOP/tlmyncueh"""

THROTTLED = "throttling"
"""How Alibaba's codes for a rate that is too high begin: Throttling.RateQuota, .BurstRate, …
https://help.aliyun.com/en/model-studio/error-code-start"""


def error_from(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes
) -> GatewayError:
    """Return the error for an answer with a status of 400 or more."""
    return _error(endpoint, status, wait_of(status, headers, body), problem(body))


def error_inside(endpoint: Endpoint, body: bytes) -> GatewayError:
    """Return the error for a 200 whose body, or a frame of it, reports a failure."""
    found = problem(body)
    words = (word.lower() for word in (found.code, found.type) if word)
    known = (status for word in words if (status := _status_of(word)))
    status = found.status or next(known, 500)
    return _error(endpoint, status, wait_of(status, {}, body), found, inside=True)


def unreadable(endpoint: Endpoint, body: bytes | Raw) -> UpstreamBroken:
    """Return the error for an answer that is not the expected JSON: it shows the first 80 bytes."""
    head = bytes(body)[:80].decode(errors="replace")
    return UpstreamBroken(f"cannot read the answer: {head}", upstream=endpoint.name)


def _status_of(word: str) -> int:
    """Return the status of a code, in lower case; 0 if it is not known."""
    return STATUS_OF_CODE.get(word, 429 if word.startswith(THROTTLED) else 0)


def refused(
    text: str,
    upstream: str,
    status: int,
    about: RefusalCause,
    retry_after: float | None = None,
) -> UpstreamRefused:
    """Return the error for a refusal, with the vendor's text for the log.

    A model that the provider lacks has a code of its own, and the vendor's text for the client,
    who may have chosen its name.
    """
    if about != "account" and (status in (400, 404) or not 400 <= status < 500):
        return UpstreamRefused(
            text, upstream=upstream, code=MODEL_UNKNOWN, about=about, retry_after=retry_after
        )
    own = _IN_OUR_WORDS.get(about, text)
    return UpstreamRefused(
        own, upstream=upstream, about=about, retry_after=retry_after, detail=text
    )


def _error(
    endpoint: Endpoint,
    status: int,
    wait: float | None,
    found: Problem,
    *,
    inside: bool = False,
) -> GatewayError:
    name = endpoint.name
    text = redacted(found.message, _secrets(endpoint)) or f"answered with status {status}"
    words = {word.lower() for word in (found.code, found.type) if word}
    if status == 403 and is_prompt_too_long(text, found.code, found.type):
        return rejected_as_too_long(text, upstream=name)
    about = refusal_cause(status, words, text, found.param, inside=inside)
    if about == "load":
        status = 429
    elif about is not None:
        return refused(text, name, status, about, wait)
    if status in TIMEOUTS:
        return UpstreamTimeout(text, upstream=name, retry_after=wait)
    if status == 429:
        return UpstreamBusy(text, upstream=name, retry_after=wait)
    if is_prompt_too_long(text, found.code, found.type):
        return rejected_as_too_long(text, upstream=name)
    if status in OVERLOADED:
        return UpstreamOverloaded(text, upstream=name, retry_after=wait)
    if status >= 500 or status in FAILED_4XX or status < 400:
        return UpstreamFailed(text, upstream=name, retry_after=wait)
    return UpstreamRejected(
        text,
        status=status,
        upstream=name,
        type=found.type,
        param=found.param,
        code=found.code,
    )


def _secrets(endpoint: Endpoint) -> tuple[str, ...]:
    """The key, and the values of the operator's own headers, which may be credentials too."""
    return (endpoint.key.reveal(), *(value for _, value in endpoint.headers if len(value) >= 16))
