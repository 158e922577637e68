"""The error codes that the configuration may list, and messages about all others."""

from collections.abc import Iterator, Mapping

from strowger_gateway.gateway.config.foreign_names import suggest
from strowger_gateway.gateway.config.problems import Found, Path, Problems, listed
from strowger_gateway.schemas.close_names import close_names
from strowger_gateway.schemas.errors import (
    InvalidRequest,
    Unavailable,
    UpstreamError,
    UpstreamRejected,
)

VENDOR = "vendor:"
"""Prefix of a vendor's own code, which the gateway passes on unchanged."""

_CLOSEST = 3


def _kinds(kind: type[UpstreamError]) -> Iterator[type[UpstreamError]]:
    for one in kind.__subclasses__():
        yield one
        yield from _kinds(one)


CODES = frozenset(
    {
        *(kind.code for kind in _kinds(UpstreamError)),
        UpstreamRejected.code,
        InvalidRequest.code,
        Unavailable.code,
        "connections_in_use",
        "invalid_image_url",
        "upstream_model_unknown",
        # Vendors' codes, which adapters and the local engine use if a vendor has none for the case.
        # https://platform.openai.com/docs/guides/error-codes
        # https://learn.microsoft.com/en-us/azure/ai-foundry/openai/concepts/content-filter
        "content_filter",
        "context_length_exceeded",
    }
)
"""Codes of failed attempts, besides vendors' own codes."""

SAME: Mapping[str, str] = {"content_policy_violation": "content_filter"}
"""Our code by a vendor's code of the same meaning; a rule for our code covers the vendor's."""

_BEFORE = "is returned before any attempt, so a fallback has no effect"
NO_ATTEMPTS: Mapping[str, str] = {
    "invalid_api_key": f'{_BEFORE}; if a backend rejects our key, the code is "upstream_refused"',
    "api_key_disabled": _BEFORE,
    "api_key_expired": _BEFORE,
    "api_key_not_yet_valid": _BEFORE,
    "address_not_allowed": _BEFORE,
    "certificate_not_allowed": _BEFORE,
    "team_not_found": _BEFORE,
    "invalid_token": f'{_BEFORE}; if a backend rejects our key, the code is "upstream_refused"',
    "token_expired": _BEFORE,
    "token_not_yet_valid": _BEFORE,
    "token_not_allowed": _BEFORE,
    "identity_provider_unavailable": _BEFORE,
    "role_not_allowed": "is returned under /admin only",
    "role_not_found": "is returned under /admin only",
    "team_not_allowed": "is returned under /admin only",
    "session_not_found": "is returned under /admin only",
    "sign_in_state_invalid": "is returned under /admin only",
    "sign_in_refused": "is returned under /admin only",
    "sign_in_token_invalid": "is returned under /admin only",
    "sign_in_used": "is returned under /admin only",
    "key_not_found": "is returned under /admin only",
    "key_exists": "is returned under /admin only",
    "key_in_file": "is returned under /admin only",
    "key_revoked": "is returned under /admin only",
    "conflict": "is returned under /admin only",
    "model_not_found": f'{_BEFORE}; the code of backends is "upstream_model_unknown"',
    "model_not_allowed": _BEFORE,
    "request_timeout": f'{_BEFORE}; the code of backends is "upstream_timeout"',
    "request_too_large": f'{_BEFORE}; the code of backends is "context_length_exceeded"',
    "unsupported_media_type": _BEFORE,
    "body_too_complex": _BEFORE,
    "host_not_allowed": _BEFORE,
    "cross_site": _BEFORE,
    "too_many_wrong_keys": _BEFORE,
    "budget_exceeded": _BEFORE,
    "content_blocked": "is returned by guardrails, so a fallback has no effect",
    "content_not_readable": _BEFORE,
    "guardrail_failed": "is returned by guardrails, so a fallback has no effect",
    "price_unknown": _BEFORE,
    "limit_exceeded": f'{_BEFORE}; the code of backends is "rate_limit_exceeded"',
    "unsupported": f"{_BEFORE}: the gateway finds backends that support a field without it",
    "field_not_allowed": f"{_BEFORE}: the gateway finds backends that may get a field without it",
    "unknown_url": _BEFORE,
    "tokens_not_counted": "is returned for a count of tokens, which has no fallback",
    "method_not_allowed": _BEFORE,
    "deadline_exceeded": 'leaves no time to retry; the code of backends is "upstream_timeout"',
    "client_closed_request": "means that the client has disconnected",
    "upstream_error": "is the base of all backend failures and never returned; list specific codes",
    "internal_error": "is a bug of the gateway, which no backend can fix",
    "store_unavailable": "is not a failure of a backend",
    "invalid_config": "is not a failure of a backend",
    "unknown_replay": "is not a failure of a backend",
    "unknown_request": "is not a failure of a backend",
    "request_not_found": "is not a failure of a backend",
    "vote_too_late": "is not a failure of a backend",
    "experiment_not_found": "is not a failure of a backend",
    "not_in_experiment": "is not a failure of a backend",
    "exclusion_not_found": "is not a failure of a backend",
    "response_not_found": "is not a failure of a backend",
    "previous_response_not_found": _BEFORE,
    "conversation_not_found": _BEFORE,
    "prompt_not_found": _BEFORE,
    "upgrade_refused": _BEFORE,
}
"""Our codes after which no fallback is possible, each with the end of a sentence."""


def check_codes(codes: tuple[str, ...], path: Path, problems: Problems) -> None:
    """Each code must be one of CODES, or a vendor's with the prefix VENDOR."""
    for place, code in enumerate(codes):
        where: Path = (*path, place)
        if problems.at(where) or code in CODES:
            continue
        if code in NO_ATTEMPTS:
            problems.add(where, Found(code), f" {NO_ATTEMPTS[code]}")
        elif not code.startswith(VENDOR):
            ours = suggest(code, CODES)
            close = [ours] if ours else close_names(code, sorted(CODES), _CLOSEST)
            hint = (
                f"did you mean {listed(close, 'or')}?"
                if close
                else f"known codes: {listed(sorted(CODES), 'and')}."
            )
            problems.add(
                where,
                "unknown error code ",
                Found(code),
                f"; {hint} Write a vendor's own code as ",
                Found(VENDOR + code),
            )
        elif not code.removeprefix(VENDOR).strip():
            problems.add(
                where, Found(code), " contains no code; write the vendor's after the colon"
            )


def meanings(code: str) -> frozenset[str]:
    """A failure's code and its synonym."""
    return frozenset((code, SAME.get(code, code)))


def plain(code: str) -> str:
    """The code as errors carry it: without the prefix."""
    return code.removeprefix(VENDOR)
