"""The codes of errors that the configuration may list, and what is wrong with any other."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from gateway.config.foreign_names import suggest
from gateway.config.problems import Found, Path, Problems, listed
from schemas.errors import InvalidRequest, Unavailable, UpstreamError, UpstreamRejected

VENDOR = "vendor:"
"""Begins a code that is a vendor's own, and that the gateway hands on as it came."""

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
        "invalid_image_url",
        "upstream_model_unknown",
        # Vendors', which adapters and the local engine use where a vendor has no word for it.
        # https://platform.openai.com/docs/guides/error-codes
        # https://learn.microsoft.com/en-us/azure/ai-foundry/openai/concepts/content-filter
        "content_filter",
        "context_length_exceeded",
    }
)
"""What a failed attempt can end with, beside the words of vendors."""

SAME: Mapping[str, str] = {"content_policy_violation": "content_filter"}
"""By a vendor's word, the code that means the same; a rule for the code is one for the word."""

_BEFORE = "is told before any backend is asked, and so leads nowhere"
NO_ATTEMPTS: Mapping[str, str] = {
    "invalid_api_key": f'{_BEFORE}; a backend that refuses our key is "upstream_refused"',
    "model_not_found": f'{_BEFORE}; a backend\'s is "upstream_model_unknown"',
    "model_not_allowed": _BEFORE,
    "priority_not_allowed": _BEFORE,
    "request_timeout": f'{_BEFORE}; a backend\'s is "upstream_timeout"',
    "request_too_large": f'{_BEFORE}; a backend\'s is "context_length_exceeded"',
    "unsupported_media_type": _BEFORE,
    "body_too_complex": _BEFORE,
    "host_not_allowed": _BEFORE,
    "cross_site": _BEFORE,
    "too_many_wrong_keys": _BEFORE,
    "unsupported": f"{_BEFORE}: backends that can honour a field are found without it",
    "unknown_url": _BEFORE,
    "method_not_allowed": _BEFORE,
    "deadline_exceeded": 'leaves no time to ask anybody; a backend\'s own is "upstream_timeout"',
    "client_closed_request": "means that nobody waits for an answer",
    "upstream_error": "stands for all failures of backends and is told of none; name those meant",
    "internal_error": "is a bug of the gateway's, which no backend can mend",
    "store_unavailable": "is no failure of a backend's",
    "invalid_config": "is no failure of a backend's",
    "unknown_request": "is no failure of a backend's",
    "request_not_found": "is no failure of a backend's",
    "experiment_not_found": "is no failure of a backend's",
}
"""Codes of ours after which nobody else can be asked, each with the end of a sentence."""


def check_codes(codes: tuple[str, ...], path: Path, problems: Problems) -> None:
    """Each is one of CODES, or a vendor's and says so."""
    for place, code in enumerate(codes):
        where: Path = (*path, place)
        if problems.at(where) or code in CODES:
            continue
        if code in NO_ATTEMPTS:
            problems.add(where, Found(code), f" {NO_ATTEMPTS[code]}")
        elif not code.startswith(VENDOR):
            ours = suggest(code, CODES)
            close = [ours] if ours else get_close_matches(code, sorted(CODES), _CLOSEST)
            hint = (
                f"did you mean {listed(close, 'or')}?"
                if close
                else f"known are {listed(sorted(CODES), 'and')}."
            )
            problems.add(
                where,
                "there is no error code ",
                Found(code),
                f"; {hint} A vendor's own is written as ",
                Found(VENDOR + code),
            )
        elif not code.removeprefix(VENDOR).strip():
            problems.add(where, Found(code), " names no code; write the vendor's behind the colon")


def meanings(code: str) -> frozenset[str]:
    """A failure's code, and the one that it is by another name."""
    return frozenset((code, SAME.get(code, code)))


def plain(code: str) -> str:
    """As an error carries it."""
    return code.removeprefix(VENDOR)
